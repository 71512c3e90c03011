//! Waiting before sleeping: for as long as that has been paying lately.
//!
//! Each thread has a budget, the time that it looks before it sleeps. It grows when something
//! came within it and shrinks when nothing did. When others want the processor, looking
//! does harm: it may be the very other end that is kept from answering, and a thread that
//! sleeps is woken sooner than one that has used up its time. That shows in a yield, or a
//! few looks, that take long. Then the budget is nothing, but for a try now and then.

use core::cell::Cell;

use crate::{process, settings};

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { budget_ns: u64::MAX, rest: 0, next_rest: 0 }) };
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
}

/// The shortest time that is tried again after looking has not paid.
const BUDGET_MIN_NS: u64 = 2_000;
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// After this, the processor is offered to others between looks.
const ALONE_NS: u64 = 4_000;
/// How long a thread yields to the other end that runs on the same processor.
const NEAR_NS: u64 = 10_000;
/// A step that takes longer was not alone on its processor.
const CROWDED_NS: u64 = 50_000;
/// Waits without a look after the processor was found crowded, at first and at most.
const REST_MIN: u32 = 16;
const REST_MAX: u32 = 4096;
/// Waits that paid until the processor's crowding is all but forgotten.
const FORGETS: u32 = 64;

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
        let begin_ns = process::now_ns();
        self.begin_ns = begin_ns;
        let mut before_ns = begin_ns;
        loop {
            let is_near = near();
            if is_near {
                process::give_way();
            }
            let looks = if is_near { 1 } else { LOOKS };
            for _ in 0..looks {
                if news() {
                    self.paid(true);
                    return true;
                }
                core::hint::spin_loop();
            }
            if rarely() {
                self.paid(true);
                return true;
            }
            let now_ns = process::now_ns();
            if now_ns - before_ns > CROWDED_NS && !news() {
                self.crowded();
                return false;
            }
            before_ns = now_ns;
            let spent_ns = now_ns - begin_ns;
            if is_near && spent_ns > NEAR_NS {
                // It is not about to answer; asleep, we are out of its way.
                self.waited = false;
                return false;
            }
            if spent_ns > memory.budget_ns {
                self.paid(false);
                return false;
            }
            if !is_near && spent_ns > ALONE_NS {
                process::give_way();
            }
        }
    }

    /// After a sleep. If it was so short that looking for as long as is allowed would have
    /// paid, that is what the next wait does: two ends that sleep wake each other so slowly that
    /// neither would ever find out.
    pub fn woke(&mut self) {
        let longest_ns = settings::get().spin_ns;
        if self.begin_ns == 0 || process::now_ns() - self.begin_ns > longest_ns {
            return;
        }
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            memory.budget_ns = longest_ns;
            cell.set(memory);
        });
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

    /// Others want the processor.
    #[cold]
    fn crowded(&mut self) {
        self.waited = false;
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            memory.rest = memory.next_rest.clamp(REST_MIN, REST_MAX);
            memory.next_rest = memory.rest * 4;
            cell.set(memory);
        });
    }
}
