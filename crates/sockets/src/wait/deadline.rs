//! Deadlines of waits.

use core::ffi::c_int;

use libc::timespec;

use crate::process::clock;

/// When a wait is over.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// On the monotonic clock; `None`: never.
    at_ns: Option<u64>,
    /// Whether the program counts in nanoseconds, or in milliseconds only.
    pub is_exact: bool,
}

impl Deadline {
    /// In so many milliseconds; never if negative.
    pub fn in_ms(ms: c_int) -> Self {
        Self {
            at_ns: u64::try_from(ms)
                .ok()
                .map(|ms| clock::now_ns().saturating_add(ms * 1_000_000)),
            is_exact: false,
        }
    }

    /// After `time`; never if there is none. `None` for a time that is not one.
    pub fn after(time: Option<timespec>) -> Option<Self> {
        let Some(time) = time else {
            return Some(Self {
                at_ns: None,
                is_exact: true,
            });
        };
        let s = u64::try_from(time.tv_sec).ok()?;
        let ns = u64::try_from(time.tv_nsec)
            .ok()
            .filter(|ns| *ns < 1_000_000_000)?;
        let after_ns = s.saturating_mul(1_000_000_000).saturating_add(ns);
        Some(Self {
            at_ns: Some(clock::now_ns().saturating_add(after_ns)),
            is_exact: true,
        })
    }

    /// What is left of it.
    pub fn left(self) -> Option<timespec> {
        let left_ns = self.at_ns?.saturating_sub(clock::now_ns());
        Some(timespec {
            tv_sec: i64::try_from(left_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        })
    }

    /// The same in whole milliseconds: not less, but for more than the kernel can count. -1 if it
    /// never comes.
    pub fn left_ms(self) -> c_int {
        let Some(at_ns) = self.at_ns else {
            return -1;
        };
        let left_ms = at_ns.saturating_sub(clock::now_ns()).div_ceil(1_000_000);
        c_int::try_from(left_ms).unwrap_or(c_int::MAX)
    }

    /// Whether it has come.
    pub fn is_over(self) -> bool {
        self.at_ns.is_some_and(|at_ns| clock::now_ns() >= at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_limit_never_comes_and_no_limit_is_over_at_once() {
        let never = Deadline::in_ms(-1);
        assert!(!never.is_over() && never.left().is_none() && never.left_ms() == -1);
        let now = Deadline::in_ms(0);
        assert!(now.is_over() && now.left_ms() == 0);
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        let time = |tv_sec, tv_nsec| Deadline::after(Some(timespec { tv_sec, tv_nsec }));
        assert!(time(-1, 0).is_none() && time(0, -1).is_none());
        assert!(time(0, 1_000_000_000).is_none());
        assert!(time(i64::MAX, 999_999_999).is_some_and(|it| !it.is_over()));
    }
}
