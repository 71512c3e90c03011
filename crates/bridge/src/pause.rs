//! What a bridge does between two polls that find nothing: it lets others have the processor, unless that costs too much.
//!
//! Where there are fewer processors than threads that poll, somebody waits for this one who would give the bridge work: the
//! program that a frame has just woken, for instance. That takes microseconds. Where the machine computes something else, the
//! bridge would wait for as long as the scheduler lets that go on, which are milliseconds. So it looks at how long it was away.

/// Polls without a pause after one that took too long. They double each time, and become fewer slowly: where a program that
/// computes and one that answers take turns, short pauses do not make up for long ones.
const REST_FIRST: u32 = 256;
const REST_MAX: u32 = 1 << 16;
/// Each short pause takes one part in so many from those.
const FORGOTTEN: u32 = 256;

/// Whether to pause, learnt from how long pauses take.
#[derive(Debug)]
pub struct Pause {
    /// Polls that go without one.
    rest: u32,
    /// How many those will be the next time.
    next_rest: u32,
}

impl Pause {
    /// Takes pauses to be short, in the beginning.
    pub const fn new() -> Self {
        Self {
            rest: 0,
            next_rest: REST_FIRST,
        }
    }

    /// Whether to pause now.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        is_due
    }

    /// A pause took so long; `longest_ns` is still well.
    pub fn took(&mut self, ns: u64, longest_ns: u64) {
        if ns <= longest_ns {
            self.next_rest = (self.next_rest - self.next_rest / FORGOTTEN).max(REST_FIRST);
        } else {
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(REST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many polls pause, if each pause takes so long.
    fn pauses(pause: &mut Pause, polls: u32, ns: u64) -> u32 {
        let mut pauses = 0;
        for _ in 0..polls {
            if pause.is_due() {
                pauses += 1;
                pause.took(ns, 50_000);
            }
        }
        pauses
    }

    #[test]
    fn long_pauses_become_rare_and_short_ones_come_back() {
        let mut pause = Pause::new();
        assert_eq!(pauses(&mut pause, 1000, 50_000), 1000);
        assert_eq!(pauses(&mut pause, 1 + REST_FIRST, 50_001), 1);
        assert_eq!(pauses(&mut pause, 1 + 2 * REST_FIRST, 3_000_000), 1);
        assert!(pauses(&mut pause, 10 * REST_MAX, 3_000_000) < 20);
        // The next one that tries finds that the processor is free.
        pauses(&mut pause, REST_MAX, 300);
        assert_eq!(pauses(&mut pause, 10_000, 300), 10_000);
        assert_eq!(pauses(&mut pause, 1 + REST_FIRST, 3_000_000), 1);
    }

    #[test]
    fn long_pauses_among_short_ones_become_rare_too() {
        let mut pause = Pause::new();
        let (mut polls, mut long) = (0, 0);
        while polls < 1_000_000 {
            polls += pauses(&mut pause, 20, 300).max(1);
            if pause.is_due() {
                pause.took(3_000_000, 50_000);
                long += 1;
            }
            polls += pause.rest;
            pause.rest = 0;
        }
        assert!(long < 50, "{long}");
    }
}
