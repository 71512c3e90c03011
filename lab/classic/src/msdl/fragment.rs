//! Blocks to cells, one block alone or several in turn. Rules in [the parent module](super).
//!
//! Source: cbn91, section on MSDL.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use barewire_formats::cbn::{Msdl, RIDS};
use thiserror::Error;

use super::BodySize;

/// Why a block cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FragmentError {
    /// The block needs more than 255 cells.
    #[error("a block of {block_bytes} bytes, where at most {allowed_bytes} fit")]
    TooLong {
        /// Bytes of the block.
        block_bytes: usize,
        /// Bytes that fit.
        allowed_bytes: usize,
    },
    /// All 64 blocks of the circuit are under way.
    #[error("VCI {vci:#06x}: all 64 RIDs are in use")]
    NoRid {
        /// The circuit.
        vci: u16,
    },
    /// The RID has more than six bits.
    #[error("RID {rid}, where 0 to 63 may stand")]
    Rid {
        /// The RID.
        rid: u8,
    },
}

/// The cells of one block, in order.
#[derive(Clone, Debug)]
pub struct Fragments<T> {
    size: BodySize,
    vci: u16,
    rid: u8,
    block: T,
    /// Cells that are still to come, and whether the first one is among them.
    cells_left: u8,
    start: bool,
}

impl<T: AsRef<[u8]>> Fragments<T> {
    /// The cells of `block`.
    ///
    /// # Errors
    ///
    /// [`FragmentError::TooLong`], [`FragmentError::Rid`].
    pub fn new(size: BodySize, vci: u16, rid: u8, block: T) -> Result<Self, FragmentError> {
        if usize::from(rid) >= RIDS {
            return Err(FragmentError::Rid { rid });
        }
        let block_bytes = block.as_ref().len();
        let cells_left = size.cells(block_bytes).ok_or(FragmentError::TooLong {
            block_bytes,
            allowed_bytes: size.block_bytes_max(),
        })?;
        Ok(Self {
            size,
            vci,
            rid,
            block,
            cells_left,
            start: true,
        })
    }

    /// Cells that are still to come.
    #[must_use]
    pub const fn cells_left(&self) -> u8 {
        self.cells_left
    }

    /// The next cell: writes its body, and gives its fields. `None` after the last one, or if
    /// `body` has not the size of a body.
    pub fn next_into(&mut self, body: &mut [u8]) -> Option<Msdl> {
        let size = self.size.bytes();
        if self.cells_left == 0 || body.len() != size {
            return None;
        }
        let block = self.block.as_ref();
        let at = (usize::from(self.total_cells()) - usize::from(self.cells_left)) * size;
        let bytes = &block[at..block.len().min(at + size)];
        let part = bytes.len() < size;
        body[..bytes.len()].copy_from_slice(bytes);
        if part {
            body[bytes.len()..].fill(0);
            // Less than the size of a body, which is at most 256.
            body[size - 1] = bytes.len() as u8;
        }
        let msdl = Msdl {
            vci: self.vci,
            sequence: self.cells_left,
            rid: self.rid,
            part,
            start: self.start,
        };
        self.start = false;
        self.cells_left -= 1;
        Some(msdl)
    }

    fn total_cells(&self) -> u8 {
        // `new` has checked the length.
        self.size.cells(self.block.as_ref().len()).unwrap_or(0)
    }
}

/// The sending side of one circuit: its blocks go out cell by cell in turn, each under a RID
/// of its own. RIDs are taken in turn too, so that one comes again as late as possible.
#[derive(Clone, Debug)]
pub struct Sender {
    size: BodySize,
    vci: u16,
    next_rid: u8,
    blocks: VecDeque<Fragments<Vec<u8>>>,
}

impl Sender {
    /// The sending side of circuit `vci`.
    #[must_use]
    pub const fn new(size: BodySize, vci: u16) -> Self {
        Self {
            size,
            vci,
            next_rid: 0,
            blocks: VecDeque::new(),
        }
    }

    /// Blocks under way.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Cells still to be sent.
    #[must_use]
    pub fn cells(&self) -> usize {
        let cells = |block: &Fragments<_>| usize::from(block.cells_left());
        self.blocks.iter().map(cells).sum()
    }

    /// Takes a block to be sent, and gives its RID.
    ///
    /// # Errors
    ///
    /// [`FragmentError::TooLong`], [`FragmentError::NoRid`].
    pub fn submit(&mut self, block: Vec<u8>) -> Result<u8, FragmentError> {
        let rids = RIDS as u8;
        let rid = (0..rids)
            .map(|i| (self.next_rid + i) % rids)
            .find(|&rid| self.blocks.iter().all(|block| block.rid != rid))
            .ok_or(FragmentError::NoRid { vci: self.vci })?;
        let block = Fragments::new(self.size, self.vci, rid, block)?;
        self.blocks.push_back(block);
        self.next_rid = (rid + 1) % rids;
        Ok(rid)
    }

    /// The next cell of the circuit: writes its body, and gives its fields. `None` if there is
    /// nothing to send, or `body` has not the size of a body.
    pub fn poll_cell(&mut self, body: &mut [u8]) -> Option<Msdl> {
        let msdl = self.blocks.front_mut()?.next_into(body)?;
        let block = self.blocks.pop_front()?;
        if block.cells_left() > 0 {
            self.blocks.push_back(block);
        }
        Some(msdl)
    }
}
