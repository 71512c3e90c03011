//! Levels of a line as a tree: what the [`Receiver`] finds in them, block by block.
//!
//! | group | what stands in it |
//! |---|---|
//! | slipping | the bits that were dropped until blocks were found |
//! | between frames | gap symbols, data that belongs to no frame, code errors |
//! | frame | `syn`, the run of data blocks, code errors; then the frame as a tree of `cbn` |
//! | cut frame | as frame, but it ends early: a header, too many errors, the end of the line |
//!
//! Bits are those of the line, one for each level. A field of a frame has the bits of the
//! blocks that hold it, so that flags of one nibble share a block.
//!
//! Source: cbn91 (duties of the access chip), ansi-x3t9-4b5b.

use core::ops::Range;

use super::{BLOCK_BITS, Bits, CODE_ERRORS_MAX, Event, FRAME_BLOCKS, FRAME_LINE_BITS, GAP};
use super::{Receiver, SYN, State, Symbol};
use crate::cbn;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};

const FORMAT: &str = "line";
const STEP: usize = BLOCK_BITS as usize;
/// Bits of a frame in memory that a block stands for.
const NIBBLE_BITS: usize = 4;

/// Shows the levels in `bytes`, first level in the most significant bit. The level before
/// the first is taken to have been low.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let end = bytes.len() * 8;
    sink.open("line", first_bit..first_bit + end);
    let mut walk = Walk {
        bytes,
        first_bit,
        shown_bit: 0,
        sink,
    };
    let mut receiver = Receiver::new();
    let mut bits = Bits::new(bytes);
    let mut is_found = false;
    while let Some(event) = receiver.poll(&mut bits) {
        is_found = true;
        walk.event(event, &receiver);
    }
    match receiver.state() {
        State::Framing => walk.rest_of_frame(end),
        State::Between => walk.between(end),
        State::Slipping if is_found => walk.slipping(end),
        State::Slipping => walk.nothing_found(end),
    }
    walk.sink.close();
}

/// How far the line is shown. Bits are counted from its first one.
struct Walk<'a> {
    bytes: &'a [u8],
    /// Where the line begins in the whole input.
    first_bit: usize,
    shown_bit: usize,
    sink: &'a mut dyn Sink,
}

impl Walk<'_> {
    fn event(&mut self, event: Event, receiver: &Receiver) {
        match event {
            Event::Synchronised { slips: 0, .. } | Event::CodeError { .. } => {}
            Event::Synchronised { first_bit, .. } => self.slipping(first_bit as usize),
            Event::Frame { first_bit, .. } => self.frame(first_bit as usize, receiver),
            Event::Cut { first_bit, blocks } => {
                let begin = first_bit as usize;
                self.between(begin);
                self.cut_frame(begin + blocks * STEP);
            }
            Event::Lost { bit } => {
                let bit = bit as usize;
                self.rest_of_frame(bit);
                let found = u64::from(CODE_ERRORS_MAX) + 1;
                let allowed = "at most 4 code errors since the last good frame";
                self.wrong("blocks", bit..bit, found, allowed);
            }
        }
    }

    fn open(&mut self, name: &str, bits: Range<usize>) {
        self.sink.open(name, self.absolute(bits));
    }

    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>) {
        let bits = self.absolute(bits);
        self.sink.field(name, bits, value);
    }

    fn wrong(
        &mut self,
        field: &'static str,
        bits: Range<usize>,
        found: u64,
        allowed: &'static str,
    ) {
        let fault = Fault::Value { found, allowed };
        let error = Error::new(FORMAT, field, self.absolute(bits), fault);
        self.sink.wrong(error);
    }

    fn absolute(&self, bits: Range<usize>) -> Range<usize> {
        bits.start + self.first_bit..bits.end + self.first_bit
    }

    /// Bits that belong to no block that could be trusted.
    fn slipping(&mut self, end: usize) {
        let bits = self.shown_bit..end;
        let count = Value::Uint(bits.len() as u64);
        self.field("slipping", bits, count);
        self.shown_bit = end;
    }

    fn nothing_found(&mut self, end: usize) {
        self.slipping(end);
        let allowed = "a header: the block 10000";
        self.wrong("syn", 0..end, 0, allowed);
    }

    /// Blocks up to `end`, none of which belongs to a frame.
    fn between(&mut self, end: usize) {
        if self.shown_bit < end {
            self.open("between frames", self.shown_bit..end);
            self.blocks(end, false);
            self.sink.close();
        }
    }

    fn frame(&mut self, begin: usize, receiver: &Receiver) {
        self.between(begin);
        let end = begin + FRAME_LINE_BITS;
        self.open("frame", begin..end);
        self.blocks(end, true);
        let mut on_line = OnLine {
            first_bit: self.first_bit + begin,
            sink: self.sink,
        };
        cbn::describe(receiver.frame().bytes(), 0, &mut on_line);
        self.sink.close();
    }

    /// What is left up to `end`: blocks between frames, and a frame if one had begun.
    fn rest_of_frame(&mut self, end: usize) {
        let is_header = |&bit: &usize| bit + STEP <= end && self.block(bit) == SYN;
        match (self.shown_bit..end).step_by(STEP).find(is_header) {
            Some(begin) => {
                self.between(begin);
                self.cut_frame(end);
            }
            None => self.between(end),
        }
    }

    /// A frame from here on that ends at `end`.
    fn cut_frame(&mut self, end: usize) {
        let begin = self.shown_bit;
        self.open("cut frame", begin..end);
        self.blocks(end, true);
        let found = ((end - begin) / STEP) as u64;
        let missing = end..begin + FRAME_LINE_BITS;
        self.wrong("frame", missing, found, "297 (0x129) blocks");
        self.sink.close();
    }

    /// Shows the blocks up to `end`: runs of one kind as one field, others one by one.
    fn blocks(&mut self, end: usize, in_frame: bool) {
        while self.shown_bit + STEP <= end {
            let begin = self.shown_bit;
            let block = self.block(begin);
            let run = Run::of(block, in_frame);
            self.shown_bit += STEP;
            while run.is_long()
                && self.shown_bit + STEP <= end
                && Run::of(self.block(self.shown_bit), in_frame) == run
            {
                self.shown_bit += STEP;
            }
            self.run(run, block, begin..self.shown_bit, in_frame);
        }
        if self.shown_bit < end {
            let count = Value::Uint((end - self.shown_bit) as u64);
            self.field("part of a block", self.shown_bit..end, count);
            self.shown_bit = end;
        }
    }

    fn run(&mut self, run: Run, block: u8, bits: Range<usize>, in_frame: bool) {
        let blocks = Value::Uint((bits.len() / STEP) as u64);
        let block = u64::from(block);
        match run {
            Run::Syn => self.field("syn", bits, Value::Code(block, "header")),
            Run::Data => self.field("data blocks", bits, blocks),
            Run::Gap => self.field("gap symbols", bits, blocks),
            Run::Other(symbol) => {
                let allowed = match in_frame {
                    true => "data",
                    false => "a gap symbol or a header",
                };
                self.field("block", bits.clone(), Value::Code(block, name(symbol)));
                self.wrong("block", bits, block, allowed);
            }
        }
    }

    /// The five bits from `bit` on: where the level changes.
    fn block(&self, bit: usize) -> u8 {
        let level = |bit: usize| self.bytes[bit / 8] >> (7 - bit % 8) & 1;
        let change = |bit: usize| level(bit) ^ bit.checked_sub(1).map_or(0, level);
        (bit..bit + STEP).fold(0, |block, bit| block << 1 | change(bit))
    }
}

/// What a block is, where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Gap,
    Syn,
    Data,
    /// It may not stand there.
    Other(Symbol),
}

impl Run {
    fn of(block: u8, in_frame: bool) -> Self {
        match Symbol::from_block(block) {
            _ if block == SYN => Self::Syn,
            _ if block == GAP && !in_frame => Self::Gap,
            Symbol::Data(_) => Self::Data,
            other => Self::Other(other),
        }
    }

    /// Whether several in a row are shown as one field.
    fn is_long(self) -> bool {
        matches!(self, Self::Gap | Self::Data)
    }
}

fn name(symbol: Symbol) -> &'static str {
    match symbol {
        Symbol::Data(_) => "data",
        Symbol::Idle => "I",
        Symbol::Quiet => "Q",
        Symbol::Halt => "H",
        Symbol::J => "J",
        Symbol::K => "K",
        Symbol::Terminate => "T",
        Symbol::Reset => "R",
        Symbol::Set => "S",
        Symbol::Illegal(_) => "illegal",
    }
}

/// Shows a frame in memory at the places that its blocks have on the line.
struct OnLine<'a> {
    /// First bit of `syn` in the whole input.
    first_bit: usize,
    sink: &'a mut dyn Sink,
}

impl OnLine<'_> {
    /// The bits of the blocks that hold these bits. The pad is on no line.
    fn on_line(&self, bits: Range<usize>) -> Range<usize> {
        let place = |block: usize| self.first_bit + block.min(FRAME_BLOCKS) * STEP;
        place(bits.start / NIBBLE_BITS)..place(bits.end.div_ceil(NIBBLE_BITS))
    }
}

impl Sink for OnLine<'_> {
    fn open(&mut self, name: &str, bits: Range<usize>) {
        self.sink.open(name, self.on_line(bits));
    }

    fn close(&mut self) {
        self.sink.close();
    }

    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>) {
        let bits = self.on_line(bits);
        self.sink.field(name, bits, value);
    }

    fn wrong(&mut self, error: Error) {
        let bits = self.on_line(error.first_bit..error.first_bit + error.bit_count);
        let error = Error::new(error.format, error.field, bits, error.fault);
        self.sink.wrong(error);
    }
}

const _: () = assert!(CODE_ERRORS_MAX == 4, "an error names the number");
