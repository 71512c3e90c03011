//! Streaming mode of the Micro Channel: bursts of words, and after each a pause in which
//! the I/O channel controller reloads its buffer.
//!
//! A burst begins when the receiver has room for the whole of it. With room there always
//! is one burst every `words * word + reload`.

use barewire_units::{ByteSize, Duration, Instant};

crate::parameters! {
    /// Times of the bus.
    #[derive(Copy, PartialEq, Eq)]
    pub struct StreamingConfig {
        /// Words of a burst.
        pub words: u64,
        /// A word.
        pub word: ByteSize,
        /// Time of a word on the bus.
        pub word_time: Duration,
        /// Pause after a burst.
        pub reload: Duration,
    }
}

impl StreamingConfig {
    /// Bytes of a full burst.
    #[must_use]
    pub const fn burst_bytes(&self) -> u64 {
        self.words * self.word.as_bytes()
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// Nothing to do, or a receiver without room. Free since then or from then on.
    Free(Instant),
    /// A burst of so many bytes, until then.
    Burst(u64, Instant),
}

/// The interface as the master of the bus.
pub struct Streaming {
    config: StreamingConfig,
    /// Bytes of the block that no burst has taken.
    left_bytes: u64,
    phase: Phase,
}

impl Streaming {
    /// A bus that nobody uses.
    #[must_use]
    pub const fn new(config: StreamingConfig) -> Self {
        Self {
            config,
            left_bytes: 0,
            phase: Phase::Free(Instant::ORIGIN),
        }
    }

    /// Has a block of `bytes` to stream from now on.
    pub fn start(&mut self, bytes: u64) {
        self.left_bytes += bytes;
    }

    /// Begins the next burst if there is one and the receiver has room.
    pub fn offer_room(&mut self, now: Instant, room_bytes: u64) {
        let Phase::Free(since) = self.phase else {
            return;
        };
        let bytes = self.left_bytes.min(self.config.burst_bytes());
        if bytes == 0 || bytes > room_bytes {
            return;
        }
        self.left_bytes -= bytes;
        let words = bytes.div_ceil(self.config.word.as_bytes().max(1));
        let end = since.max(now) + self.config.word_time * words;
        self.phase = Phase::Burst(bytes, end);
    }

    /// When the burst that runs has brought its words.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Burst(_, end) => Some(end),
            Phase::Free(_) => None,
        }
    }

    /// The bytes that a burst has brought, once, when its time has come.
    pub fn poll(&mut self, now: Instant) -> Option<u64> {
        match self.phase {
            Phase::Burst(bytes, end) if end <= now => {
                self.phase = Phase::Free(end + self.config.reload);
                Some(bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us_tenths: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ns(us_tenths * 100)
    }

    #[test]
    fn a_block_goes_in_bursts_with_a_pause_after_each() {
        let mut bus = Streaming::new(StreamingConfig {
            words: 16,
            word: ByteSize::from_bytes(4),
            word_time: Duration::from_ns(100),
            reload: Duration::from_us(2),
        });
        bus.start(64 + 6);
        bus.offer_room(at(0), 63);
        assert_eq!(bus.next_deadline(), None);
        bus.offer_room(at(5), 64);
        assert_eq!(bus.next_deadline(), Some(at(21)));
        bus.offer_room(at(6), 64);
        assert_eq!((bus.poll(at(20)), bus.poll(at(21))), (None, Some(64)));
        // The rest is two words, after the pause.
        bus.offer_room(at(21), 64);
        assert_eq!(bus.next_deadline(), Some(at(43)));
        assert_eq!((bus.poll(at(43)), bus.poll(at(43))), (Some(6), None));
        bus.offer_room(at(99), 64);
        assert_eq!(bus.next_deadline(), None);
    }
}
