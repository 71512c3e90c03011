//! Fragments that the generator sends faulty on purpose, so that a group can try out what becomes of them
//! in its run. Which ones follows from the seed: the same run has the same faults.
//!
//! | fault | what is sent | what a builder makes of it |
//! |---|---|---|
//! | late | the fragment, or the last piece of it, after a delay | late, or built if the delay is below the builder's timeout |
//! | twice | the fragment, and at once again | the second one is a duplicate |
//! | number | the fragment with a number that no event has | unassigned |
//! | size | the fragment without its last byte, with a right check code; an empty one with a byte | corrupt |
//! | check | the fragment with a wrong check code | corrupt |

use crate::scatter::scatter;

/// How a fragment is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It comes after a delay.
    Late,
    /// It comes twice.
    Twice,
    /// It has the number of no event.
    Number,
    /// It has another size.
    Size,
    /// Its check code is wrong.
    Check,
}

/// Which shares of fragments are faulty, 0 to 1 each, and together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Of [`Fault::Late`].
    pub late: f64,
    /// How much later those are sent.
    pub delay: barewire_units::Duration,
    /// Of [`Fault::Twice`].
    pub twice: f64,
    /// Of [`Fault::Number`].
    pub number: f64,
    /// Of [`Fault::Size`].
    pub size: f64,
    /// Of [`Fault::Check`].
    pub check: f64,
}

impl Faults {
    const fn shares(&self) -> [(Fault, f64); 5] {
        [
            (Fault::Late, self.late),
            (Fault::Twice, self.twice),
            (Fault::Number, self.number),
            (Fault::Size, self.size),
            (Fault::Check, self.check),
        ]
    }

    /// The share of faulty fragments.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.shares().iter().map(|it| it.1).sum()
    }

    /// Whether there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.shares().iter().any(|it| it.1 > 0.0)
    }

    /// How the fragment of an event is faulty, if it is.
    #[must_use]
    pub fn of(&self, seed: u64, source: u16, event: u64) -> Option<Fault> {
        const SALT: u64 = 0x6661_756c_7473_2121;
        let of_source = scatter(seed ^ SALT ^ u64::from(source).rotate_left(48));
        let bits = scatter(of_source ^ scatter(event)) >> 11;
        // From 0 to 1, not 1 itself.
        let mut drawn = bits as f64 / (1_u64 << 53) as f64;
        for (fault, share) in self.shares() {
            if drawn < share {
                return Some(fault);
            }
            drawn -= share;
        }
        None
    }
}

/// Fragments that a source has sent faulty on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// [`Fault::Late`].
    pub late: u64,
    /// [`Fault::Twice`].
    pub twice: u64,
    /// [`Fault::Number`].
    pub number: u64,
    /// [`Fault::Size`].
    pub size: u64,
    /// [`Fault::Check`].
    pub check: u64,
}

impl FaultCounts {
    /// One more.
    pub const fn note(&mut self, fault: Fault) {
        match fault {
            Fault::Late => self.late += 1,
            Fault::Twice => self.twice += 1,
            Fault::Number => self.number += 1,
            Fault::Size => self.size += 1,
            Fault::Check => self.check += 1,
        }
    }

    /// With these together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            late: self.late + other.late,
            twice: self.twice + other.twice,
            number: self.number + other.number,
            size: self.size + other.size,
            check: self.check + other.check,
        }
    }

    /// Those that an event may lack.
    #[must_use]
    pub const fn absent(&self) -> u64 {
        self.late + self.number + self.corrupt()
    }

    /// Those that builders find damaged.
    #[must_use]
    pub const fn corrupt(&self) -> u64 {
        self.size + self.check
    }

    /// For people; empty if there are none.
    #[must_use]
    pub fn in_words(&self) -> String {
        let all = [
            ("late", self.late),
            ("twice", self.twice),
            ("with a wrong number", self.number),
            ("with a wrong size", self.size),
            ("with a wrong check code", self.check),
        ];
        let some = all.iter().filter(|it| it.1 > 0);
        let some: Vec<_> = some
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        some.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_said_and_follow_from_the_seed() {
        let faults = Faults {
            late: 0.01,
            twice: 0.02,
            number: 0.03,
            size: 0.04,
            check: 0.05,
            ..Faults::default()
        };
        let counts = |seed: u64, source: u16| {
            let mut counts = FaultCounts::default();
            let all = (0..100_000).filter_map(|event| faults.of(seed, source, event));
            all.for_each(|it| counts.note(it));
            counts
        };
        let found = counts(1, 2);
        for (count, share) in [
            (found.late, 0.01),
            (found.twice, 0.02),
            (found.number, 0.03),
            (found.size, 0.04),
            (found.check, 0.05),
        ] {
            let wanted = 100_000.0 * share;
            // Five standard deviations.
            let off = 5.0 * f64::sqrt(wanted);
            assert!((count as f64 - wanted).abs() < off, "{found:?}");
        }
        assert_eq!(counts(1, 2), found);
        assert_ne!(counts(1, 3), found);
        assert_ne!(counts(2, 2), found);
        assert_eq!(Faults::default().of(1, 2, 3), None);
        assert!(!Faults::default().any() && faults.any());
        let all = Faults {
            check: 1.0,
            ..Faults::default()
        };
        assert!((0..1000).all(|event| all.of(5, 0, event) == Some(Fault::Check)));
        let words = FaultCounts::default().and(FaultCounts {
            late: 2,
            check: 3,
            ..FaultCounts::default()
        });
        assert_eq!(words.in_words(), "2 late, 3 with a wrong check code");
        assert_eq!((words.corrupt(), words.absent()), (3, 5));
    }
}
