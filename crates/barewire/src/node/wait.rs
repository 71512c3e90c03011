//! Waiting: spin, then sleep, and how long to spin.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use barewire_fabric::wait::Budget;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::process::online_cpus;
use barewire_sys::wake::wake_cost;

use crate::config::Spin;

/// Cap of the measured default: a machine that was busy while it was measured must not
/// make us spin for ever.
const MEASURED_MAX: Duration = Duration::from_micros(200);
/// Two wake-ups in a virtual machine. Whoever measures within one processor, as a thread does that is tied to it, finds a
/// tenth of that.
const MEASURED_MIN: Duration = Duration::from_micros(50);
/// So many wake-ups are spun for. With one, two ends that sleep would never find out that spinning pays: each hears from
/// the other after two.
const WAKE_UPS: u32 = 2;
/// Waits that spun for as long as they may, and soon after that were woken, without a success in between, until spinning
/// counts as useless: the peer may run on this very processor.
const USELESS_AFTER: u32 = 8;
/// Waits that then do not spin before the next one tries, and the most that those become.
const REST_FIRST: u32 = 64;
const REST_MAX: u32 = 1 << 14;
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

impl Step {
    /// Whether it may be the last look for a while. Another one follows those that announce something.
    pub fn is_look(self) -> bool {
        matches!(self, Step::Poll | Step::Sleep)
    }
}

/// How long to spin, learnt from how it went.
#[derive(Debug)]
pub(crate) struct Spinner {
    budget_ns: AtomicU64,
    most_ns: AtomicU64,
    adaptive: AtomicBool,
    changes: AtomicU32,
    /// Waits since the last success for which all spinning was useless.
    useless: Hint,
    /// Waits to come that do not spin.
    rest: Hint,
    /// How many those will be the next time.
    next_rest: Hint,
}

/// A number that all threads of a node read and change. Two at the same time may count one wait instead of two.
#[derive(Debug)]
struct Hint(AtomicU32);

impl Hint {
    const fn new(value: u32) -> Hint {
        Hint(AtomicU32::new(value))
    }

    #[inline]
    fn get(&self) -> u32 {
        // Relaxed: it stands for itself.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, value: u32) {
        // Relaxed: as in `get`.
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Spinner {
    pub fn new(spin: Spin) -> Spinner {
        let (most_ns, adaptive) = most_and_adaptive(spin);
        Spinner::with(most_ns, adaptive)
    }

    const fn with(most_ns: u64, adaptive: bool) -> Spinner {
        Spinner {
            budget_ns: AtomicU64::new(most_ns),
            most_ns: AtomicU64::new(most_ns),
            adaptive: AtomicBool::new(adaptive),
            changes: AtomicU32::new(0),
            useless: Hint::new(0),
            rest: Hint::new(0),
            next_rest: Hint::new(REST_FIRST),
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
        self.forget_rest();
        // Release pairs with the Acquire in `changes`: whoever sees the count sees the rule.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How often the rule has been changed: who waits begins anew with another.
    #[inline]
    pub fn changes(&self) -> u32 {
        // Acquire pairs with the Release in `change`.
        self.changes.load(Ordering::Acquire)
    }

    /// A wait begins: how long it may spin.
    #[inline]
    pub fn begin(&self) -> u64 {
        let rest = self.rest.get();
        // A fixed rule knows no rest, though one may be left of the rule before it.
        if rest == 0 || !self.is_adaptive() {
            return self.budget_ns();
        }
        self.rest.set(rest - 1);
        0
    }

    /// How long to spin, but for rests.
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
        if !self.is_adaptive() {
            return;
        }
        if budget < self.most_ns() {
            self.set(self.rule().rewarded(budget));
        }
        // Looked at first, so that the line is not written with each wait.
        if self.useless.get() != 0 {
            self.forget_rest();
        }
    }

    /// Spinning for `spun_ns` was wasted: the wait lasted `waited_ns` in all.
    pub fn wasted(&self, spun_ns: u64, waited_ns: u64) {
        if !self.is_adaptive() {
            return;
        }
        let rule = self.rule();
        self.set(rule.wasted(self.budget_ns(), waited_ns));
        if spun_ns >= rule.most && rule.would_cover(waited_ns) {
            self.note_useless();
        }
    }

    /// Spinning for the most was useless, though the wait was short. If that happens often, the next waits do not spin.
    fn note_useless(&self) {
        let useless = self.useless.get() + 1;
        self.useless.set(useless);
        if useless >= USELESS_AFTER {
            let rest = self.next_rest.get();
            self.rest.set(rest);
            self.next_rest.set((rest * 2).min(REST_MAX));
            // The next one that tries decides.
            self.useless.set(USELESS_AFTER - 1);
        }
    }

    fn forget_rest(&self) {
        self.useless.set(0);
        self.rest.set(0);
        self.next_rest.set(REST_FIRST);
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
        // Spinning on the only processor keeps the peer from answering. A thread that is tied to one processor spins all
        // the same: its peers may run elsewhere.
        Spin::Adaptive { .. } if online_cpus() < 2 => (0, false),
        Spin::Adaptive { at_most } => {
            let measured = || (wake_cost() * WAKE_UPS).clamp(MEASURED_MIN, MEASURED_MAX);
            let most = at_most.unwrap_or_else(measured);
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
        let at = |timeout: Duration| match timeout.is_zero() {
            true => 0,
            false => monotonic_ns().saturating_add(nanoseconds(timeout)),
        };
        Deadline(timeout.map(at))
    }

    /// Whether it has passed from the beginning.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        self.0 == Some(0)
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

    fn adaptive(most_ns: u64) -> Spinner {
        Spinner::with(most_ns, true)
    }

    /// Waits that find nothing while they spin, and are woken right after that.
    fn useless(spinner: &Spinner, waits: u32) -> u32 {
        let mut spun = 0;
        for _ in 0..waits {
            let budget_ns = spinner.begin();
            spun += u32::from(budget_ns > 0);
            spinner.wasted(budget_ns, budget_ns + 5_000);
        }
        spun
    }

    #[test]
    fn spinning_that_is_always_useless_becomes_rare() {
        let spinner = adaptive(20_000);
        assert_eq!(useless(&spinner, USELESS_AFTER), USELESS_AFTER);
        assert_eq!(useless(&spinner, REST_FIRST), 0);
        // One tries, and twice as many do not.
        assert_eq!(useless(&spinner, 1), 1);
        assert_eq!(useless(&spinner, 2 * REST_FIRST), 0);
        assert!(useless(&spinner, 100_000) < 16);
    }

    #[test]
    fn one_success_ends_the_rest() {
        let spinner = adaptive(20_000);
        useless(&spinner, USELESS_AFTER + 3);
        assert_eq!(spinner.begin(), 0);
        spinner.rewarded();
        assert_eq!(spinner.begin(), 20_000);
        assert_eq!(useless(&spinner, USELESS_AFTER), USELESS_AFTER);
    }

    #[test]
    fn long_waits_are_not_called_useless() {
        let spinner = adaptive(20_000);
        for _ in 0..100 {
            let budget_ns = spinner.begin();
            spinner.wasted(budget_ns, 1_000_000);
        }
        // As soon as waits are short, spinning begins again.
        spinner.wasted(0, 10_000);
        assert!(spinner.begin() > 0);
    }

    #[test]
    fn the_budget_shrinks_when_it_does_not_pay_and_comes_back() {
        let spinner = adaptive(20_000);
        for _ in 0..20 {
            spinner.wasted(0, 1_000_000_000);
        }
        assert_eq!(spinner.budget_ns(), 0);
        for _ in 0..20 {
            spinner.wasted(0, 10_000);
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
            spinner.wasted(0, 1);
            spinner.wasted(0, u64::MAX);
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
        spinner.wasted(0, u64::MAX);
        assert_eq!(spinner.budget_ns(), 3000);
    }
}
