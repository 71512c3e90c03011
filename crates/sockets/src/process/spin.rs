//! Busy polling before a sleep, for as long as that has paid off lately.
//!
//! Each thread has a budget: the time that it polls before it sleeps. The budget grows when
//! something came within it, and shrinks when nothing did. While others want the processor, a polling thread
//! yields to them after each poll. They may be the other ends that are to answer, and two yields cost less
//! than a sleep and a wake-up. The processor time that they use is not taken off the budget.
//!
//! Under contention a thread that sleeps is woken sooner than a polling one gets the processor again, since
//! the kernel prefers threads that have slept. So a thread notes for how long it loses the processor while it
//! polls, by a yield or without. While its polls are short and successful, others may have the processor a
//! few times as long as the thread itself: they would have it anyway. If they have it for longer, the thread
//! sleeps at once in many waits, and only sometimes tries to poll.

use core::cell::Cell;

use crate::process::{clock, settings};

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { budget_ns: u64::MAX, rest: 0, next_rest: 0, due_ns: DUE_MIN_NS, begun_ns: 0, shares: false }) };
}

/// What a thread remembers of its waits.
#[derive(Clone, Copy)]
struct Memory {
    /// How long it looks before it sleeps.
    budget_ns: u64,
    /// Waits to come in which it does not look at all.
    rest: u32,
    /// How many those will be when others want the processor the next time.
    next_rest: u32,
    /// When the last wait began that ended without a sleep.
    begun_ns: u64,
    /// How long others may keep the processor before looking is too dear.
    due_ns: u64,
    /// Others ran in the yields of its last wait.
    shares: bool,
}

impl Memory {
    /// A wait has paid.
    const fn forget_some(&mut self) {
        self.next_rest -= self.next_rest.div_ceil(FORGETS);
    }

    /// Others had the processor for so long: the next waits do not look.
    fn lose(&mut self, lost_ns: u64) {
        let lost = u32::try_from(lost_ns / SAVES_NS).unwrap_or(REST_MAX);
        self.rest = self.next_rest.max(lost).min(REST_MAX);
        self.next_rest = self.rest * REST_GROWS;
        self.shares = false;
        self.due_ns = DUE_MIN_NS;
    }
}

/// The shortest time that is tried again after looking has not paid.
const BUDGET_MIN_NS: u64 = 2_000;
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// After this, the processor is offered to others between looks, if nobody is known to want it.
const ALONE_NS: u64 = 4_000;
/// How long a thread yields to the other end that runs on the same processor.
const NEAR_NS: u64 = 10_000;
/// In a yield that takes longer, someone else has run. Of the budget it costs as much.
const SWITCH_NS: u64 = 1_000;
/// Whoever keeps the processor for longer is not the other end, which would have answered.
const CONTENDED_NS: u64 = 1_000_000;
/// A wait is at most so many times as long as its budget, with what others use.
const PATIENCE: u64 = 20;
/// What a wait with a look saves against a sleep and a wake-up, about. So many waits without a
/// look make up for the time that contention took.
const SAVES_NS: u64 = 5_000;
/// Those are so many times as many when it happens again, up to [`REST_MAX`].
const REST_GROWS: u32 = 4;
const REST_MAX: u32 = 1 << 14;
/// While looking pays, others may have the processor for so many times as long as this thread gets on.
const SHARE: u64 = 3;
/// From one wait to the next this thread gets on for at most as long.
const STEP_MAX_NS: u64 = 50_000;
/// Others are due as much from the beginning: one that keeps the processor once, for its time slice, is no
/// contention.
const DUE_MIN_NS: u64 = 4_000_000;
/// The most that others are due: contention comes and goes.
const DUE_MAX_NS: u64 = 10_000_000;
/// Waits that paid until contention for the processor is all but forgotten.
const FORGETS: u32 = 512;

/// One wait.
pub struct Spin {
    waited: bool,
    /// When it last began to look; 0: never.
    begin_ns: u64,
}

impl Spin {
    /// No time is spent before [`Spin::until_or`].
    pub const fn begin() -> Self {
        Self {
            waited: false,
            begin_ns: 0,
        }
    }

    /// Looks until there is news or the time is over; says whether there is. `rarely` is asked
    /// as well, at each look at the clock. `near`: whoever is to answer runs on this processor.
    pub fn until_or(
        &mut self,
        news: impl Fn() -> bool,
        rarely: impl Fn() -> bool,
        near: impl Fn() -> bool,
    ) -> bool {
        let longest_ns = settings::get().spin_ns;
        let mut memory = MEMORY.with(Cell::get);
        if longest_ns == 0 || memory.rest > 0 {
            memory.rest = memory.rest.saturating_sub(1);
            MEMORY.with(|cell| cell.set(memory));
            return false;
        }
        memory.budget_ns = memory
            .budget_ns
            .clamp(BUDGET_MIN_NS.min(longest_ns), longest_ns);
        MEMORY.with(|cell| cell.set(memory));
        self.waited = true;
        self.begin_ns = clock::now_ns();
        let mut shares = false;
        let mut spent_ns = 0;
        let mut before_ns = self.begin_ns;
        loop {
            let is_near = near();
            if is_near || memory.shares || spent_ns > ALONE_NS {
                clock::yield_now();
                let back_ns = clock::now_ns();
                let away_ns = back_ns - before_ns;
                before_ns = back_ns;
                if away_ns > CONTENDED_NS && !is_due(away_ns) {
                    self.waited = false;
                    return news();
                }
                shares |= away_ns > SWITCH_NS;
                spent_ns += away_ns.min(SWITCH_NS);
            }
            for _ in 0..if is_near || shares { 1 } else { LOOKS } {
                if news() {
                    paid_off(self.begin_ns, spent_ns);
                    self.over(true, shares);
                    return true;
                }
                core::hint::spin_loop();
            }
            if rarely() {
                self.over(true, shares);
                return true;
            }
            let now_ns = clock::now_ns();
            let look_ns = now_ns - before_ns;
            before_ns = now_ns;
            if look_ns > CONTENDED_NS && !is_due(look_ns) {
                self.waited = false;
                return news();
            }
            spent_ns += look_ns.min(CONTENDED_NS);
            if is_near && spent_ns > NEAR_NS {
                // It is not about to answer; asleep, we are out of its way.
                self.waited = false;
                return false;
            }
            let waited_ns = now_ns - self.begin_ns;
            if spent_ns > memory.budget_ns || waited_ns > memory.budget_ns.saturating_mul(PATIENCE)
            {
                self.over(false, shares);
                return false;
            }
        }
    }

    /// After a sleep. If it was so short that looking for as long as is allowed would have
    /// paid, that is what the next wait does: two ends that sleep wake each other so slowly that
    /// neither would ever find out.
    pub fn woke(&mut self) {
        let longest_ns = settings::get().spin_ns;
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            let times = if memory.shares { PATIENCE } else { 1 };
            let slept_ns = clock::now_ns() - self.begin_ns;
            if self.begin_ns != 0 && slept_ns <= longest_ns.saturating_mul(times) {
                memory.budget_ns = longest_ns;
                cell.set(memory);
            }
        });
    }

    /// The end of a look, in which others ran or did not.
    fn over(&mut self, paid: bool, shares: bool) {
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            memory.shares = shares;
            cell.set(memory);
        });
        self.paid(paid);
    }

    /// Whether looking has paid: the next budget is longer or shorter.
    pub fn paid(&mut self, yes: bool) {
        if !self.waited {
            return;
        }
        self.waited = false;
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            if yes {
                memory.budget_ns = memory.budget_ns.saturating_mul(2);
                memory.forget_some();
            } else {
                memory.budget_ns /= 2;
            }
            cell.set(memory);
        });
    }
}

/// Whether this thread may poll, and yield to others, for something else than an answer. If not, this counts as
/// one of the waits in which it does not.
pub fn may_poll() -> bool {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        let may_poll = memory.rest == 0;
        memory.rest = memory.rest.saturating_sub(1);
        cell.set(memory);
        may_poll
    })
}

/// A wait for something else than an answer has ended well.
pub fn waited_well() {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        if memory.next_rest > 0 {
            memory.forget_some();
            cell.set(memory);
        }
    });
}

/// Lets others run. `false`: somebody kept the processor for so long that this thread had better sleep, now and
/// in its next waits.
pub fn yields_well() -> bool {
    let before_ns = clock::now_ns();
    clock::yield_now();
    let away_ns = clock::now_ns() - before_ns;
    if away_ns <= CONTENDED_NS {
        return true;
    }
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        memory.lose(away_ns);
        cell.set(memory);
    });
    false
}

/// A wait that began at `begin_ns` has ended after a look of `spent_ns`, without a sleep.
fn paid_off(begin_ns: u64, spent_ns: u64) {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        let step_ns = begin_ns.saturating_sub(memory.begun_ns).min(STEP_MAX_NS);
        memory.begun_ns = begin_ns;
        if spent_ns <= SAVES_NS {
            memory.due_ns = (memory.due_ns + step_ns * SHARE).min(DUE_MAX_NS);
        }
        cell.set(memory);
    });
}

/// Others kept the processor for `away_ns` in the middle of a look. Whether that is their due: they would
/// have it as well if this thread slept. If not, the next waits do not look.
#[cold]
fn is_due(away_ns: u64) -> bool {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        let lost_ns = away_ns.saturating_sub(memory.due_ns);
        memory.due_ns = memory.due_ns.saturating_sub(away_ns);
        if lost_ns > 0 {
            memory.lose(lost_ns);
        }
        cell.set(memory);
        lost_ns == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So long runs what else is there, until it is this thread's turn again: one of them, or many.
    const SLICE_NS: u64 = 3_000_000;

    const CONTENTION_NS: u64 = 10 * SLICE_NS;

    const BEGIN_NS: u64 = 1 << 40;

    /// Each test has a thread of its own.
    fn memory() -> Memory {
        MEMORY.with(Cell::get)
    }

    /// Gets on for so long, with waits that look for `spent_ns` each.
    fn get_on(ns: u64, spent_ns: u64) {
        for wait in 0..=ns / STEP_MAX_NS {
            paid_off(BEGIN_NS + wait * STEP_MAX_NS, spent_ns);
        }
    }

    #[test]
    fn under_contention_a_thread_sleeps_for_as_many_waits_as_make_up_for_what_it_lost() {
        assert!(!is_due(CONTENTION_NS));
        let lost = (CONTENTION_NS - DUE_MIN_NS) / SAVES_NS;
        assert_eq!(u64::from(memory().rest), lost);
        // Longer, when it happens again.
        assert!(!is_due(CONTENTION_NS));
        let again = lost * u64::from(REST_GROWS);
        assert_eq!(u64::from(memory().rest), again.min(u64::from(REST_MAX)));
    }

    #[test]
    fn who_gets_on_goes_on_looking_beside_one_other() {
        for _ in 0..100 {
            get_on(SLICE_NS, SAVES_NS / 4);
            assert!(is_due(SLICE_NS));
        }
        assert_eq!(memory().rest, 0);
    }

    #[test]
    fn what_others_are_due_is_soon_used_up() {
        get_on(100 * SLICE_NS, SAVES_NS / 4);
        assert!(!is_due(CONTENTION_NS));
    }

    #[test]
    fn looks_that_take_longer_than_a_sleep_costs_are_worth_nothing() {
        get_on(100 * SLICE_NS, SAVES_NS * 4);
        assert!(!is_due(2 * SLICE_NS));
    }
}
