//! Line codes: 4B5B and NRZI, and how frames of the Cambridge Backbone stand on a line.
//!
//! ```text
//! nibble 0..F   11110 01001 10100 10101 01010 01011 01110 01111
//!               10010 10011 10110 10111 11010 11011 11100 11101
//! control       I 11111  Q 00000  H 00100  J 11000  K 10001
//!               T 01101  R 00111  S 11001
//! illegal       00001 00010 00011 00101 00110 01000 01100 10000
//!
//! frame on the line, 1485 bits in 297 blocks of 5, then gap symbols
//! | syn | F | M | T | slots 288 blocks | R | Q | CRC 3 blocks |
//! ```
//! The upper nibble of a byte goes first, and of a block the bit written first. NRZI: a 1
//! is a change of level, a 0 is none.
//!
//! | part | what |
//! |---|---|
//! | [`Symbol`] | a block of five bits |
//! | [`Encoder`], [`Decoder`] | streams of bytes to levels and back, at the speed of a wire |
//! | [`Receiver`] | levels from any bit offset to frames and [`Event`]s |
//! | [`Elastic`], [`Clock`] | from the clock of the line to that of the station |
//!
//! Source: ansi-x3t9-4b5b (code), iso9314-2 (control symbols), cbn91 (slip, frame
//! synchronisation on the header, code errors, elastic buffer). The source leaves open, and
//! we choose: [`SYN`] and [`GAP`].

mod bits;
mod code;
mod decode;
mod describe;
mod elastic;
mod encode;
mod receive;
#[cfg(test)]
mod tests;

pub use bits::Bits;
pub use code::Symbol;
pub use decode::{CodeFault, Decoder};
pub use describe::describe;
pub use elastic::{Clock, Elastic, Overflow, Underflow};
pub use encode::Encoder;
pub use receive::{CODE_ERRORS_MAX, Cause, Event, Receiver, State};

/// Bits of a 4B5B block.
pub const BLOCK_BITS: u32 = 5;
/// Blocks of a backbone frame, `syn` included.
pub const FRAME_BLOCKS: usize = 297;
/// Bits of a backbone frame on the line.
pub const FRAME_LINE_BITS: usize = FRAME_BLOCKS * BLOCK_BITS as usize;

/// The block that stands for the frame header. `OPEN` in the source.
///
/// The header has four bits, so its place on the line is one block; the pair JK of FDDI
/// would take two. No FDDI control symbol alone is safe: J also comes about across two data
/// blocks (E and 1), and an empty ring read one bit early would be legal for ever. Four
/// zeros in a row never occur in data and gaps at any bit offset, so this block cannot be
/// mistaken, and read at any other offset it always gives an illegal block: slipping ends.
pub const SYN: u8 = 0b10000;
/// The block between frames: the idle symbol of FDDI. `OPEN` in the source.
pub const GAP: u8 = 0b11111;
