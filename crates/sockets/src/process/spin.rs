//! Busy polling before a sleep, for as long as that has paid off lately.
//!
//! Each thread has a budget: the time that it polls before it sleeps. The budget grows when
//! something came within it, and shrinks when nothing did. While others want the processor, a polling thread
//! yields to them after each poll. They may be the other ends that are to answer, and two yields cost less
//! than a sleep and a wake-up. The processor time that they use is not taken off the budget.
//!
//! If others keep the processor for long, they are not the other ends: a yield gives a program that computes
//! a whole time slice. Then the thread finds out whether yields pay: see [`trial`](crate::process::trial). Where they
//! do not, it polls without them, and sleeps at once if the other end is to run on the same processor.

use core::cell::Cell;

use crate::process::trial::Trial;
use crate::process::{clock, settings};

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { budget_ns: u64::MAX, shares: false, trial: Trial::FREE }) };
}

/// What a thread remembers of its waits.
#[derive(Clone, Copy)]
struct Memory {
    /// How long it looks before it sleeps.
    budget_ns: u64,
    /// Others ran in the yields of its last wait.
    shares: bool,
    /// Whether it had better not yield.
    trial: Trial,
}

impl Memory {
    /// That of this thread, with a budget of at most so long, and whether it may yield.
    fn at_poll(longest_ns: u64) -> (Self, bool) {
        MEMORY.with(|cell| {
            let mut memory = cell.get();
            let yields = memory.may_yield();
            memory.budget_ns = memory
                .budget_ns
                .clamp(BUDGET_MIN_NS.min(longest_ns), longest_ns);
            cell.set(memory);
            (memory, yields)
        })
    }

    fn may_yield(&mut self) -> bool {
        self.trial.is_free() || self.trial.may_yield(clock::now_ns())
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
/// A budget that has paid lately is as long. If then an answer takes long, something keeps who is to answer.
const PAYS_NS: u64 = 20_000;
/// So many bytes count as much as a message.
const UNIT_BYTES: u64 = 4096;

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
        if longest_ns == 0 {
            return false;
        }
        let (memory, yields) = Memory::at_poll(longest_ns);
        self.waited = true;
        self.begin_ns = clock::now_ns();
        let mut shares = false;
        let mut spent_ns = 0;
        let mut before_ns = self.begin_ns;
        loop {
            let is_near = near();
            if is_near && !yields {
                // It runs when this thread sleeps.
                self.waited = false;
                return news();
            }
            if yields && (is_near || memory.shares || spent_ns > ALONE_NS) {
                clock::yield_now();
                let back_ns = clock::now_ns();
                let away_ns = back_ns - before_ns;
                before_ns = back_ns;
                if away_ns > CONTENDED_NS {
                    contention(back_ns);
                    self.waited = false;
                    return news();
                }
                shares |= away_ns > SWITCH_NS;
                spent_ns += away_ns.min(SWITCH_NS);
            }
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
            let now_ns = clock::now_ns();
            let look_ns = now_ns - before_ns;
            before_ns = now_ns;
            if look_ns > CONTENDED_NS {
                contention(now_ns);
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
            let now_ns = clock::now_ns();
            let slept_ns = now_ns - self.begin_ns;
            if self.begin_ns == 0 {
                return;
            }
            if slept_ns <= longest_ns.saturating_mul(times) {
                memory.budget_ns = longest_ns;
            } else if slept_ns > CONTENDED_NS && memory.budget_ns >= PAYS_NS {
                memory.trial.contention(now_ns);
            }
            cell.set(memory);
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
            } else {
                memory.budget_ns /= 2;
            }
            cell.set(memory);
        });
    }
}

/// Whether this thread may poll, and yield to others, for something else than an answer.
pub fn may_yield() -> bool {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        let may_yield = memory.may_yield();
        cell.set(memory);
        may_yield
    })
}

/// Lets others run. `false`: somebody kept the processor for so long that this thread had better sleep.
pub fn yields_well() -> bool {
    let before_ns = clock::now_ns();
    clock::yield_now();
    let back_ns = clock::now_ns();
    if back_ns - before_ns <= CONTENDED_NS {
        return true;
    }
    contention(back_ns);
    false
}

/// A wait, a receive or send call has ended with so many events or messages received, and so many bytes in all.
pub fn got_on(messages: u64, bytes: u64) {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        if !memory.trial.is_free() {
            memory.trial.progress(messages + bytes / UNIT_BYTES);
            cell.set(memory);
        }
    });
}

#[cold]
fn contention(now_ns: u64) {
    MEMORY.with(|cell| {
        let mut memory = cell.get();
        memory.trial.contention(now_ns);
        cell.set(memory);
    });
}
