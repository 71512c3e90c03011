//! What lets a part into a run: whoever starts a run gives its parts a number that nobody can guess, and counts how
//! often each of them was started. A part of another run is turned away, and so is one whose seat is taken,
//! unless it is a later start of the same part.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::Command;

const VARIABLE: &str = "BAREWIRE_DAQ_SEAT";

/// By which a part shows that it belongs to a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// Of the run; 0: it was started by hand.
    pub secret: u64,
    /// How often the part was started before.
    pub start: u32,
}

impl Seat {
    /// Of the first starts of a new run.
    #[must_use]
    pub fn of_new_run() -> Self {
        // Keys from the kernel's random numbers. 0 is nobody's.
        let secret = RandomState::new().build_hasher().finish().max(1);
        Self { secret, start: 0 }
    }

    /// What this process was started with.
    #[must_use]
    pub fn own() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let (secret, start) = text.split_once(':')?;
        Some(Self {
            secret: u64::from_str_radix(secret, 16).ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Has what the command starts show it. Others can not read it there: a process's environment is for its
    /// own user.
    pub fn give(self, command: &mut Command) {
        command.env(VARIABLE, format!("{:x}:{}", self.secret, self.start));
    }

    /// Whether this one is a later start of the part that shows `other`.
    #[must_use]
    pub const fn is_later_than(self, other: Self) -> bool {
        self.secret != 0 && self.secret == other.secret && self.start > other.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_of_one_run_and_one_start() {
        let first = Seat::of_new_run();
        let again = Seat { start: 1, ..first };
        assert!(again.is_later_than(first) && !first.is_later_than(again));
        assert!(!again.is_later_than(again));
        assert!(!again.is_later_than(Seat::of_new_run()), "another run");
        let by_hand = Seat::default();
        assert!(
            !Seat {
                start: 1,
                ..by_hand
            }
            .is_later_than(by_hand)
        );
        assert_eq!(
            Seat::parse("1f:3"),
            Some(Seat {
                secret: 31,
                start: 3
            })
        );
        assert_eq!(Seat::parse("x:3"), None);
    }
}
