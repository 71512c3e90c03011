//! The segmenter: a FIFO that the bus fills, a header generator, and the line.
//!
//! The line has a slot for a cell all the time, and is idle in a slot for which no cell
//! is ready. A cell is ready when its header has been formatted (which goes on while the
//! cell before it leaves) and the FIFO holds its payload; the last of a block is filled up.

use barewire_units::{ByteSize, Duration, Instant};

use crate::parameters::Cycles;

crate::parameters! {
    /// Cycles and sizes of the segmenter.
    #[derive(Copy, PartialEq, Eq)]
    pub struct SegmenterConfig {
        /// To format the header of a cell.
        pub header_cycles: Cycles,
        /// What the FIFO holds.
        pub fifo: ByteSize,
        /// What of a block goes into a cell: 48 B, or 44 B with class 4.
        pub payload: ByteSize,
    }
}

/// A cell that begins to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the block in it.
    pub bytes: u64,
    /// Whether it is the last of its block.
    pub last: bool,
}

/// The segmenter.
pub struct Segmenter {
    config: SegmenterConfig,
    /// One clock cycle.
    cycle: Duration,
    /// Time of a cell on the line.
    slot: Duration,
    fifo_bytes: u64,
    /// Bytes of the block that are still to come over the bus.
    expected_bytes: u64,
    header_ready: Instant,
    payload_ready: Option<Instant>,
    line_free: Instant,
}

impl Segmenter {
    /// A segmenter with nothing to do: one clock cycle, and the time of a cell on the line.
    #[must_use]
    pub const fn new(config: SegmenterConfig, cycle: Duration, slot: Duration) -> Self {
        Self {
            config,
            cycle,
            slot,
            fifo_bytes: 0,
            expected_bytes: 0,
            header_ready: Instant::ORIGIN,
            payload_ready: None,
            line_free: Instant::ORIGIN,
        }
    }

    /// Formats the first header of a block of `bytes`, which are to come. Returns when it
    /// will be ready.
    pub fn start(&mut self, now: Instant, bytes: u64) -> Instant {
        self.expected_bytes += bytes;
        self.header_ready = now + self.cycle * self.config.header_cycles;
        self.header_ready
    }

    /// Takes `bytes` of the block from the bus.
    pub fn handle_words(&mut self, now: Instant, bytes: u64) {
        self.fifo_bytes += bytes;
        self.expected_bytes = self.expected_bytes.saturating_sub(bytes);
        self.note_payload(now);
    }

    /// Bytes for which the FIFO has room.
    #[must_use]
    pub const fn room_bytes(&self) -> u64 {
        self.config.fifo.as_bytes().saturating_sub(self.fifo_bytes)
    }

    /// When the next cell leaves: at the first slot for which it is ready.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let ready = self.payload_ready?.max(self.header_ready);
        let slot_ps = self.slot.as_ps().max(1);
        let slots = ready.since_origin().as_ps().div_ceil(slot_ps);
        let grid = Instant::ORIGIN + Duration::from_ps(slots * slot_ps);
        Some(grid.max(self.line_free))
    }

    /// The cell that leaves now, if it is time. It is on the line for one slot.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        if self.next_deadline()? > now {
            return None;
        }
        let bytes = self.fifo_bytes.min(self.config.payload.as_bytes());
        self.fifo_bytes -= bytes;
        self.line_free = now + self.slot;
        self.header_ready = now + self.cycle * self.config.header_cycles;
        self.payload_ready = None;
        self.note_payload(now);
        let last = self.fifo_bytes == 0 && self.expected_bytes == 0;
        Some(Segment { bytes, last })
    }

    /// When the last cell has left the line.
    #[must_use]
    pub const fn line_free(&self) -> Instant {
        self.line_free
    }

    fn note_payload(&mut self, now: Instant) {
        let whole = self.fifo_bytes >= self.config.payload.as_bytes();
        let rest = self.fifo_bytes > 0 && self.expected_bytes == 0;
        if self.payload_ready.is_none() && (whole || rest) {
            self.payload_ready = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ns(ns)
    }

    fn segmenter() -> Segmenter {
        let config = SegmenterConfig {
            header_cycles: Cycles(5),
            fifo: ByteSize::from_bytes(128),
            payload: ByteSize::from_bytes(48),
        };
        Segmenter::new(config, Duration::from_ns(50), Duration::from_ns(1000))
    }

    #[test]
    fn a_cell_waits_for_header_payload_and_slot() {
        let mut segmenter = segmenter();
        assert_eq!(segmenter.start(at(900), 100), at(1150));
        assert_eq!(
            (segmenter.next_deadline(), segmenter.room_bytes()),
            (None, 128)
        );
        segmenter.handle_words(at(950), 47);
        assert_eq!(segmenter.next_deadline(), None);
        segmenter.handle_words(at(960), 17);
        // Ready at 1150 with its header, so in the slot that begins at 2000.
        assert_eq!(segmenter.next_deadline(), Some(at(2000)));
        assert_eq!(segmenter.poll(at(1999)), None);
        let segment = |bytes, last| Some(Segment { bytes, last });
        assert_eq!(segmenter.poll(at(2000)), segment(48, false));
        assert_eq!(
            (segmenter.room_bytes(), segmenter.next_deadline()),
            (112, None)
        );
        // The rest makes one cell and a last one that is not full.
        segmenter.handle_words(at(4100), 36);
        assert_eq!(segmenter.next_deadline(), Some(at(5000)));
        assert_eq!(segmenter.poll(at(5000)), segment(48, false));
        assert_eq!(segmenter.next_deadline(), Some(at(6000)));
        assert_eq!(segmenter.poll(at(6000)), segment(4, true));
        assert_eq!(
            (segmenter.next_deadline(), segmenter.line_free()),
            (None, at(7000))
        );
    }

    proptest! {
        /// However the words of a block come, its bytes leave once, in order of slots,
        /// and only the last cell ends it.
        #[test]
        fn a_block_leaves_whole(bursts in prop::collection::vec((1_u64..=64, 0_u64..9_000), 1..40)) {
            let mut segmenter = segmenter();
            let bytes = bursts.iter().map(|&(bytes, _)| bytes).sum();
            segmenter.start(at(0), bytes);
            let (mut now, mut cells) = (at(0), Vec::new());
            let mut drain = |segmenter: &mut Segmenter, until: Instant| {
                while let Some(slot) = segmenter.next_deadline().filter(|&slot| slot <= until) {
                    cells.push((slot, segmenter.poll(slot).expect("its time has come")));
                }
            };
            for (burst, pause_ns) in bursts {
                now += Duration::from_ns(pause_ns);
                drain(&mut segmenter, now);
                segmenter.handle_words(now, burst);
            }
            drain(&mut segmenter, Instant::MAX);
            let sent: u64 = cells.iter().map(|(_, cell)| cell.bytes).sum();
            prop_assert_eq!(sent, bytes);
            prop_assert!(cells.windows(2).all(|pair| pair[1].0 >= pair[0].0 + Duration::from_us(1)));
            let (last, others) = cells.split_last().expect("a cell");
            prop_assert!(last.1.last && others.iter().all(|(_, cell)| !cell.last && cell.bytes == 48));
        }
    }
}
