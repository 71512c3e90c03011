//! Waiting before sleeping: for as long as that has been paying lately.
//!
//! Each thread has a budget, the time that it looks before it sleeps. It grows when something
//! came within it and shrinks when nothing did. While others want the processor, a thread that
//! waits yields to them after each look: they may be the very other ends that are to answer,
//! and a yield to and fro costs less than a sleep and a wake-up. What they use of the processor
//! is not taken off the budget. One that keeps the processor for long is another matter: then
//! a thread that sleeps is woken sooner than one that has yielded. The budget is nothing after
//! that, but for a try now and then.

use core::cell::Cell;

use crate::{process, settings};

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { budget_ns: u64::MAX, rest: 0, next_rest: 0, shares: false }) };
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
    /// Others ran in the yields of its last wait.
    shares: bool,
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
/// Whoever keeps the processor for longer answers nobody.
const CROWDED_NS: u64 = 1_000_000;
/// A wait is at most so many times as long as its budget, with what others use.
const PATIENCE: u64 = 20;
/// What a wait with a look saves against a sleep and a wake-up, about. So many waits without a
/// look make up for the time lost to a crowd.
const SAVES_NS: u64 = 5_000;
/// Those are so many times as many when it happens again, up to the most.
const REST_GROWS: u32 = 4;
const REST_MAX: u32 = 1 << 14;
/// Waits that paid until the processor's crowding is all but forgotten.
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
        self.begin_ns = process::now_ns();
        let mut shares = false;
        let mut spent_ns = 0;
        loop {
            let is_near = near();
            if is_near || memory.shares || spent_ns > ALONE_NS {
                let away_ns = yield_ns();
                if away_ns > CROWDED_NS && !news() {
                    self.crowded(away_ns);
                    return false;
                }
                shares |= away_ns > SWITCH_NS;
                spent_ns += away_ns.min(SWITCH_NS);
            }
            let before_ns = process::now_ns();
            for _ in 0..if is_near || shares { 1 } else { LOOKS } {
                if news() {
                    self.over(true, shares);
                    return true;
                }
                core::hint::spin_loop();
            }
            if rarely() {
                self.over(true, shares);
                return true;
            }
            let now_ns = process::now_ns();
            spent_ns += now_ns - before_ns;
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
            let slept_ns = process::now_ns() - self.begin_ns;
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
                memory.next_rest -= memory.next_rest.div_ceil(FORGETS);
            } else {
                memory.budget_ns /= 2;
            }
            cell.set(memory);
        });
    }

    /// Others want the processor for themselves.
    #[cold]
    fn crowded(&mut self, away_ns: u64) {
        self.waited = false;
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            let lost = u32::try_from(away_ns / SAVES_NS).unwrap_or(REST_MAX);
            memory.rest = memory.next_rest.max(lost).min(REST_MAX);
            memory.next_rest = memory.rest * REST_GROWS;
            memory.shares = false;
            cell.set(memory);
        });
    }
}

/// Lets others run; says for how long they did.
fn yield_ns() -> u64 {
    let before_ns = process::now_ns();
    process::give_way();
    process::now_ns() - before_ns
}
