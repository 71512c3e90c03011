//! An output port of a switch without limits inside: a link, and a finite buffer before it.
//! What does not fit when it comes is lost.
//!
//! It is asked only when a frame comes: frames that have left by then are taken out first.
//! As they leave in order and one after another, what the buffer holds is exact at
//! each of those instants, and there is no event for each departure.

use std::collections::VecDeque;

use barewire_units::{ByteSize, Duration, Instant, Rate};

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    rate: Rate,
    buffer_bytes: u64,
    /// When each frame will have left, and what it holds until then.
    leaving: VecDeque<(Instant, u64)>,
    held_bytes: u64,
    free_at: Instant,
    highest_bytes: u64,
    lost: u64,
}

impl Port {
    /// An empty port.
    #[must_use]
    pub const fn new(rate: Rate, buffer_bytes: u64) -> Self {
        Self {
            rate,
            buffer_bytes,
            leaving: VecDeque::new(),
            held_bytes: 0,
            free_at: Instant::ORIGIN,
            highest_bytes: 0,
            lost: 0,
        }
    }

    /// A whole frame comes, which holds `stored_bytes` of the buffer until its `wire_bytes` are
    /// sent. When that will be, or `None` if it is lost. Times do not go back.
    pub fn offer(&mut self, now: Instant, stored_bytes: u64, wire_bytes: u64) -> Option<Instant> {
        while let Some(&(at, bytes)) = self.leaving.front().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            self.held_bytes -= bytes;
            debug_assert!(at <= now);
        }
        let after = self.held_bytes.saturating_add(stored_bytes);
        if after > self.buffer_bytes {
            self.lost += 1;
            return None;
        }
        self.held_bytes = after;
        self.highest_bytes = self.highest_bytes.max(after);
        let time = self.rate.time_to_send(ByteSize::from_bytes(wire_bytes));
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.leaving.push_back((self.free_at, stored_bytes));
        Some(self.free_at)
    }

    /// How long a frame takes on the link.
    #[must_use]
    pub fn time(&self, wire_bytes: u64) -> Duration {
        self.rate.time_to_send(ByteSize::from_bytes(wire_bytes))
    }

    /// The most that it has held.
    #[must_use]
    pub const fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }

    /// Frames that did not fit.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}
