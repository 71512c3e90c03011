//! The segmenter of the Penn interface: the host streams a block into a FIFO, cells come
//! out as soon as each one's worth is there.
//!
//! | state | Begin | LastByte | LastCell | Abort | Withdraw |
//! |---|---|---|---|---|---|
//! | Idle | Streaming | | | | |
//! | Streaming | | Draining | | Aborting | Idle |
//! | Draining | | | Idle | Aborting | Idle |
//! | Aborting | | | Idle | | |
//!
//! Header generator and AAL header generator (class 4 with MID, sequence number and
//! CRC-10; AAL5 with CRC-32 as the data flow) put what surrounds the payload into the same
//! FIFO: the header of the CPCS before, pad and trailer behind. A cell is emitted when the
//! FIFO holds a cell's worth, or when the block has ended. An abort of which no cell was
//! sent is a withdrawal: nothing shows on the line.
//! Source: penn91, segmenter; the size of the FIFO and AAL5 are OPEN there.

use alloc::collections::VecDeque;
use core::iter;

use barewire_formats::aal5::{self, Crc32};
use barewire_formats::aal34::SEGMENT_BYTES;
use barewire_formats::atm::{CELL_BYTES, PAYLOAD_BYTES};
use barewire_units::transitions;

use crate::sar::segment::{
    Aal5Segmenter, Aal34Segmenter, SegmentError, aal5_length, aal34_length, close_aal5,
    segment_type,
};

/// What fills the cells: the registers of circuit and MID, and what is counted for them.
#[derive(Clone, Debug)]
pub enum Generator {
    /// AAL5.
    Aal5(Aal5Segmenter),
    /// AAL3/4.
    Class4(Aal34Segmenter),
}

/// Where a [`Segmenter`] is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmenterState {
    /// No block.
    Idle,
    /// The host has not given all bytes.
    Streaming,
    /// All bytes are in the FIFO.
    Draining,
    /// The cell that gives the block up is to be sent.
    Aborting,
}

/// What happens to a [`Segmenter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmenterEvent {
    /// The host starts a block.
    Begin,
    /// The host has given the last byte.
    LastByte,
    /// The last cell is out.
    LastCell,
    /// The host gives up a block of which cells were sent.
    Abort,
    /// The host gives up a block of which no cell was sent.
    Withdraw,
}

transitions! {
    SegmenterState on SegmenterEvent {
        Idle + Begin => Streaming,
        Streaming + LastByte => Draining,
        Streaming + Abort => Aborting,
        Streaming + Withdraw => Idle,
        Draining + LastCell => Idle,
        Draining + Abort => Aborting,
        Draining + Withdraw => Idle,
        Aborting + LastCell => Idle,
    }
}

/// Why a [`Segmenter`] does not take a block, or new registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmenterError {
    /// The block before is not all sent.
    #[error("the segmenter is {0:?}")]
    Busy(SegmenterState),
    /// The block can not be a message.
    #[error(transparent)]
    Block(#[from] SegmentError),
}

/// What a [`Segmenter`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmenterStats {
    /// Blocks sent whole.
    pub blocks: u64,
    /// Blocks given up.
    pub blocks_aborted: u64,
    /// Cells, each with a header generated.
    pub cells: u64,
}

/// The segmenter.
pub struct Segmenter {
    generator: Generator,
    fifo: VecDeque<u8>,
    fifo_bytes: usize,
    state: SegmenterState,
    block: Block,
    stats: SegmenterStats,
}

/// The block that is being sent.
struct Block {
    length: u16,
    uu: u8,
    left_bytes: usize,
    crc: Crc32,
    trailer: [u8; 4],
    first: bool,
}

impl Segmenter {
    /// One with a FIFO of `fifo_bytes`, at least a cell's worth.
    #[must_use]
    pub fn new(generator: Generator, fifo_bytes: usize) -> Self {
        let block = Block {
            length: 0,
            uu: 0,
            left_bytes: 0,
            crc: Crc32::new(),
            trailer: [0; 4],
            first: true,
        };
        Self {
            generator,
            fifo: VecDeque::new(),
            fifo_bytes: fifo_bytes.max(PAYLOAD_BYTES),
            state: SegmenterState::Idle,
            block,
            stats: SegmenterStats::default(),
        }
    }

    /// Loads other registers; gives back what was loaded, with its counts.
    ///
    /// # Errors
    /// [`SegmenterError::Busy`] in a block.
    pub fn load(&mut self, generator: Generator) -> Result<Generator, SegmenterError> {
        self.idle()?;
        Ok(core::mem::replace(&mut self.generator, generator))
    }

    fn idle(&self) -> Result<(), SegmenterError> {
        match self.state {
            SegmenterState::Idle => Ok(()),
            busy => Err(SegmenterError::Busy(busy)),
        }
    }

    fn step(&mut self, event: SegmenterEvent) {
        self.state = self.state.on(event).unwrap_or(self.state);
    }

    /// Starts a block of known size. With AAL5 `uu` goes into the trailer.
    ///
    /// # Errors
    /// [`SegmenterError`].
    pub fn begin(&mut self, payload_bytes: usize, uu: u8) -> Result<(), SegmenterError> {
        self.idle()?;
        let mut trailer = [0; 4];
        let length = match &mut self.generator {
            Generator::Aal5(_) => aal5_length(payload_bytes)?,
            Generator::Class4(class4) => {
                let length = aal34_length(payload_bytes)?;
                let repr = class4.next_message(length);
                self.fifo.extend(repr.header());
                trailer = repr.trailer();
                length
            }
        };
        self.block = Block {
            length,
            uu,
            left_bytes: payload_bytes,
            crc: Crc32::new(),
            trailer,
            first: true,
        };
        self.step(SegmenterEvent::Begin);
        self.end_of_bytes();
        Ok(())
    }

    /// Streams bytes of the block in, and says how many the FIFO took. Poll cells to make
    /// room.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let room = self.fifo_bytes.saturating_sub(self.fifo.len());
        let count = bytes.len().min(room).min(self.block.left_bytes);
        self.fifo.extend(&bytes[..count]);
        self.block.left_bytes -= count;
        self.end_of_bytes();
        count
    }

    /// Puts pad and trailer behind the last byte.
    fn end_of_bytes(&mut self) {
        if self.state != SegmenterState::Streaming || self.block.left_bytes > 0 {
            return;
        }
        self.step(SegmenterEvent::LastByte);
        match self.generator {
            Generator::Aal5(_) => {
                // The trailer comes with the last cell, when the CRC-32 is known.
                let payload_bytes = usize::from(self.block.length);
                let tail_bytes = aal5::pdu_bytes(payload_bytes) - payload_bytes;
                self.fifo.extend(iter::repeat_n(0, tail_bytes));
            }
            Generator::Class4(_) => {
                let pad_bytes = self.block.length.wrapping_neg() % 4;
                self.fifo.extend(iter::repeat_n(0, pad_bytes.into()));
                self.fifo.extend(self.block.trailer);
            }
        }
    }

    /// The next cell, if its worth is in the FIFO or the block has ended.
    pub fn poll_cell(&mut self) -> Option<[u8; CELL_BYTES]> {
        let worth = match self.generator {
            Generator::Aal5(_) => PAYLOAD_BYTES,
            Generator::Class4(_) => SEGMENT_BYTES,
        };
        let last = match self.state {
            SegmenterState::Idle => return None,
            SegmenterState::Streaming if self.fifo.len() < worth => return None,
            SegmenterState::Streaming => false,
            SegmenterState::Draining => self.fifo.len() <= worth,
            SegmenterState::Aborting => return Some(self.abort_cell()),
        };
        let mut chunk = [0; PAYLOAD_BYTES];
        let count = self.fifo.len().min(worth);
        for (slot, byte) in chunk.iter_mut().zip(self.fifo.drain(..count)) {
            *slot = byte;
        }
        let cell = match &mut self.generator {
            Generator::Aal5(aal5) if last => {
                let crc = core::mem::take(&mut self.block.crc);
                close_aal5(&mut chunk, 0, self.block.uu, self.block.length, crc);
                aal5.cell(true, &chunk)
            }
            Generator::Aal5(aal5) => {
                self.block.crc.update(&chunk);
                aal5.cell(false, &chunk)
            }
            Generator::Class4(class4) => {
                class4.cell(segment_type(self.block.first, last), &chunk[..count])
            }
        };
        self.block.first = false;
        self.stats.cells += 1;
        if last {
            self.stats.blocks += 1;
            self.step(SegmenterEvent::LastCell);
        }
        Some(cell)
    }

    /// Gives the block up. If cells of it were sent, the next cell tells the receiver.
    pub fn abort(&mut self) {
        let in_block = matches!(
            self.state,
            SegmenterState::Streaming | SegmenterState::Draining
        );
        if !in_block {
            return;
        }
        self.fifo.clear();
        self.block.left_bytes = 0;
        self.stats.blocks_aborted += 1;
        self.step(if self.block.first {
            SegmenterEvent::Withdraw
        } else {
            SegmenterEvent::Abort
        });
    }

    fn abort_cell(&mut self) -> [u8; CELL_BYTES] {
        self.step(SegmenterEvent::LastCell);
        self.stats.cells += 1;
        match &mut self.generator {
            Generator::Aal5(aal5) => aal5.abort_after(core::mem::take(&mut self.block.crc)),
            Generator::Class4(class4) => class4.abort_next(),
        }
    }

    /// Where it is in a block.
    #[must_use]
    pub const fn state(&self) -> SegmenterState {
        self.state
    }

    /// Bytes in the FIFO.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.fifo.len()
    }

    /// What was counted.
    #[must_use]
    pub const fn stats(&self) -> SegmenterStats {
        self.stats
    }
}
