//! Memory: what a copy costs, and what it costs that a card does not see the cache.
//!
//! A copy of a message that fits the cache goes at the one rate; of a longer one at the
//! other, all of it: a message that is longer than the cache has pushed its own beginning out
//! before it is read again. Where a card reads memory and not the cache, what the processor
//! has modified is written back first; that is never more than the cache holds.

use barewire_units::{ByteSize, Duration, Rate};

use super::costs::per_kib;

crate::parameters! {
    /// Memory and its cache, as a copy sees them.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Memory {
        /// What a copy costs however short it is.
        pub setup: Duration,
        /// Rate of a copy within the cache.
        pub cached: Rate,
        /// Rate of a copy beyond it.
        pub beyond: Rate,
        /// The longest message that is copied within the cache.
        pub cache: ByteSize,
        /// A KiB of modified lines written to memory; zero where a card sees the cache.
        pub write_back_kib: Duration,
    }
}

impl Memory {
    /// Copies `bytes` of a message of `message_bytes`.
    #[must_use]
    pub fn copy(&self, bytes: u64, message_bytes: u64) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        let rate = if message_bytes <= self.cache.as_bytes() {
            self.cached
        } else {
            self.beyond
        };
        let time = rate.checked_time_to_send(ByteSize::from_bytes(bytes));
        self.setup.saturating_add(time.unwrap_or(Duration::MAX))
    }

    /// Brings `bytes` that the processor has written to where a card reads them.
    #[must_use]
    pub fn write_back(&self, bytes: u64) -> Duration {
        per_kib(self.write_back_kib, bytes.min(self.cache.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory {
            setup: Duration::from_ns(10),
            cached: Rate::from_gbps(8),
            beyond: Rate::from_gbps(4),
            cache: ByteSize::from_kib(64),
            write_back_kib: Duration::from_us(2),
        }
    }

    #[test]
    fn a_copy_goes_at_the_rate_of_its_message() {
        let memory = memory();
        let ns = Duration::from_ns;
        assert_eq!(memory.copy(1000, 1000), ns(1010));
        assert_eq!(memory.copy(1000, 65_536), ns(1010));
        assert_eq!(memory.copy(1000, 65_537), ns(2010));
        assert_eq!(memory.copy(0, 65_537), Duration::ZERO);
        assert_eq!(memory.copy(u64::MAX, 1), Duration::MAX);
    }

    #[test]
    fn no_more_is_written_back_than_the_cache_holds() {
        let memory = memory();
        assert_eq!(memory.write_back(2048), Duration::from_us(4));
        assert_eq!(memory.write_back(1 << 40), Duration::from_us(128));
    }
}
