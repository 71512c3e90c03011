//! Waiting before sleeping: for as long as that has been paying lately.

use core::cell::Cell;

use crate::{process, settings};

thread_local! {
    /// How long this thread looks before it sleeps.
    static BUDGET_NS: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The shortest time that is tried again after looking has not paid.
const BUDGET_MIN_NS: u64 = 1_000;
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// After this, the processor is offered to others between looks.
const ALONE_NS: u64 = 4_000;

/// One wait.
pub struct Spin {
    waited: bool,
}

impl Spin {
    /// No time is spent before [`Spin::until`].
    pub const fn begin() -> Self {
        Self { waited: false }
    }

    /// Looks until there is news or the time is over; says whether there is.
    pub fn until(&mut self, news: impl Fn() -> bool) -> bool {
        self.until_or(news, || false)
    }

    /// As [`Spin::until`]; `rarely` is asked as well, at each look at the clock.
    pub fn until_or(&mut self, news: impl Fn() -> bool, rarely: impl Fn() -> bool) -> bool {
        let longest_ns = settings::get().spin_ns;
        if longest_ns == 0 {
            return false;
        }
        let budget_ns = BUDGET_NS.with(|cell| {
            cell.set(cell.get().clamp(BUDGET_MIN_NS.min(longest_ns), longest_ns));
            cell.get()
        });
        self.waited = true;
        let begin_ns = process::now_ns();
        loop {
            for _ in 0..LOOKS {
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
            let spent_ns = process::now_ns() - begin_ns;
            if spent_ns > budget_ns {
                self.paid(false);
                return false;
            }
            if spent_ns > ALONE_NS {
                process::give_way();
            }
        }
    }

    /// Whether looking has paid: the next budget is longer or shorter.
    pub fn paid(&mut self, yes: bool) {
        if !self.waited {
            return;
        }
        self.waited = false;
        BUDGET_NS.with(|cell| {
            let old = cell.get();
            cell.set(if yes { old.saturating_mul(2) } else { old / 2 });
        });
    }
}
