//! Trial: whether a thread had better yield while others want its processor.
//!
//! That cannot be known from what the thread sees. A yield gives a program that computes a whole time slice, and the
//! kernel prefers threads that have slept. But where the other end is next to run, two yields cost less than a sleep and a
//! wake-up. So a thread tries both, and counts how far it gets in each. Where it does not yield, it polls for a short
//! while and then sleeps, and at once if the other end has to run on the same processor.
//!
//! Both ends of a connection must try the same at the same time. If one of them sleeps, it seldom pays for the other
//! to yield. So the time is divided into *epochs*, which begin at the same moments in all processes:
//!
//! ```text
//! | yields | sleeps | better way ...                       | yields | sleeps | better way ...
//! '------------------- period: 8 to 64 epochs -------------'
//! ```
//!
//! A thread is *free* until it has seen contention: it yields, and counts nothing. It is free again after a period
//! without contention in which yielding was better. The period doubles when it has confirmed the better way.

/// An epoch lasts for 2 to the power of this in nanoseconds: 34 ms, some time slices of whoever else wants the
/// processor.
const EPOCH_SHIFT: u32 = 25;
/// How far a thread must have got in an epoch, or it says nothing.
const UNITS_MIN: u64 = 16;
/// Epochs in a period.
const PERIOD_MIN: u64 = 8;
const PERIOD_MAX: u64 = 64;

/// What a thread knows of yielding and sleeping.
#[derive(Clone, Copy)]
pub struct Trial {
    /// Epochs in a period; 0: the thread is free.
    period: u64,
    /// The epoch, counted from the start of the clock, and when the thread's first wait in it began.
    epoch: u64,
    begun_ns: u64,
    /// How far the thread has got in it.
    units: u64,
    /// Units a second of the thread while it yields and while it sleeps, the last period counting half; 0: not known.
    rate_yields: u64,
    rate_sleeps: u64,
    /// The better way, as far as is known, is to yield.
    better_yields: bool,
    /// In this period somebody kept the processor.
    contended: bool,
}

impl Trial {
    pub const FREE: Self = Self {
        period: 0,
        epoch: 0,
        begun_ns: 0,
        units: 0,
        rate_yields: 0,
        rate_sleeps: 0,
        better_yields: true,
        contended: false,
    };

    /// Whether nothing is counted.
    pub const fn is_free(&self) -> bool {
        self.period == 0
    }

    /// Whether a wait that begins now may yield.
    pub fn may_yield(&mut self, now_ns: u64) -> bool {
        if self.is_free() {
            return true;
        }
        let epoch = now_ns >> EPOCH_SHIFT;
        if epoch != self.epoch {
            self.end_epoch(now_ns);
            self.epoch = epoch;
            self.begun_ns = now_ns;
            self.units = 0;
        }
        match self.place() {
            None | Some(0) => true,
            Some(1) => false,
            Some(_) => self.better_yields,
        }
    }

    /// Where the epoch lies in the period; `None` if the thread is free.
    const fn place(&self) -> Option<u64> {
        self.epoch.checked_rem(self.period)
    }

    /// The thread has got on: by a message, an event, or some KiB.
    pub const fn progress(&mut self, units: u64) {
        self.units += units;
    }

    /// Somebody kept the processor, this thread's or that of the one who is to answer.
    pub const fn contention(&mut self, now_ns: u64) {
        if self.is_free() {
            *self = Self::FREE;
            self.period = PERIOD_MIN;
            self.epoch = now_ns >> EPOCH_SHIFT;
            self.begun_ns = now_ns;
        }
        self.contended = true;
    }

    fn end_epoch(&mut self, now_ns: u64) {
        let lasted_ns = now_ns.saturating_sub(self.begun_ns);
        let is_whole = lasted_ns >> (EPOCH_SHIFT - 1) > 0 && self.units >= UNITS_MIN;
        let rate = self.units.saturating_mul(1_000_000_000) / lasted_ns.max(1);
        let new = |before| if is_whole { mean(before, rate) } else { 0 };
        match self.place() {
            Some(0) => self.rate_yields = new(self.rate_yields),
            Some(1) => {
                self.rate_sleeps = new(self.rate_sleeps);
                self.end_trial();
            }
            _ => {}
        }
    }

    /// Both ways were tried.
    fn end_trial(&mut self) {
        let is_known = self.rate_yields > 0 && self.rate_sleeps > 0;
        // Who sleeps is about as fast as without the library, and single epochs differ much. So yields must clearly pay.
        let enough = self.rate_sleeps.saturating_add(self.rate_sleeps / 2);
        let better_yields = !is_known || self.rate_yields > enough;
        if better_yields && !self.contended {
            *self = Self::FREE;
            return;
        }
        self.period = if better_yields == self.better_yields {
            (self.period * 2).min(PERIOD_MAX)
        } else {
            PERIOD_MIN
        };
        self.better_yields = better_yields;
        self.contended = false;
    }
}

const fn mean(before: u64, now: u64) -> u64 {
    if before == 0 {
        now
    } else {
        before.midpoint(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_NS: u64 = 1 << EPOCH_SHIFT;
    /// Microseconds from one message to the next, if both ends yield, if only one does, and if none does.
    type Steps = [u64; 3];
    /// Nobody else wants the processor.
    const ALONE_US: Steps = [20, 80, 60];
    /// Somebody takes what a yielding thread gives away.
    const CONTENDED_US: Steps = [150, 400, 60];

    struct Ends {
        now_ns: u64,
        ends: [Trial; 2],
        messages: u64,
    }

    impl Ends {
        fn new() -> Self {
            let ends = [Trial::FREE; 2];
            Self {
                now_ns: 977 * EPOCH_NS + 12_345,
                ends,
                messages: 0,
            }
        }

        /// Both send in turn for so many epochs. Says how long a message took on average, in ns.
        fn run(&mut self, epochs: u64, steps: Steps, is_contended: bool) -> u64 {
            let begun_ns = self.now_ns;
            let before = self.messages;
            while self.now_ns < begun_ns + epochs * EPOCH_NS {
                let now_ns = self.now_ns;
                let yields = self.ends.each_mut().map(|end| end.may_yield(now_ns));
                let asleep = yields.iter().filter(|yields| !**yields).count();
                self.now_ns += steps[asleep] * 1000;
                self.messages += 1;
                for (end, yields) in self.ends.iter_mut().zip(yields) {
                    end.progress(1);
                    // One loses the processor, or waits for who has lost it.
                    if is_contended && yields && self.messages % 100 == 0 {
                        end.contention(self.now_ns);
                    }
                }
            }
            (self.now_ns - begun_ns) / (self.messages - before)
        }
    }

    #[test]
    fn a_free_thread_always_yields() {
        let mut ends = Ends::new();
        assert_eq!(ends.run(200, ALONE_US, false), 20_000);
        assert!(ends.ends.iter().all(Trial::is_free));
    }

    #[test]
    fn both_ends_sleep_where_yields_do_not_pay_and_yield_again_when_contention_is_over() {
        let mut ends = Ends::new();
        ends.run(100, CONTENDED_US, true);
        let step_ns = ends.run(640, CONTENDED_US, true);
        assert!(step_ns < 62_000, "one epoch of 64 yields: {step_ns} ns");
        // As long as the longest period, and the next.
        ends.run(2 * PERIOD_MAX, ALONE_US, false);
        assert_eq!(ends.run(64, ALONE_US, false), 20_000);
        assert!(ends.ends.iter().all(Trial::is_free));
    }

    #[test]
    fn contention_in_which_yields_pay_stops_none_but_those_of_the_trials() {
        let mut ends = Ends::new();
        ends.run(100, ALONE_US, true);
        let step_ns = ends.run(640, ALONE_US, true);
        assert!(step_ns < 21_000, "{step_ns} ns");
        assert!(!ends.ends.iter().any(Trial::is_free));
    }

    #[test]
    fn one_loss_is_soon_forgotten() {
        let mut ends = Ends::new();
        ends.ends[0].contention(ends.now_ns);
        ends.run(3 * PERIOD_MIN + 2, ALONE_US, false);
        assert!(ends.ends[0].is_free());
    }

    #[test]
    fn a_thread_that_hardly_waits_is_free_again() {
        let mut trial = Trial::FREE;
        let mut now_ns = 5 * EPOCH_NS;
        trial.contention(now_ns);
        for _ in 0..4 * PERIOD_MIN {
            now_ns += EPOCH_NS / 2;
            trial.may_yield(now_ns);
            trial.progress(1);
        }
        assert!(trial.is_free());
        assert!(trial.may_yield(0), "also if the clock went back");
    }

    #[test]
    fn any_times_are_safe() {
        let mut random = 1_u64;
        let mut trial = Trial::FREE;
        for _ in 0..100_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match random >> 62 {
                0 => trial.contention(random),
                1 => trial.progress(random >> 40),
                _ => _ = trial.may_yield(random),
            }
        }
    }
}
