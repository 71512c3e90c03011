//! Encoding SONET frames that carry cells.

use barewire_formats::atm::CELL_BYTES;
use barewire_formats::sonet::{Framer, STS3C_FRAME_BYTES, STS12C_FRAME_BYTES};
use barewire_wire::capture::erf;
use clap::Args;

use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::Store;

/// Options of `encode sonet`; `--hex` holds the cells, 53 bytes each.
#[derive(Clone, Debug, Args)]
pub struct FrameArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// STS-12c, not STS-3c
    #[arg(long)]
    sts12c: bool,
    /// How many frames, at least; B1 and B2 of a frame cover the one before
    #[arg(long, value_parser = field::<10>, default_value = "2")]
    frames: u32,
}

impl FrameArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let given = self.common.any_payload()?;
        let cells = given.chunks_exact(CELL_BYTES);
        if !cells.remainder().is_empty() {
            let text = format!("{} bytes in --hex; cells have 53 bytes each", given.len());
            return Err(WireError::Unfit(text));
        }
        let cells = cells.filter_map(|cell| cell.first_chunk().copied());
        let frames = self.frames as usize;
        let units = match self.sts12c {
            true => framed::<STS12C_FRAME_BYTES>(cells, frames),
            false => framed::<STS3C_FRAME_BYTES>(cells, frames),
        };
        Ok(Encoded {
            kind: Kind::Sonet,
            units,
            store: Store::Erf(erf::Kind::RawLink, None),
        })
    }
}

/// Frames until all cells are in, and no fewer than `frames_min`.
fn framed<const FRAME_BYTES: usize>(
    cells: impl Iterator<Item = [u8; CELL_BYTES]>,
    frames_min: usize,
) -> Vec<Vec<u8>> {
    let mut cells = cells.peekable();
    let mut framer = Framer::<FRAME_BYTES>::new();
    let mut frames = Vec::new();
    while cells.peek().is_some() || frames.len() < frames_min.max(1) {
        let mut frame = [0; FRAME_BYTES];
        framer.emit(&mut frame, || cells.next());
        frames.push(frame.to_vec());
    }
    frames
}
