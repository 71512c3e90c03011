//! What a link makes of the stores of one side of a connection: writes, and their order.
//!
//! A frame ends with an ordered store, that of its header. Lines that follow each other go as
//! one write. The header goes with the lines around it if the network keeps the order of the
//! bytes within a write, else as a write of its own behind them.

use barewire_fabric::frame::LINE_BYTES;

use crate::clan::{Memory, Store};

/// A write into the peer's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// What it brings, in order.
    pub stores: Vec<Store>,
    /// Bytes that travel: from the first to the last one of its lines that was stored into.
    pub len_bytes: u64,
    /// It ends a frame, so the peer's program has something new.
    pub tells: bool,
}

impl Write {
    fn of(stores: Vec<Store>) -> Self {
        let begin = stores.iter().map(|store| store.offset).min();
        let end = stores.iter().map(|store| store.offset + store.bytes.len());
        let len_bytes = end.max().unwrap_or(0) - begin.unwrap_or(0);
        Self {
            tells: stores.iter().any(|store| store.ordered),
            len_bytes: len_bytes as u64,
            stores,
        }
    }
}

/// Makes writes of what one side of a connection stores.
#[derive(Debug, Default)]
pub struct Writer {
    /// Stores since the last frame: they go with the next one.
    plain: Vec<Store>,
}

impl Writer {
    /// The writes of what was published since the last call; `header_apart`: the order of bytes
    /// within a write is nothing to rely on.
    pub fn published(&mut self, memory: &Memory, header_apart: bool) -> Vec<Write> {
        let mut all = Vec::new();
        while let Some(store) = memory.take_issued() {
            let ordered = store.ordered;
            if ordered && header_apart {
                all.extend(self.rest());
            }
            self.plain.push(store);
            if ordered {
                all.extend(self.rest());
            }
        }
        all
    }

    /// The writes of what has not been published.
    pub fn rest(&mut self) -> Vec<Write> {
        runs(std::mem::take(&mut self.plain))
    }
}

/// The writes of stores; the one with the ordered store, which came last, is last.
fn runs(stores: Vec<Store>) -> Vec<Write> {
    let header = stores.last().filter(|store| store.ordered).map(line_of);
    let mut by_line: Vec<(usize, Store)> =
        stores.into_iter().map(|it| (line_of(&it), it)).collect();
    // Stable: stores to a line stay in their order, so the header stays the last of its line.
    by_line.sort_by_key(|(line, _)| *line);
    let mut groups: Vec<Vec<Store>> = Vec::new();
    let (mut next, mut last) = (usize::MAX, None);
    for (line, store) in by_line {
        let end = (store.offset + store.bytes.len()).div_ceil(LINE_BYTES);
        if line > next || groups.is_empty() {
            groups.push(Vec::new());
            next = 0;
        }
        next = next.max(end);
        if header == Some(line) {
            last = Some(groups.len() - 1);
        }
        if let Some(group) = groups.last_mut() {
            group.push(store);
        }
    }
    if let Some(last) = last {
        let mut group = groups.remove(last);
        group.sort_by_key(|store| store.ordered);
        groups.push(group);
    }
    groups.into_iter().map(Write::of).collect()
}

fn line_of(store: &Store) -> usize {
    store.offset / LINE_BYTES
}
