//! The bus between a processor, its memory and its cards: one transfer at a time, in the
//! order in which they were asked for.
//!
//! ```text
//! a burst of the card        setup, then bytes at the rate; a descriptor is one of its own
//! a burst of stores          store_setup, then bytes at the rate: what the processor's write
//!                            buffer sends off together
//! a word of the processor    write or read, whole: it waits for each
//! ```
//! Whoever wants the bus asks for one burst after the other; so two that want it all the
//! time have a burst each in turn.

use barewire_units::{ByteSize, Duration, Instant, Rate};

crate::parameters! {
    /// Times and sizes of a bus.
    #[derive(Copy, PartialEq, Eq)]
    pub struct BusConfig {
        /// Rate within a burst.
        pub rate: Rate,
        /// The longest burst of a card; at least a byte.
        pub burst: ByteSize,
        /// A burst of a card without its bytes: arbitration, address, reload.
        pub setup: Duration,
        /// The longest burst of stores of the processor; at least a byte.
        pub store_burst: ByteSize,
        /// A burst of stores without its bytes.
        pub store_setup: Duration,
        /// A word of the processor; at least a byte.
        pub word: ByteSize,
        /// It writes a word.
        pub write: Duration,
        /// It reads a word.
        pub read: Duration,
    }
}

impl BusConfig {
    /// A burst of the card of `bytes`.
    #[must_use]
    pub fn burst_time(&self, bytes: u64) -> Duration {
        self.setup.saturating_add(self.bytes_time(bytes))
    }

    /// A burst of stores of `bytes`.
    #[must_use]
    pub fn store_time(&self, bytes: u64) -> Duration {
        self.store_setup.saturating_add(self.bytes_time(bytes))
    }

    /// The words of `bytes`, each at `word`.
    #[must_use]
    pub fn words_time(&self, bytes: u64, word: Duration) -> Duration {
        let words = bytes.div_ceil(self.word.as_bytes().max(1));
        word.checked_mul(words).unwrap_or(Duration::MAX)
    }

    fn bytes_time(&self, bytes: u64) -> Duration {
        let time = self.rate.checked_time_to_send(ByteSize::from_bytes(bytes));
        time.unwrap_or(Duration::MAX)
    }
}

/// A bus.
#[derive(Clone, Debug)]
pub struct Bus {
    config: BusConfig,
    free_at: Instant,
    busy: Duration,
    bytes: u64,
}

impl Bus {
    /// An idle bus.
    #[must_use]
    pub const fn new(config: BusConfig) -> Self {
        Self {
            config,
            free_at: Instant::ORIGIN,
            busy: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Its times and sizes.
    #[must_use]
    pub const fn config(&self) -> &BusConfig {
        &self.config
    }

    /// A burst of the card of `bytes`; when it is over.
    pub fn burst(&mut self, now: Instant, bytes: u64) -> Instant {
        self.take(now, bytes, self.config.burst_time(bytes))
    }

    /// A burst of stores of `bytes`; when it is over.
    pub fn store(&mut self, now: Instant, bytes: u64) -> Instant {
        self.take(now, bytes, self.config.store_time(bytes))
    }

    /// The processor writes `bytes`, word by word; when it has.
    pub fn write(&mut self, now: Instant, bytes: u64) -> Instant {
        let time = self.config.words_time(bytes, self.config.write);
        self.take(now, bytes, time)
    }

    /// The processor reads `bytes`, word by word; when it has.
    pub fn read(&mut self, now: Instant, bytes: u64) -> Instant {
        let time = self.config.words_time(bytes, self.config.read);
        self.take(now, bytes, time)
    }

    /// Time spent in transfers, that of the one under way included.
    #[must_use]
    pub const fn busy_time(&self) -> Duration {
        self.busy
    }

    /// Bytes moved, those of the transfer under way included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn take(&mut self, now: Instant, bytes: u64, time: Duration) -> Instant {
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.busy = self.busy.saturating_add(time);
        self.bytes += bytes;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ns(ns)
    }

    #[test]
    fn transfers_follow_one_another() {
        let ns = Duration::from_ns;
        let mut bus = Bus::new(BusConfig {
            rate: Rate::from_gbps(8),
            burst: ByteSize::from_bytes(64),
            setup: ns(100),
            store_burst: ByteSize::from_bytes(32),
            store_setup: ns(20),
            word: ByteSize::from_bytes(4),
            write: ns(30),
            read: ns(50),
        });
        assert_eq!(bus.burst(at(0), 64), at(164));
        assert_eq!(bus.store(at(10), 32), at(216));
        assert_eq!(bus.write(at(1000), 5), at(1060));
        assert_eq!(bus.read(at(1000), 8), at(1160));
        assert_eq!((bus.busy_time(), bus.bytes()), (ns(376), 109));
    }
}
