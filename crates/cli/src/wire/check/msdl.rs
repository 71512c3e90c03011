//! Cells of the Cambridge Backbone: each block of each circuit counts down to 1.

use std::collections::BTreeMap;

use barewire_formats::cbn::{CELL_BYTES, Cell, Msdl};

use super::tally::{Circuit, Tally};

/// Blocks that are open: the sequence number that comes next, by VCI and RID.
#[derive(Debug, Default)]
pub struct Blocks {
    next: BTreeMap<(u16, u8), u8>,
}

impl Blocks {
    /// A cell that begins at byte `at` of the file.
    pub fn cell(&mut self, bytes: &[u8], at: usize, tally: &mut Tally) {
        let Some(bytes) = bytes.first_chunk::<CELL_BYTES>() else {
            let text = format!("{} bytes at byte {at}, where a cell has 36", bytes.len());
            return tally.error(Circuit::Link, "short cell", 1, &text);
        };
        let cell = Cell::new_unchecked(bytes);
        let msdl = cell.msdl();
        let circuit = Circuit::Backbone(msdl.vci);
        tally.count(circuit, "cells", 1);
        let checked = msdl
            .check_sequence()
            .and_then(|()| msdl.valid_bytes(cell.body()));
        match checked {
            Ok(valid_bytes) => tally.count(circuit, "bytes", valid_bytes as u64),
            Err(error) => return tally.fault(circuit, error.field, &error.shifted(at * 8)),
        }
        self.follow(circuit, msdl, at, tally);
    }

    fn follow(&mut self, circuit: Circuit, msdl: Msdl, at: usize, tally: &mut Tally) {
        let block = (msdl.vci, msdl.rid);
        let (rid, found) = (msdl.rid, msdl.sequence);
        let place = format!("cell at byte {at}, RID {rid}");
        match (self.next.remove(&block), msdl.start) {
            (None, true) => {}
            (Some(_), true) => {
                let text = format!("{place}: a block begins where another is open");
                tally.error(circuit, "interrupted", 1, &text);
            }
            (None, false) => {
                let text = format!("{place}: it belongs to no block");
                return tally.error(circuit, "orphans", 1, &text);
            }
            (Some(next), false) if next == found => {}
            (Some(next), false) => {
                let text = format!("{place}: sequence {found} where {next} follows");
                // Counting down: what is skipped is lost; going up is another disorder.
                match next.checked_sub(found) {
                    Some(lost) => tally.error(circuit, "lost cells", lost.into(), &text),
                    None => tally.error(circuit, "out of order", 1, &text),
                }
            }
        }
        match found {
            1 => tally.count(circuit, "blocks", 1),
            _ => drop(self.next.insert(block, found - 1)),
        }
    }

    /// The capture is over.
    pub fn finish(&mut self, tally: &mut Tally) {
        for (vci, rid) in std::mem::take(&mut self.next).into_keys() {
            let text = format!("the block of RID {rid} is not finished where the capture ends");
            tally.error(Circuit::Backbone(vci), "unfinished", 1, &text);
        }
    }
}
