//! How to wait: poll for a while, then arm and poll again, then sleep.
//!
//! ```text
//!           budget spent             nothing                  nothing
//! Looking ──────────────► Arming ──────────────► Sleeping ──────────────► Arming
//!    │ nothing: poll again   │ the deadline has passed: give up
//! ```
//!
//! | state | what the caller does before it says that nothing was found |
//! |---|---|
//! | Looking | polls, once or several times |
//! | Arming | arms, so that its peers ring its doorbell from now on; then polls |
//! | Sleeping | announces that it sleeps, then polls. If nothing is there, it sleeps, announces that it is awake, and polls |
//!
//! The caller must poll after it has armed, and again after it has announced that it sleeps; else it
//! may lose a wake-up. See [`doorbell::announce_sleep`](crate::doorbell::announce_sleep). This code
//! reads no clock: times are ticks of any length, which the caller counts. The live network counts
//! nanoseconds, the laboratory's server picoseconds of its event kernel.

/// What to do next, since nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Look again.
    Look,
    /// Have peers ring, then look.
    Arm,
    /// Announce sleep and look; if nothing is there, sleep until rung or until the deadline,
    /// announce being awake, look.
    Sleep,
    /// The deadline has passed.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Looking,
    Arming,
    Sleeping,
}

/// One wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    started: u64,
    budget: u64,
    deadline: u64,
    state: State,
}

impl Wait {
    /// A wait that begins now, looks for `budget` ticks before it sleeps, and ends at
    /// `deadline`, if there is one.
    #[must_use]
    #[inline]
    pub const fn begin(now: u64, budget: u64, deadline: Option<u64>) -> Self {
        let deadline = match deadline {
            Some(deadline) => deadline,
            None => u64::MAX,
        };
        Wait {
            started: now,
            budget,
            deadline,
            state: State::Looking,
        }
    }

    /// Nothing was found by what was done last: what to do next.
    #[inline]
    pub fn nothing_found(&mut self, now: u64) -> Act {
        let passed = now >= self.deadline;
        let (state, act) = match self.state {
            State::Looking if self.waited(now) < self.budget && !passed => {
                (State::Looking, Act::Look)
            }
            State::Looking | State::Sleeping => (State::Arming, Act::Arm),
            State::Arming if passed => (State::Arming, Act::GiveUp),
            State::Arming => (State::Sleeping, Act::Sleep),
        };
        self.state = state;
        act
    }

    /// How long it has lasted.
    #[must_use]
    #[inline]
    pub const fn waited(&self, now: u64) -> u64 {
        now.saturating_sub(self.started)
    }
}

/// How the time to look before sleeping is learnt from how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most.
    pub most: u64,
    /// What it grows by at least, so that it comes back from nothing.
    pub step: u64,
}

impl Budget {
    /// Looking was rewarded: more of it, up to the most.
    #[must_use]
    pub fn rewarded(&self, budget: u64) -> u64 {
        self.bounded(budget.saturating_add(budget / 4))
    }

    /// Looking was wasted, the wait lasted `waited` in all. A wait that the most would have
    /// covered says to look longer; a long one says that looking does not pay here.
    #[must_use]
    pub fn wasted(&self, budget: u64, waited: u64) -> u64 {
        if self.would_cover(waited) {
            self.bounded(budget.saturating_mul(2))
        } else {
            (budget / 2).min(self.most)
        }
    }

    /// Whether a wait was so short that looking could have paid.
    #[must_use]
    pub fn would_cover(&self, waited: u64) -> bool {
        waited <= self.most.saturating_mul(2)
    }

    fn bounded(&self, budget: u64) -> u64 {
        budget.saturating_add(self.step).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn acts(mut wait: Wait, times: &[u64]) -> Vec<Act> {
        times.iter().map(|now| wait.nothing_found(*now)).collect()
    }

    #[test]
    fn it_looks_for_its_budget_then_arms_and_sleeps_again_and_again() {
        let wait = Wait::begin(100, 20, None);
        let found = acts(wait, &[100, 119, 120, 120, 500, 501, 900]);
        let expected = [
            Act::Look,
            Act::Look,
            Act::Arm,
            Act::Sleep,
            Act::Arm,
            Act::Sleep,
            Act::Arm,
        ];
        assert_eq!(found, expected);
        assert_eq!(wait.waited(120), 20);
        assert_eq!(acts(Wait::begin(5, 0, None), &[5]), [Act::Arm]);
    }

    /// Never does it sleep without having armed, nor give up without a look since.
    #[test]
    fn sleep_and_giving_up_follow_arming() {
        for deadline in 0..40 {
            for budget in [0, 3, 17, u64::MAX] {
                let mut wait = Wait::begin(0, budget, Some(deadline));
                let mut before = Act::Look;
                for now in 0..60 {
                    let act = wait.nothing_found(now);
                    if matches!(act, Act::Sleep | Act::GiveUp) {
                        assert_eq!(before, Act::Arm);
                    }
                    assert!(act != Act::GiveUp || now >= deadline);
                    assert!(act != Act::Sleep || now < deadline);
                    before = act;
                    if act == Act::GiveUp {
                        break;
                    }
                }
                assert_eq!(before, Act::GiveUp, "it ends");
            }
        }
    }

    #[test]
    fn the_budget_shrinks_when_it_does_not_pay_and_comes_back() {
        let rule = Budget {
            most: 20_000,
            step: 1000,
        };
        let many = |budget, waited| (0..20).fold(budget, |b, _| rule.wasted(b, waited));
        assert_eq!(many(20_000, u64::MAX), 0);
        assert_eq!(many(0, 10_000), 20_000);
        assert_eq!(rule.rewarded(20_000), 20_000);
        assert_eq!(rule.rewarded(8000), 11_000);
    }
}
