//! A processor: a resource that does one operation at a time.

use barewire_units::{Duration, Instant};

/// A processor. It knows no priorities: whoever drives it decides, whenever an
/// operation is done, what comes next; an interrupt is therefore taken between two
/// operations, as between two instructions.
#[derive(Clone, Debug)]
pub struct Processor {
    busy_until: Instant,
    busy: Duration,
    operations: u64,
}

impl Default for Processor {
    fn default() -> Self {
        Self::new()
    }
}

impl Processor {
    /// A processor that has done nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            busy_until: Instant::ORIGIN,
            busy: Duration::ZERO,
            operations: 0,
        }
    }

    /// Begins an operation that takes `cost`, now or when the one before it is done,
    /// and says when it will be done.
    pub fn begin(&mut self, now: Instant, cost: Duration) -> Instant {
        self.busy_until = self.busy_until.max(now).saturating_add(cost);
        self.busy = self.busy.saturating_add(cost);
        self.operations += 1;
        self.busy_until
    }

    /// When the last operation is done.
    #[must_use]
    pub const fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Time spent in operations, that of the one under way included.
    #[must_use]
    pub const fn busy_time(&self) -> Duration {
        self.busy
    }

    /// Operations begun.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_follow_one_another() {
        let us = |us| Instant::ORIGIN + Duration::from_us(us);
        let mut processor = Processor::new();
        assert_eq!(processor.begin(us(10), Duration::from_us(5)), us(15));
        assert_eq!(processor.begin(us(12), Duration::from_us(5)), us(20));
        assert_eq!(processor.begin(us(30), Duration::from_us(1)), us(31));
        assert_eq!(processor.busy_until(), us(31));
        assert_eq!(processor.busy_time(), Duration::from_us(11));
        assert_eq!(processor.operations(), 3);
    }
}
