//! The way into a card: a FIFO, and what puts the pieces together again.
//!
//! | who takes the bytes | they stay in the FIFO | it needs |
//! |---|---|---|
//! | the processor | until the driver has read the piece | |
//! | an engine | until the engine's burst has ended | a buffer in the host for each piece |
//!
//! A frame for which the FIFO has no room is lost, and with it its piece: the card gives
//! whole pieces only. An engine that has no buffer waits, and the FIFO fills up.

use std::collections::VecDeque;

use super::{Frame, Piece};

/// Who moves what has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// The processor, from the FIFO.
    Processor,
    /// The card, into buffers of the host.
    Engine,
}

/// What a receiver is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Who takes the bytes.
    pub taker: Taker,
    /// Bytes that the FIFO holds.
    pub fifo_bytes: u64,
    /// Buffers in the host, one for a piece. For an engine only.
    pub buffers: usize,
    /// Bytes that an engine writes beside those of a piece: its descriptor.
    pub descriptor_bytes: u64,
}

/// Why a frame is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The FIFO is full.
    Room,
    /// It is full because the engine has no buffer in the host.
    Buffer,
}

/// A piece that comes in from one sender.
#[derive(Clone, Copy, Debug)]
struct Assembly {
    piece: Piece,
    got_bytes: u64,
    frames: u64,
}

impl Assembly {
    const fn of(frame: &Frame) -> Self {
        Self {
            piece: frame.piece,
            got_bytes: 0,
            frames: 0,
        }
    }
}

/// The way in.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    held_bytes: u64,
    /// For the engine: frames in the FIFO, and what it has moved of the first.
    frames: VecDeque<Frame>,
    moved_bytes: u64,
    engine_busy: bool,
    free_buffers: usize,
    /// By sender.
    assemblies: Vec<Option<Assembly>>,
    ready: VecDeque<Piece>,
    stats: ReceiverStats,
}

/// What a receiver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Frames that came.
    pub frames: u64,
    /// Frames for which the FIFO had no room.
    pub no_room: u64,
    /// Frames for which it had none because the host had no buffers.
    pub no_buffer: u64,
    /// Frames thrown away because another one of their piece was lost.
    pub of_broken_pieces: u64,
    /// Frames of whole pieces.
    pub delivered: u64,
}

impl Receiver {
    /// An empty receiver.
    #[must_use]
    pub const fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            held_bytes: 0,
            frames: VecDeque::new(),
            moved_bytes: 0,
            engine_busy: false,
            free_buffers: config.buffers,
            assemblies: Vec::new(),
            ready: VecDeque::new(),
            stats: ReceiverStats {
                frames: 0,
                no_room: 0,
                no_buffer: 0,
                of_broken_pieces: 0,
                delivered: 0,
            },
        }
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Whether the engine waits for a buffer.
    #[must_use]
    pub fn wants_buffer(&self) -> bool {
        let first = self.frames.front();
        let opens = first.is_some_and(|frame| self.begins_piece(frame));
        self.config.taker == Taker::Engine && self.free_buffers == 0 && opens
    }

    /// A frame has come: makes room for it, or says what is missing.
    ///
    /// # Errors
    ///
    /// The frame is lost.
    pub fn handle_frame(&mut self, frame: &Frame) -> Result<(), Missing> {
        self.stats.frames += 1;
        if self.held_bytes + frame.bytes <= self.config.fifo_bytes {
            self.held_bytes += frame.bytes;
            return Ok(());
        }
        if self.wants_buffer() {
            self.stats.no_buffer += 1;
            return Err(Missing::Buffer);
        }
        self.stats.no_room += 1;
        Err(Missing::Room)
    }

    /// The frame, for which there is room, has been looked at: an engine may move it. For the
    /// processor, a piece may be complete then.
    pub fn store(&mut self, frame: Frame) {
        match self.config.taker {
            Taker::Engine => self.frames.push_back(frame),
            Taker::Processor => self.assemble(frame),
        }
    }

    /// A burst that the engine begins now, of at most `burst_bytes`, if it has one to do.
    pub fn begin_burst(&mut self, burst_bytes: u64) -> Option<u64> {
        if self.engine_busy {
            return None;
        }
        loop {
            let frame = *self.frames.front()?;
            if self.moved_bytes == 0 && !self.open(&frame) {
                return None;
            }
            let left = self.engine_bytes(&frame) - self.moved_bytes;
            if left > 0 {
                self.engine_busy = true;
                return Some(left.min(burst_bytes.max(1)));
            }
            self.finish_frame();
        }
    }

    /// The burst of `bytes` has ended.
    pub fn end_burst(&mut self, bytes: u64) {
        self.engine_busy = false;
        let Some(&frame) = self.frames.front() else {
            return;
        };
        let of_frame = frame.bytes.saturating_sub(self.moved_bytes).min(bytes);
        self.held_bytes -= of_frame;
        self.moved_bytes += bytes;
        if self.moved_bytes >= self.engine_bytes(&frame) {
            self.finish_frame();
        }
    }

    /// Frames of pieces that are not whole yet, those in the FIFO included.
    #[must_use]
    pub fn open_frames(&self) -> u64 {
        let open = self.assemblies.iter().flatten();
        open.map(|assembly| assembly.frames).sum::<u64>() + self.frames.len() as u64
    }

    /// The next whole piece, if there is one. It stays where it is until
    /// [`Receiver::release`].
    pub fn take(&mut self) -> Option<Piece> {
        self.ready.pop_front()
    }

    /// Whole pieces that nobody has taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// The host has done with a piece that it has taken.
    pub fn release(&mut self, piece: &Piece) {
        match self.config.taker {
            Taker::Engine => self.free_buffers += 1,
            Taker::Processor => self.held_bytes -= piece.bytes,
        }
    }

    /// What the engine writes for a frame.
    const fn engine_bytes(&self, frame: &Frame) -> u64 {
        let descriptor = if frame.last {
            self.config.descriptor_bytes
        } else {
            0
        };
        frame.bytes + descriptor
    }

    fn begins_piece(&self, frame: &Frame) -> bool {
        let assembly = self.assemblies.get(usize::from(frame.piece.from));
        !matches!(assembly, Some(Some(_)))
    }

    fn assembly(&mut self, from: u16) -> &mut Option<Assembly> {
        let place = usize::from(from);
        if place >= self.assemblies.len() {
            self.assemblies.resize(place + 1, None);
        }
        &mut self.assemblies[place]
    }

    /// Makes sure of a buffer for the piece of `frame`; `false` if there is none.
    fn open(&mut self, frame: &Frame) -> bool {
        if !self.begins_piece(frame) {
            return true;
        }
        if self.free_buffers == 0 {
            return false;
        }
        self.free_buffers -= 1;
        *self.assembly(frame.piece.from) = Some(Assembly::of(frame));
        true
    }

    fn finish_frame(&mut self) {
        self.moved_bytes = 0;
        if let Some(frame) = self.frames.pop_front() {
            self.assemble(frame);
        }
    }

    /// Adds a frame to its piece. A frame of another piece than the one that is open says
    /// that the end of that one was lost; the new piece takes its buffer.
    fn assemble(&mut self, frame: Frame) {
        let open = self.assembly(frame.piece.from).take();
        let mut assembly = open.unwrap_or(Assembly::of(&frame));
        if assembly.piece != frame.piece {
            self.give_up(&assembly);
            assembly = Assembly::of(&frame);
        }
        assembly.got_bytes += frame.bytes;
        assembly.frames += 1;
        if !frame.last {
            *self.assembly(frame.piece.from) = Some(assembly);
        } else if assembly.got_bytes == frame.piece.bytes {
            self.stats.delivered += assembly.frames;
            self.ready.push_back(frame.piece);
        } else {
            self.give_up(&assembly);
            if self.config.taker == Taker::Engine {
                self.free_buffers += 1;
            }
        }
    }

    /// The bytes of a piece that will not be whole.
    fn give_up(&mut self, assembly: &Assembly) {
        self.stats.of_broken_pieces += assembly.frames;
        if self.config.taker == Taker::Processor {
            self.held_bytes -= assembly.got_bytes;
        }
    }
}
