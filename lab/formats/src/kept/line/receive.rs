//! Levels from any bit offset to frames: slip, header, code errors.
//!
//! ```text
//! state     event     next
//! Slipping  Header    Framing   a `syn` block: no other offset shows one
//! Slipping  Illegal   Slipping  one bit is dropped
//! Framing   Illegal   Framing   a code error; the nibble counts as zero
//! Framing   Header    Framing   the frame before is cut; a new one begins
//! Framing   Complete  Between   297 blocks: a frame
//! Framing   Astray    Slipping  too many code errors since the last good frame
//! Between   Illegal   Between   a code error
//! Between   Header    Framing   a frame begins
//! Between   Astray    Slipping  too many code errors since the last good frame
//! ```
//! Legal are the sixteen data blocks, `syn` and, outside frames, the gap symbol. A data block
//! between frames is passed over. A frame is handed out whatever its CRC; a good one clears
//! the count of code errors.
//!
//! Source: cbn91, duties of the access chip.

use barewire_units::transitions;

use super::{BLOCK_BITS, Bits, FRAME_BLOCKS, GAP, SYN, Symbol};
use crate::cbn::{FRAME_BYTES, Frame, HEADER};

/// Code errors since the last good frame that are taken for errors of the line; with one
/// more the receiver takes its block offset to be wrong, and slips. `OPEN` in the source.
pub const CODE_ERRORS_MAX: u32 = 4;

/// What the receiver knows of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Blocks begin at an unknown bit.
    Slipping,
    /// Blocks are known, and a frame is under way.
    Framing,
    /// Blocks are known, and the next frame has not begun.
    Between,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A `syn` block.
    Header,
    /// A block that may not stand here.
    Illegal,
    /// The last block of a frame.
    Complete,
    /// One code error too many.
    Astray,
}

transitions! {
    State on Cause {
        Slipping + Header => Framing,
        Slipping + Illegal => Slipping,
        Framing + Illegal => Framing,
        Framing + Header => Framing,
        Framing + Complete => Between,
        Framing + Astray => Slipping,
        Between + Illegal => Between,
        Between + Header => Framing,
        Between + Astray => Slipping,
    }
}

/// What the receiver tells. Bits are counted from the first one it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The receiver found the blocks: a header, after slipping.
    Synchronised {
        /// First bit of the header.
        first_bit: u64,
        /// Bits dropped on the way.
        slips: u64,
    },
    /// A frame is complete: [`Receiver::frame`] shows it until the next call.
    Frame {
        /// First bit of its header.
        first_bit: u64,
        /// Illegal blocks in it.
        code_errors: u32,
        /// Its CRC is right, and it has no code error.
        good: bool,
    },
    /// A header came inside a frame, which is lost.
    Cut {
        /// First bit of the lost frame.
        first_bit: u64,
        /// Blocks of it that had come.
        blocks: usize,
    },
    /// A block that may not stand where it does.
    CodeError {
        /// First bit of the block.
        first_bit: u64,
        /// The block.
        symbol: Symbol,
    },
    /// Too many code errors: the receiver slips, and a frame under way is lost.
    Lost {
        /// First bit behind the last block that was looked at.
        bit: u64,
    },
}

/// The receiving side of the access chip, from levels to frames.
///
/// ```
/// use barewire_formats::cbn::{FRAME_BYTES, Frame};
/// use barewire_formats::line::{Bits, Encoder, Event, Receiver};
///
/// let mut line = [0; 400];
/// let mut encoder = Encoder::new();
/// let frame = Frame::new_unchecked([0; FRAME_BYTES]);
/// let mut at = 0;
/// for _ in 0..2 {
///     at += encoder.gap(7, &mut line[at..])?;
///     at += encoder.frame(&frame, &mut line[at..])?;
/// }
/// encoder.finish(&mut line[at..])?;
///
/// let mut receiver = Receiver::new();
/// let mut bits = Bits::in_range(&line, 3..3200);
/// let events: Vec<_> = std::iter::from_fn(|| receiver.poll(&mut bits)).collect();
/// let good = |event: &&Event| matches!(event, Event::Frame { good: true, .. });
/// assert!(events.iter().filter(good).count() >= 1, "{events:?}");
/// # Ok::<(), barewire_wire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Receiver {
    state: State,
    /// The last level: 0 or 1.
    level: u64,
    /// Bits that wait to be taken in blocks, the last one lowest, and how many.
    window: u64,
    window_bits: u32,
    /// Bits taken in blocks or dropped so far.
    bit: u64,
    /// Bits dropped since the blocks were lost.
    slips: u64,
    /// Code errors since the last good frame.
    errors: u32,
    frame: [u8; FRAME_BYTES],
    /// Of the frame under way: first bit, blocks, illegal blocks among them.
    first_bit: u64,
    blocks: usize,
    code_errors: u32,
    /// An event that waits behind the one given out.
    waiting: Option<Event>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// A receiver that knows nothing of the line. It takes the level before the first to have
    /// been low; where that is wrong, one bit is.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Slipping,
            level: 0,
            window: 0,
            window_bits: 0,
            bit: 0,
            slips: 0,
            errors: 0,
            frame: [0; FRAME_BYTES],
            first_bit: 0,
            blocks: 0,
            code_errors: 0,
            waiting: None,
        }
    }

    /// What it knows of the line.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The frame of the last [`Event::Frame`], until [`Receiver::poll`] is called again.
    #[must_use]
    pub const fn frame(&self) -> Frame<&[u8; FRAME_BYTES]> {
        Frame::new_unchecked(&self.frame)
    }

    /// Takes levels until something is to be told, or all are taken.
    pub fn poll(&mut self, levels: &mut Bits<'_>) -> Option<Event> {
        if let Some(event) = self.waiting.take() {
            return Some(event);
        }
        loop {
            while self.window_bits >= BLOCK_BITS {
                self.window_bits -= BLOCK_BITS;
                self.bit += u64::from(BLOCK_BITS);
                let event = self.take_block((self.window >> self.window_bits) as u8 & 0x1f);
                if event.is_some() {
                    return event;
                }
            }
            if levels.is_empty() {
                return None;
            }
            // At most four bits wait, so there is room for 32 more.
            let (levels, count) = levels.take_up_to_32();
            let before = levels >> 1 | self.level << (count - 1);
            self.level = levels & 1;
            self.window = self.window << count | levels ^ before;
            self.window_bits += count;
        }
    }

    fn take_block(&mut self, block: u8) -> Option<Event> {
        if block == SYN {
            return self.begin();
        }
        let symbol = Symbol::from_block(block);
        match (self.state, symbol) {
            (State::Framing, Symbol::Data(nibble)) => self.append(nibble),
            (State::Framing, _) => {
                self.code_errors += 1;
                let error = self.code_error(symbol);
                if self.state == State::Framing {
                    self.waiting = self.append(0);
                }
                Some(error)
            }
            (_, Symbol::Data(_)) => None,
            _ if block == GAP => None,
            (State::Between, _) => Some(self.code_error(symbol)),
            (State::Slipping, _) => {
                self.slip();
                None
            }
        }
    }

    /// Drops the first bit of the block just taken: the others begin the next one.
    fn slip(&mut self) {
        self.window_bits += BLOCK_BITS - 1;
        self.bit -= u64::from(BLOCK_BITS - 1);
        self.slips += 1;
        self.go(Cause::Illegal);
    }

    /// The block just taken is a header.
    fn begin(&mut self) -> Option<Event> {
        let first_bit = self.bit - u64::from(BLOCK_BITS);
        let event = match self.state {
            State::Slipping => Some(Event::Synchronised {
                first_bit,
                slips: self.slips,
            }),
            State::Framing => Some(Event::Cut {
                first_bit: self.first_bit,
                blocks: self.blocks,
            }),
            State::Between => None,
        };
        self.go(Cause::Header);
        self.first_bit = first_bit;
        self.slips = 0;
        self.code_errors = 0;
        self.blocks = 0;
        self.frame = [0; FRAME_BYTES];
        // Not the last block, so no event.
        self.append(HEADER);
        event
    }

    /// The next nibble of the frame under way.
    fn append(&mut self, nibble: u8) -> Option<Event> {
        let shift = if self.blocks % 2 == 0 { 4 } else { 0 };
        self.frame[self.blocks / 2] |= nibble << shift;
        self.blocks += 1;
        if self.blocks < FRAME_BLOCKS {
            return None;
        }
        self.go(Cause::Complete);
        let good = self.code_errors == 0 && self.frame().crc_ok();
        if good {
            self.errors = 0;
        }
        Some(Event::Frame {
            first_bit: self.first_bit,
            code_errors: self.code_errors,
            good,
        })
    }

    /// The block just taken may not stand here.
    fn code_error(&mut self, symbol: Symbol) -> Event {
        self.go(Cause::Illegal);
        self.errors += 1;
        if self.errors > CODE_ERRORS_MAX {
            self.go(Cause::Astray);
            self.errors = 0;
            self.waiting = Some(Event::Lost { bit: self.bit });
        }
        Event::CodeError {
            first_bit: self.bit - u64::from(BLOCK_BITS),
            symbol,
        }
    }

    /// Takes the transition of the table; no caller asks for one that it does not have.
    fn go(&mut self, cause: Cause) {
        self.state = self.state.on(cause).unwrap_or(self.state);
    }
}
