//! Signs of life, and how long they take there and back.

/// The new round trip counts for one part in so many.
const SMOOTHING: u64 = 8;

/// What one side of a link knows of its pings.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    number: u32,
    /// When the last one was sent, and whether its answer has yet to come.
    sent_ns: u64,
    is_open: bool,
    /// What the other side has asked with, and was not sent back yet.
    asked: Option<u32>,
    smoothed_ns: u64,
}

impl Pings {
    /// Asks: the number to do it with.
    pub fn ask(&mut self, now_ns: u64) -> u32 {
        self.number = self.number.wrapping_add(1);
        (self.sent_ns, self.is_open) = (now_ns, true);
        self.number
    }

    /// When it last asked.
    pub fn sent_ns(&self) -> u64 {
        self.sent_ns
    }

    /// An answer has come: the smoothed round trip in nanoseconds, if it is that to the last question.
    pub fn answered(&mut self, number: u32, now_ns: u64) -> Option<u64> {
        if !self.is_open || number != self.number {
            return None;
        }
        self.is_open = false;
        let round_trip_ns = now_ns.saturating_sub(self.sent_ns).max(1);
        self.smoothed_ns = match self.smoothed_ns {
            0 => round_trip_ns,
            before => before - before / SMOOTHING + round_trip_ns / SMOOTHING,
        };
        Some(self.smoothed_ns)
    }

    /// The other side has asked. One answer is enough if it has asked twice.
    pub fn asked(&mut self, number: u32) {
        self.asked = Some(number);
    }

    /// Whether an answer is due.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// The answer that is due.
    pub fn take_asked(&mut self) -> Option<u32> {
        self.asked.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_smoothed_and_only_the_last_question_counts() {
        let mut pings = Pings::default();
        assert_eq!(pings.answered(0, 5), None);
        let first = pings.ask(1000);
        assert_eq!(pings.answered(first, 9000), Some(8000));
        // Once.
        assert_eq!(pings.answered(first, 9500), None);
        let late = pings.ask(20_000);
        let second = pings.ask(30_000);
        assert_eq!(pings.answered(late, 31_000), None);
        assert_eq!(pings.answered(second, 46_000), Some(9000));
        assert_eq!(pings.sent_ns(), 30_000);
    }

    #[test]
    fn an_answer_is_due_once() {
        let mut pings = Pings::default();
        assert!(!pings.is_asked());
        pings.asked(3);
        pings.asked(4);
        assert!(pings.is_asked());
        assert_eq!((pings.take_asked(), pings.take_asked()), (Some(4), None));
    }
}
