//! The workstation's processor: what the steps of driver and program cost.
//!
//! Each step is told as the time it takes; its memory work goes through the [`Cache`], so
//! what it costs depends on what was touched before.

use barewire_units::{ByteSize, Duration};

use super::cache::{Cache, CacheConfig, Moved};

crate::parameters! {
    /// What the processor needs for each operation.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Costs {
        /// A system call to the driver and back, with the context switch it forces.
        pub system_call: Duration,
        /// One KiB loaded and stored by the copy loop, all in the cache.
        pub copy_per_kib: Duration,
        /// One KiB stored by the program, all in the cache.
        pub store_per_kib: Duration,
        /// One line moved between cache and memory, whichever way and for whatever reason.
        pub line_transfer: Duration,
        /// One look at the interface's status.
        pub status_read: Duration,
        /// One translation control word loaded, in the processor and in the I/O controller.
        pub translation_word: Duration,
        /// A transfer set up and started, beside the translation words.
        pub start: Duration,
        /// A store that the page's entry forbids: trap, sleep, wake.
        pub fault: Duration,
        /// A page.
        pub page: ByteSize,
        /// Whether the interface finds modified lines in the cache; else they are written to
        /// memory before it reads.
        pub coherent: bool,
    }
}

/// A processor with its data cache.
pub struct Processor {
    costs: Costs,
    cache: Cache,
}

impl Processor {
    /// A processor with a cold cache.
    #[must_use]
    pub fn new(costs: Costs, cache: CacheConfig) -> Self {
        Self {
            costs,
            cache: Cache::new(cache),
        }
    }

    /// What its operations cost.
    #[must_use]
    pub const fn costs(&self) -> Costs {
        self.costs
    }

    /// Copies `bytes` from `source` to `destination`, line by line.
    pub fn copy(&mut self, source: u64, destination: u64, bytes: u64) -> Duration {
        let line_bytes = self.cache.config().line_bytes();
        let mut moved = Moved::default();
        for offset in (0..bytes).step_by(line_bytes as usize) {
            moved += self.cache.access(source + offset, false);
            moved += self.cache.access(destination + offset, true);
        }
        per_kib(self.costs.copy_per_kib, bytes) + self.costs.line_transfer * moved.lines()
    }

    /// Stores `bytes` at `address`.
    pub fn store(&mut self, address: u64, bytes: u64) -> Duration {
        let line_bytes = self.cache.config().line_bytes();
        let mut moved = Moved::default();
        for offset in (0..bytes).step_by(line_bytes as usize) {
            moved += self.cache.access(address + offset, true);
        }
        per_kib(self.costs.store_per_kib, bytes) + self.costs.line_transfer * moved.lines()
    }

    /// Brings `bytes` at `address` to memory, where the interface reads, and sets the
    /// transfer up: status, modified lines, translation words, start.
    pub fn map(&mut self, address: u64, bytes: u64) -> Duration {
        let moved = if self.costs.coherent {
            Moved::default()
        } else {
            self.cache.flush(address, bytes)
        };
        let pages = self.pages(address, bytes);
        let costs = &self.costs;
        costs.status_read
            + costs.line_transfer * moved.lines()
            + costs.translation_word * pages
            + costs.start
    }

    fn pages(&self, address: u64, bytes: u64) -> u64 {
        let page_bytes = self.costs.page.as_bytes().max(1);
        address.saturating_add(bytes).div_ceil(page_bytes) - address / page_bytes
    }
}

fn per_kib(time: Duration, bytes: u64) -> Duration {
    time * bytes / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor() -> Processor {
        let us = Duration::from_us;
        let costs = Costs {
            system_call: us(100),
            copy_per_kib: us(20),
            store_per_kib: us(10),
            line_transfer: us(2),
            status_read: us(1),
            translation_word: us(3),
            start: us(50),
            fault: us(70),
            page: ByteSize::from_kib(4),
            coherent: false,
        };
        let cache = CacheConfig {
            size: ByteSize::from_kib(8),
            line: ByteSize::from_bytes(128),
            ways: 4,
        };
        Processor::new(costs, cache)
    }

    #[test]
    fn a_copy_pays_for_the_lines_it_moves() {
        let mut processor = processor();
        let us = Duration::from_us;
        // Cold: 8 lines of each; warm: none.
        assert_eq!(processor.copy(0, 0x10_000, 1024), us(20 + 32));
        assert_eq!(processor.copy(0, 0x10_000, 1024), us(20));
        // Flushed: 8 lines out now, 8 in with the next copy.
        assert_eq!(processor.map(0x10_000, 1024), us(1 + 16 + 3 + 50));
        assert_eq!(processor.copy(0, 0x10_000, 1024), us(20 + 16));
        assert_eq!(processor.store(0, 1024), us(10));
    }

    #[test]
    fn a_coherent_bus_needs_no_flush() {
        let mut processor = processor();
        processor.costs.coherent = true;
        let us = Duration::from_us;
        assert_eq!(processor.copy(0, 0x10_000, 1024), us(20 + 32));
        assert_eq!(processor.map(0x10_000, 1024), us(1 + 3 + 50));
        assert_eq!(processor.copy(0, 0x10_000, 1024), us(20));
    }

    #[test]
    fn a_transfer_needs_a_translation_word_for_each_page() {
        let mut processor = processor();
        let us = Duration::from_us;
        assert_eq!(processor.map(4000, 200), us(1 + 2 * 3 + 50));
        assert_eq!(processor.map(4096, 65_536), us(1 + 16 * 3 + 50));
    }
}
