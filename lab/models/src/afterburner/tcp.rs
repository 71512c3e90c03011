//! TCP by the segment: what the receiver says, and when.
//!
//! Cumulative acknowledgements, one for each two segments (rfc1122), and whenever the
//! window can be opened by two segments or half the buffer. The window is sent in 16 bits,
//! shifted (rfc1323). Back to back nothing is lost and the timer for a single
//! acknowledgement never strikes while the stream runs, so both are left out there: the
//! sender must be able to have more than two segments on their way. What is missing
//! altogether: opening and closing of a connection, urgent data, the timestamps of rfc1323 (one
//! segment at a time is timed instead, as before them), and new segments cut from old
//! ones when they are sent again.

/// Segments for one acknowledgement.
pub const SEGMENTS_PER_ACKNOWLEDGEMENT: u64 = 2;

/// Data on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first byte.
    pub sequence: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What the receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Number of the byte that is expected next.
    pub sequence: u64,
    /// How many may follow from there.
    pub window_bytes: u64,
}

/// The receiver's window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    buffer_bytes: u64,
    segment_bytes: u64,
    shift: u32,
    /// Number of the byte that is expected next.
    next: u64,
    /// Up to where the sender was told it may send.
    edge: u64,
    unacknowledged: u64,
}

impl Window {
    /// Nothing received. `scaled`: both ends know RFC 1323, and the shift is the least that can
    /// tell of the whole buffer.
    #[must_use]
    pub fn new(buffer_bytes: u64, segment_bytes: u64, scaled: bool) -> Self {
        let shift = (0..=14).find(|shift| buffer_bytes >> shift <= u64::from(u16::MAX));
        let shift = if scaled { shift.unwrap_or(14) } else { 0 };
        let mut window = Self {
            buffer_bytes,
            segment_bytes,
            shift,
            next: 0,
            edge: 0,
            unacknowledged: 0,
        };
        window.edge = window.sendable(0);
        window
    }

    /// What may be sent before the first acknowledgement.
    #[must_use]
    pub fn initial_bytes(&self) -> u64 {
        self.edge - self.next
    }

    /// How far the window is shifted in the header.
    #[must_use]
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Number of the byte that is expected next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A segment has come, in order; false if it is not the next.
    pub fn handle_segment(&mut self, segment: Segment) -> bool {
        let in_order = segment.sequence == self.next;
        if in_order {
            self.next += segment.bytes;
            self.unacknowledged += 1;
        }
        in_order
    }

    /// Whether an acknowledgement is due, with `held_bytes` in the socket's buffer.
    #[must_use]
    pub fn is_due(&self, held_bytes: u64) -> bool {
        let opened = (self.next + self.sendable(held_bytes)).saturating_sub(self.edge);
        let enough = (2 * self.segment_bytes).min(self.buffer_bytes / 2);
        self.unacknowledged >= SEGMENTS_PER_ACKNOWLEDGEMENT || opened >= enough
    }

    /// The acknowledgement that is now sent.
    pub fn acknowledge(&mut self, held_bytes: u64) -> Acknowledgement {
        self.unacknowledged = 0;
        // A window is never taken back.
        self.edge = self.edge.max(self.next + self.sendable(held_bytes));
        Acknowledgement {
            sequence: self.next,
            window_bytes: self.edge - self.next,
        }
    }

    /// What the 16 bits can say of the room.
    fn sendable(&self, held_bytes: u64) -> u64 {
        let room = self.buffer_bytes.saturating_sub(held_bytes) >> self.shift;
        room.min(u64::from(u16::MAX)) << self.shift
    }
}
