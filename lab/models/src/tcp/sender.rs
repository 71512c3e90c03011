//! The sending end of a TCP connection: window, congestion control, Nagle, repetition.
//!
//! | event | what changes |
//! |---|---|
//! | new data acknowledged | congestion window + 1 segment, or + 1 segment a window above the threshold |
//! | third acknowledgement of the same byte | repeat it; threshold := half of what is out |
//! | part of what was out then is acknowledged | repeat the next hole |
//! | a tick, and nothing acknowledged for the time-out | repeat from there; window := 1 segment |
//!
//! Nagle: less than a whole segment goes only at the end of a message, and only when
//! nothing is out.
//!
//! Source: RFC 5681, RFC 6582, RFC 896; the tick is that of the Linux 2.2 kernel.

use barewire_units::{Duration, Instant};

/// What a sender is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Bytes of a whole segment.
    pub segment_bytes: u64,
    /// Bytes of the socket's buffer.
    pub buffer_bytes: u64,
    /// Whether less than a segment waits for the acknowledgement of what is out.
    pub nagle: bool,
    /// Shortest time without acknowledgement until data are repeated.
    pub time_out: Duration,
}

/// A piece of the stream to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first byte.
    pub seq: u64,
    /// Bytes.
    pub len: u64,
}

/// What a sender has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments sent, repeated ones among them.
    pub segments: u64,
    /// Segments shorter than a whole one.
    pub short: u64,
    /// Repetitions after three equal acknowledgements.
    pub fast_repeats: u64,
    /// Time-outs.
    pub time_outs: u64,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    /// First byte that is not acknowledged, to send next, not written, and sent never.
    unacknowledged: u64,
    next: u64,
    written: u64,
    highest: u64,
    /// End of the last whole message.
    pushed: u64,
    edge: u64,
    window: u64,
    threshold: u64,
    equal_acks: u32,
    /// Until this is acknowledged, losses are of one event.
    recover: Option<u64>,
    repeat: Option<u64>,
    /// When the time-out comes, while something is out.
    deadline: Option<Instant>,
    stats: SenderStats,
}

impl Sender {
    /// A connection just set up, to a receiver with a buffer of `edge` bytes.
    #[must_use]
    pub fn new(config: SenderConfig, edge: u64) -> Self {
        Self {
            config,
            unacknowledged: 0,
            next: 0,
            written: 0,
            highest: 0,
            pushed: 0,
            edge,
            window: 2 * config.segment_bytes,
            threshold: u64::MAX,
            equal_acks: 0,
            recover: None,
            repeat: None,
            deadline: None,
            stats: SenderStats::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Bytes of the socket's buffer.
    #[must_use]
    pub const fn buffer_bytes(&self) -> u64 {
        self.config.buffer_bytes
    }

    /// Bytes that the program may still write.
    #[must_use]
    pub const fn room(&self) -> u64 {
        let held = self.written - self.unacknowledged;
        self.config.buffer_bytes.saturating_sub(held)
    }

    /// When the time-out comes, while something is out.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The program has written `bytes`, which may end a message.
    pub const fn write(&mut self, bytes: u64, ends_message: bool) {
        self.written += bytes;
        if ends_message {
            self.pushed = self.written;
        }
    }

    /// The next segment that may go, if any.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        let segment = match self.repeat.take() {
            Some(seq) => Segment {
                seq,
                len: self.config.segment_bytes.min(self.highest - seq),
            },
            None => self.advance()?,
        };
        self.stats.segments += 1;
        self.stats.short += u64::from(segment.len < self.config.segment_bytes);
        self.deadline
            .get_or_insert(now.saturating_add(self.config.time_out));
        Some(segment)
    }

    fn advance(&mut self) -> Option<Segment> {
        let limit = self.edge.min(self.unacknowledged + self.window);
        let len = self.config.segment_bytes.min(self.written - self.next);
        let whole = len == self.config.segment_bytes;
        let idle = self.unacknowledged == self.next;
        let ends = self.next + len == self.pushed && (idle || !self.config.nagle);
        if len == 0 || self.next + len > limit || !(whole || ends) {
            return None;
        }
        let seq = self.next;
        self.next += len;
        self.highest = self.highest.max(self.next);
        Some(Segment { seq, len })
    }

    /// Takes an acknowledgement.
    pub fn handle_ack(&mut self, now: Instant, ack: u64, edge: u64) {
        let opened = edge > self.edge;
        self.edge = self.edge.max(edge);
        if ack > self.unacknowledged && ack <= self.highest {
            self.handle_progress(now, ack);
        } else if ack == self.unacknowledged && !opened && ack < self.highest {
            self.handle_equal(ack);
        }
    }

    fn handle_progress(&mut self, now: Instant, ack: u64) {
        let segment = self.config.segment_bytes;
        self.unacknowledged = ack;
        self.next = self.next.max(ack);
        self.equal_acks = 0;
        self.repeat = None;
        let out = self.highest > ack;
        self.deadline = out.then(|| now.saturating_add(self.config.time_out));
        match self.recover {
            Some(recover) if ack < recover => self.repeat = Some(ack),
            Some(_) => {
                self.recover = None;
                self.window = self.threshold;
            }
            None if self.window < self.threshold => self.window += segment,
            None => self.window += (segment * segment / self.window).max(1),
        }
        self.window = self.window.min(4 * self.config.buffer_bytes);
    }

    fn handle_equal(&mut self, ack: u64) {
        let segment = self.config.segment_bytes;
        self.equal_acks += 1;
        if self.recover.is_some() {
            self.window += segment;
        } else if self.equal_acks == 3 {
            self.threshold = ((self.highest - ack) / 2).max(2 * segment);
            self.window = self.threshold + 3 * segment;
            self.recover = Some(self.highest);
            self.repeat = Some(ack);
            self.stats.fast_repeats += 1;
        }
    }

    /// A tick of the kernel's timer.
    pub fn handle_tick(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        let segment = self.config.segment_bytes;
        self.threshold = ((self.highest - self.unacknowledged) / 2).max(2 * segment);
        self.window = segment;
        self.next = self.unacknowledged;
        self.recover = None;
        self.repeat = None;
        self.equal_acks = 0;
        self.deadline = Some(now.saturating_add(self.config.time_out));
        self.stats.time_outs += 1;
    }
}
