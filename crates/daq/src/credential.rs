//! What lets a part into a run. Whoever starts a run gives its parts a number that nobody can guess, and counts
//! how often each of them was started. The manager turns a part of another run away. It also turns one away
//! whose seat is taken, unless it is a later start of the same part.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::Command;
use std::sync::OnceLock;

/// Of this process, if it was handed one: no other thread may change the environment.
static HANDED: OnceLock<Credential> = OnceLock::new();

const VARIABLE: &str = "BAREWIRE_DAQ_CREDENTIAL";

/// By which a part shows that it belongs to a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// Of the run; 0: it was started by hand.
    pub secret: u64,
    /// How often the part was started before.
    pub start: u32,
}

impl Credential {
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
        if let Some(handed) = HANDED.get() {
            return *handed;
        }
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text).unwrap_or_default()
    }

    /// Shows it for this process from now on, in place of the one in the environment.
    pub fn show(self) {
        let _ = HANDED.set(self);
    }

    /// From what [`Display`](std::fmt::Display) makes of it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (secret, start) = text.split_once(':')?;
        Some(Self {
            secret: u64::from_str_radix(secret, 16).ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Has what the command starts show it. Others cannot read it there: a process's environment is for its
    /// own user.
    pub fn pass_to(self, command: &mut Command) {
        command.env(VARIABLE, self.to_string());
    }

    /// Whether this one is a later start of the part that shows `other`.
    #[must_use]
    pub const fn is_later_than(self, other: Self) -> bool {
        self.secret != 0 && self.secret == other.secret && self.start > other.start
    }
}

impl std::fmt::Display for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{}", self.secret, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_of_one_run_and_one_start() {
        let first = Credential::of_new_run();
        let again = Credential { start: 1, ..first };
        assert!(again.is_later_than(first) && !first.is_later_than(again));
        assert!(!again.is_later_than(again));
        assert!(
            !again.is_later_than(Credential::of_new_run()),
            "another run"
        );
        let by_hand = Credential::default();
        assert!(
            !Credential {
                start: 1,
                ..by_hand
            }
            .is_later_than(by_hand)
        );
        assert_eq!(
            Credential::parse("1f:3"),
            Some(Credential {
                secret: 31,
                start: 3
            })
        );
        assert_eq!(Credential::parse("x:3"), None);
    }
}
