//! When a source may send: the rules, and the schedule of the barrel shifter.

use barewire_units::{ByteSize, Duration, Instant, Rate};

use super::run::{BuilderId, SourceId};

/// What a source waits for before it sends to a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing.
    Free,
    /// Tokens in a bucket of its own for each builder.
    Shaped {
        /// Rate of each bucket.
        rate: Rate,
        /// Depth of each bucket.
        burst: ByteSize,
    },
    /// Its turn at the builder.
    Barrel(Barrel),
    /// The builder's grant for the fragment.
    Credits,
    /// The start that the manager has set for the event, and then a slot for each source
    /// of a lower number.
    Scheduled {
        /// Time for a fragment.
        slot: Duration,
    },
}

/// In slot k source i may send to builder (i + k) mod period, if there is one of that
/// number. With a period that is neither less than the sources nor less than the builders,
/// no two sources have the same builder, and each has each once in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrel {
    /// Builders.
    pub builders: u16,
    /// Slots until everything repeats.
    pub period: u16,
    /// When slot 0 begins.
    pub epoch: Instant,
    /// Time of a slot.
    pub slot: Duration,
    /// Rate of the link: what does not end within the slot at this rate is not begun.
    pub rate: Rate,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The builder, if there is one of that number.
    pub builder: Option<BuilderId>,
    /// When the next slot begins.
    pub ends: Instant,
}

impl Barrel {
    /// The shortest period for so many.
    #[must_use]
    pub const fn period_for(sources: u16, builders: u16) -> u16 {
        if sources > builders {
            sources
        } else {
            builders
        }
    }

    /// The turn of `source` at `now`; before the epoch nobody has one.
    #[must_use]
    pub fn turn(&self, source: SourceId, now: Instant) -> Turn {
        let Some(since) = now.checked_duration_since(self.epoch) else {
            return Turn {
                builder: None,
                ends: self.epoch,
            };
        };
        let slot_ps = self.slot.as_ps().max(1);
        let period = u64::from(self.period.max(1));
        let slot = since.as_ps() / slot_ps;
        let place = (u64::from(source.0) + slot % period) % period;
        let builder = u16::try_from(place).ok();
        let into = Duration::from_ps(since.as_ps() % slot_ps);
        let left = Duration::from_ps(slot_ps).saturating_sub(into);
        Turn {
            builder: builder.filter(|&it| it < self.builders).map(BuilderId),
            ends: now.saturating_add(left),
        }
    }

    /// Bytes that still end within the slot.
    #[must_use]
    pub fn room(&self, turn: &Turn, now: Instant) -> u64 {
        let left = turn.ends.saturating_duration_since(now);
        self.rate.bytes_in(left).as_bytes()
    }
}
