//! Waiting: spin, then sleep, and how long to spin.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use barewire_fabric::wait::Budget;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::process::allowed_cpus;
use barewire_sys::wake::wake_cost;

use crate::config::Spin;

/// Cap of the measured default: a machine that was busy while it was measured must not
/// make us spin for ever.
const MEASURED_MAX: Duration = Duration::from_micros(100);
const MEASURED_MIN: Duration = Duration::from_micros(5);
/// What a budget grows by at least.
const STEP_NS: u64 = 1000;

/// What a waiter is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Spinning begins: the peer need not ring.
    Spin,
    /// See whether what is waited for is there.
    Poll,
    /// Sleep is near: have the peer ring, then see.
    Arm,
    /// Sleep has been announced: see once more.
    Sleep,
}

/// How long to spin, learnt from how it went.
#[derive(Debug)]
pub(crate) struct Spinner {
    budget_ns: AtomicU64,
    most_ns: AtomicU64,
    adaptive: AtomicBool,
    changes: AtomicU32,
}

impl Spinner {
    pub fn new(spin: Spin) -> Spinner {
        let (most_ns, adaptive) = most_and_adaptive(spin);
        Spinner {
            budget_ns: AtomicU64::new(most_ns),
            most_ns: AtomicU64::new(most_ns),
            adaptive: AtomicBool::new(adaptive),
            changes: AtomicU32::new(0),
        }
    }

    /// From now on another rule holds. A wait at the same time may still do a step by the old one,
    /// or by a mixture, which only spins for longer or shorter once.
    pub fn change(&self, spin: Spin) {
        let (most_ns, adaptive) = most_and_adaptive(spin);
        // Relaxed: hints, each of which is taken by itself.
        self.adaptive.store(adaptive, Ordering::Relaxed);
        self.most_ns.store(most_ns, Ordering::Relaxed);
        self.set(most_ns);
        // Relaxed: as above.
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the rule has been changed: who waits begins anew with another.
    #[inline]
    pub fn changes(&self) -> u32 {
        // Relaxed: seen sooner or later is enough.
        self.changes.load(Ordering::Relaxed)
    }

    /// How long to spin this time.
    #[inline]
    pub fn budget_ns(&self) -> u64 {
        // Relaxed: a hint; any recent value will do.
        self.budget_ns.load(Ordering::Relaxed)
    }

    fn most_ns(&self) -> u64 {
        // Relaxed: a hint; any recent value will do.
        self.most_ns.load(Ordering::Relaxed)
    }

    fn is_adaptive(&self) -> bool {
        // Relaxed: as above.
        self.adaptive.load(Ordering::Relaxed)
    }

    fn rule(&self) -> Budget {
        Budget {
            most: self.most_ns(),
            step: STEP_NS,
        }
    }

    /// Spinning was rewarded.
    pub fn rewarded(&self) {
        let budget = self.budget_ns();
        if self.is_adaptive() && budget < self.most_ns() {
            self.set(self.rule().rewarded(budget));
        }
    }

    /// Spinning was wasted: the wait lasted `waited_ns` in all.
    pub fn wasted(&self, waited_ns: u64) {
        if self.is_adaptive() {
            self.set(self.rule().wasted(self.budget_ns(), waited_ns));
        }
    }

    fn set(&self, budget_ns: u64) {
        // Relaxed: a hint.
        self.budget_ns.store(budget_ns, Ordering::Relaxed);
    }
}

/// The longest time to spin, in nanoseconds, and whether it becomes less while it does not pay.
fn most_and_adaptive(spin: Spin) -> (u64, bool) {
    match spin {
        Spin::Never => (0, false),
        Spin::Forever => (u64::MAX, false),
        Spin::For(time) => (nanoseconds(time), false),
        // Spinning on the only processor keeps the peer from answering.
        Spin::Adaptive { .. } if allowed_cpus().len() < 2 => (0, false),
        Spin::Adaptive { at_most } => {
            let most = at_most.unwrap_or_else(|| wake_cost().clamp(MEASURED_MIN, MEASURED_MAX));
            (nanoseconds(most), true)
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in time to wait until, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<u64>);

impl Deadline {
    pub fn after(timeout: Option<Duration>) -> Deadline {
        let at = |t| monotonic_ns().saturating_add(nanoseconds(t));
        Deadline(timeout.map(at))
    }

    pub fn at_ns(&self) -> Option<u64> {
        self.0
    }

    /// What is left; `None`: for ever.
    pub fn left(&self, now_ns: u64) -> Option<Duration> {
        let left = |at: u64| Duration::from_nanos(at.saturating_sub(now_ns));
        self.0.map(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_shrinks_when_it_does_not_pay_and_comes_back() {
        let spinner = Spinner {
            budget_ns: AtomicU64::new(20_000),
            most_ns: AtomicU64::new(20_000),
            adaptive: AtomicBool::new(true),
            changes: AtomicU32::new(0),
        };
        for _ in 0..20 {
            spinner.wasted(1_000_000_000);
        }
        assert_eq!(spinner.budget_ns(), 0);
        for _ in 0..20 {
            spinner.wasted(10_000);
        }
        assert_eq!(spinner.budget_ns(), 20_000);
        spinner.rewarded();
        assert_eq!(spinner.budget_ns(), 20_000);
    }

    #[test]
    fn fixed_budgets_do_not_move() {
        for (spin, ns) in [
            (Spin::Never, 0),
            (Spin::Forever, u64::MAX),
            (Spin::For(Duration::from_micros(7)), 7000),
        ] {
            let spinner = Spinner::new(spin);
            spinner.wasted(1);
            spinner.wasted(u64::MAX);
            spinner.rewarded();
            assert_eq!(spinner.budget_ns(), ns);
        }
    }

    #[test]
    fn a_change_holds_at_once_and_is_counted() {
        let spinner = Spinner::new(Spin::Forever);
        assert_eq!(spinner.changes(), 0);
        spinner.change(Spin::For(Duration::from_micros(3)));
        assert_eq!((spinner.budget_ns(), spinner.changes()), (3000, 1));
        spinner.wasted(u64::MAX);
        assert_eq!(spinner.budget_ns(), 3000);
    }
}
