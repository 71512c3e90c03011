//! Encoding frames and cells of the Cambridge Backbone, its line, and MSDL blocks.

use barewire_formats::cbn::{BODY_BYTES, CELL_BYTES, Cell, FRAME_BYTES, Frame, FrameRepr, Msdl};
use barewire_formats::cbn::{SLOTS, SlotFlags};
use barewire_formats::line::{Encoder, FRAME_BLOCKS};
use barewire_wire::capture::exported;
use clap::Args;

use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::Store;

/// Four bits, one for each slot, slot 0 first.
fn slot_bits(text: &str) -> std::result::Result<[bool; SLOTS], String> {
    let bits: Vec<bool> = text
        .chars()
        .filter_map(|char| char.to_digit(2))
        .map(|bit| bit == 1)
        .collect();
    match <[bool; SLOTS]>::try_from(bits) {
        Ok(bits) if text.len() == SLOTS => Ok(bits),
        _ => Err("four binary digits, slot 0 first, such as 1000".to_owned()),
    }
}

/// Options of `encode cbn`; `--hex` holds the cells of the slots, 36 bytes each.
#[derive(Clone, Debug, Args)]
pub struct FrameArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// F of the slots, such as 1000 [default: those that --hex reaches]
    #[arg(long, value_parser = slot_bits)]
    full: Option<[bool; SLOTS]>,
    /// M of the slots
    #[arg(long, value_parser = slot_bits, default_value = "0000")]
    monitor: [bool; SLOTS],
    /// T of the slots
    #[arg(long = "type", value_parser = slot_bits, default_value = "0000")]
    slot_type: [bool; SLOTS],
    /// R of the slots
    #[arg(long, value_parser = slot_bits, default_value = "0000")]
    response: [bool; SLOTS],
    /// Q of the slots
    #[arg(long, value_parser = slot_bits, default_value = "0000")]
    qualifier: [bool; SLOTS],
}

impl FrameArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let cells = self
            .common
            .payload(SLOTS * CELL_BYTES, "a frame of four slots")?;
        let mut frame = Frame::new_unchecked(vec![0; FrameRepr::buffer_len()]);
        for (slot, cell) in cells.chunks(CELL_BYTES).enumerate() {
            frame.slot_mut(slot)[..cell.len()].copy_from_slice(cell);
        }
        let reached = core::array::from_fn(|slot| slot * CELL_BYTES < cells.len());
        let full = self.full.unwrap_or(reached);
        let flags = core::array::from_fn(|slot| SlotFlags {
            full: full[slot],
            monitor_passed: self.monitor[slot],
            slot_type: self.slot_type[slot],
            response: self.response[slot],
            qualifier: self.qualifier[slot],
        });
        FrameRepr { flags }.emit(&mut frame);
        let store = Store::Exported(exported::CBN);
        Ok(Encoded::one(Kind::Cbn, frame.into_inner(), store))
    }
}

/// Options of `encode line`; `--hex` holds the frames, 149 bytes each.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Gap symbols in front of each frame
    #[arg(long, value_name = "BLOCKS", value_parser = field::<16>, default_value = "8")]
    before: u32,
    /// Gap symbols behind the last frame, at least: the line ends with a whole byte
    #[arg(long, value_name = "BLOCKS", value_parser = field::<16>, default_value = "8")]
    after: u32,
}

impl LineArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let frames = self.common.any_payload()?;
        if frames.is_empty() || frames.len() % FRAME_BYTES != 0 {
            let text = format!(
                "{} bytes in --hex; frames have 149 bytes each",
                frames.len()
            );
            return Err(WireError::Unfit(text));
        }
        let line = self.levels(&frames).map_err(WireError::Format)?;
        let store = Store::Nowhere("the levels of a line");
        Ok(Encoded::one(Kind::Line, line, store))
    }

    fn levels(&self, frames: &[u8]) -> std::result::Result<Vec<u8>, barewire_wire::Error> {
        let frames = frames.chunks(FRAME_BYTES);
        let (before, after) = (self.before as usize, self.after as usize);
        // Eight blocks are five bytes.
        let blocks = frames.len() * (before + FRAME_BLOCKS) + after;
        let blocks_to_byte = blocks.next_multiple_of(8) - blocks;
        let mut encoder = Encoder::new();
        let mut line = vec![0; encoder.line_bytes(blocks + blocks_to_byte)];
        let mut at = 0;
        for frame in frames {
            at += encoder.gap(before, &mut line[at..])?;
            at += encoder.frame(&Frame::new_checked(frame)?, &mut line[at..])?;
        }
        encoder.gap(after + blocks_to_byte, &mut line[at..])?;
        Ok(line)
    }
}

/// Options of `encode cbn-cell`.
#[derive(Clone, Debug, Args)]
pub struct CellArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Virtual circuit identifier
    #[arg(long, value_parser = field::<16>, default_value = "0x42")]
    vci: u32,
    /// The 16 bits for segmentation and reassembly
    #[arg(long, value_parser = field::<16>, default_value = "0")]
    sar: u32,
}

impl CellArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let body = self.common.payload(BODY_BYTES, "a cell of the backbone")?;
        let cell = cell(self.vci << 16 | self.sar, &body);
        Ok(Encoded::one(
            Kind::CbnCell,
            cell,
            Store::Exported(exported::MSDL),
        ))
    }
}

fn cell(word: u32, body: &[u8]) -> Vec<u8> {
    let mut cell = Cell::new_unchecked(vec![0; CELL_BYTES]);
    cell.set_word(word);
    cell.body_mut()[..body.len()].copy_from_slice(body);
    cell.into_inner()
}

/// Options of `encode msdl`.
#[derive(Clone, Debug, Args)]
pub struct MsdlArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Virtual circuit identifier
    #[arg(long, value_parser = field::<16>, default_value = "0x42")]
    vci: u32,
    /// Which block of the circuit
    #[arg(long, value_parser = field::<6>, default_value = "0")]
    rid: u32,
}

impl MsdlArgs {
    /// The cells of one block: the sequence counts down to 1, the first cell has Start, a
    /// last cell that is not full has Part and its count.
    pub(super) fn encode(&self) -> Result<Encoded> {
        let block = self
            .common
            .payload(usize::from(u8::MAX) * BODY_BYTES, "an MSDL block")?;
        let mut bodies: Vec<&[u8]> = block.chunks(BODY_BYTES).collect();
        if bodies.is_empty() {
            bodies.push(&[]);
        }
        let count = bodies.len();
        let cell = |(at, body): (usize, &&[u8])| self.cell((count - at) as u8, at == 0, body);
        Ok(Encoded {
            kind: Kind::Msdl,
            units: bodies.iter().enumerate().map(cell).collect(),
            store: Store::Exported(exported::MSDL),
        })
    }

    fn cell(&self, sequence: u8, start: bool, body: &[u8]) -> Vec<u8> {
        let part = body.len() < BODY_BYTES;
        let msdl = Msdl {
            vci: self.vci as u16,
            sequence,
            rid: self.rid as u8,
            part,
            start,
        };
        let mut cell = cell(msdl.to_word(), body);
        if part {
            cell[CELL_BYTES - 1] = body.len() as u8;
        }
        cell
    }
}
