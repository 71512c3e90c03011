//! The Cambridge Backbone: its frame of four slots, its cell, and the MSDL word.
//!
//! Frame, 1188 bits in 149 bytes; one bit of each group of four per slot, slot 0 first:
//! ```text
//! |    0..3    | header 4     on the line the `syn` symbol stands in its place
//! |    4..7    | F full/empty 4
//! |    8..11   | M monitor passed 4
//! |   12..15   | T type 4
//! |   16..1167 | slots 4 x 288: cells of 36 bytes
//! | 1168..1171 | R response 4
//! | 1172..1175 | Q qualifier 4
//! | 1176..1187 | CRC 12       over bits 4..1175, polynomial 0x80F
//! | 1188..1191 | pad 4        zero: in memory only
//! ```
//! Cell (Fig 4), and the same bits as MSDL sees them (4 + 32):
//! ```text
//! |  0..15  | VCI 16             |  0..15  | VCI 16      |
//! | 16..31  | SAR 16             | 16..23  | sequence 8  |
//! |         |                    | 24..29  | RID 6       |
//! |         |                    | 30      | part 1      |
//! |         |                    | 31      | start 1     |
//! | 32..287 | payload 256        | 32..287 | body 256    |
//! ```
//! Fig 4 counts SAR and payload as 272 data bits and adds a type bit in front and a
//! response bit behind: those are the T and R bits of the slot, kept by the hardware. With
//! `part`, the last byte of the body counts the bytes of it that are valid, 0 to 31.
//!
//! Words are big-endian. Source: cbn91, sections on the ring, the cell and MSDL. The source
//! leaves open, and we choose: [`HEADER`], [`CRC_POLYNOMIAL`], [`CRC_INIT`], the bit order
//! (most significant first) and what is [`cfr`]'s.

mod cell;
pub mod cfr;
mod check;
mod describe;
mod frame;
#[cfg(test)]
mod tests;

pub use cell::{Cell, Msdl};
pub use check::crc12;
pub use describe::{describe, describe_cell, describe_cfr, describe_msdl};
pub use frame::{Frame, FrameRepr, SlotFlags};

/// Bits of a frame, without the pad.
pub const FRAME_BITS: usize = 1188;
/// Bytes that hold a frame; the last four bits are zero.
pub const FRAME_BYTES: usize = 149;
/// Slots of a frame: one for each of the four channels that share the fibre.
pub const SLOTS: usize = 4;
/// Bytes of a cell.
pub const CELL_BYTES: usize = 36;
/// Bytes of a cell in front of its body.
pub const CELL_HEADER_BYTES: usize = 4;
/// Bytes of a cell behind the first word.
pub const BODY_BYTES: usize = 32;
/// Most valid bytes of a body with `part`: its last byte is the count.
pub const PART_BYTES_MAX: usize = BODY_BYTES - 1;
/// Different RIDs of a VCI.
pub const RIDS: usize = 64;

/// What stands in the header nibble in memory. `OPEN` in the source.
pub const HEADER: u8 = 0;
/// Generator of the CRC-12: x¹² + x¹¹ + x³ + x² + x + 1. `OPEN` in the source.
pub const CRC_POLYNOMIAL: u16 = 0x80f;
/// Where the CRC-12 register begins. `OPEN` in the source.
pub const CRC_INIT: u16 = 0;

const _: () = {
    assert!(FRAME_BITS == 4 * 4 + SLOTS * CELL_BYTES * 8 + 2 * 4 + 12);
    assert!(FRAME_BYTES == FRAME_BITS.div_ceil(8));
    assert!(CELL_BYTES == CELL_HEADER_BYTES + BODY_BYTES);
};
