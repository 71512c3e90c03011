//! The rival: an ATM switch with the same hosts on links of their own, cell by cell.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | adapter, sending | cuts PDUs into cells; the circuits take turns, cell by cell | [`AtmAdapter`] |
//! | switch | a buffer for each output, shared by the circuits; it drops what has no room | [`AtmSwitch`] |
//! | adapter, receiving | gathers the cells of each circuit; a PDU with a cell missing fails its check | [`Reassembly`] |
//!
//! What has no room is dropped in one of three ways ([`Discard`]). The end of a PDU is a mark in
//! its last cell alone (AAL5): if that cell is lost, the next PDU on the circuit is taken for
//! the rest of this one, and both fail.
//!
//! Source: itu-i363-5 for the end of a PDU; the buffer, and the ways to drop, are open: the
//! paper names no switch. Early discard drops whole PDUs from a threshold on, and partial
//! discard the rest of a PDU of which a cell had to go.

use std::collections::{BTreeMap, VecDeque};

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtmCell {
    /// The caller's name for the PDU.
    pub pdu: u64,
    /// The circuit.
    pub circuit: u32,
    /// Its place in the PDU, from 0.
    pub index: u16,
    /// Cells of the PDU.
    pub of: u16,
    /// Whether it goes before cells without priority.
    pub priority: bool,
    /// It was damaged on its way.
    pub broken: bool,
}

impl AtmCell {
    /// Whether it bears the mark of the last cell.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.of
    }
}

/// The sending half of an adapter.
#[derive(Clone, Debug, Default)]
pub struct AtmAdapter {
    circuits: BTreeMap<u32, VecDeque<AtmCell>>,
    /// Circuits with cells, in the order of their turns; those of priority first.
    turns: [VecDeque<u32>; 2],
}

impl AtmAdapter {
    /// An idle adapter.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A PDU is to be sent: its first cell says how many there are.
    pub fn offer(&mut self, first: AtmCell) {
        if first.of == 0 {
            return;
        }
        let queue = self.circuits.entry(first.circuit).or_default();
        if queue.is_empty() {
            self.turns[usize::from(!first.priority)].push_back(first.circuit);
        }
        queue.push_back(first);
    }

    /// The next cell for the line.
    pub fn poll(&mut self) -> Option<AtmCell> {
        let turns = self.turns.iter_mut().find(|turns| !turns.is_empty())?;
        let circuit = turns.pop_front()?;
        let queue = self.circuits.get_mut(&circuit)?;
        let cell = *queue.front()?;
        if cell.is_last() {
            queue.pop_front();
        } else if let Some(next) = queue.front_mut() {
            next.index += 1;
        }
        if !queue.is_empty() {
            turns.push_back(circuit);
        }
        Some(cell)
    }
}

/// What a switch does with cells that have no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Drops them, and no others.
    Cells,
    /// Drops the rest of the PDU too, but for its last cell, whose mark ends it.
    Partial,
    /// Drops all of a PDU that begins while so many cells are held, and the rest of one of
    /// which a cell has had no room.
    Early {
        /// Cells.
        threshold: usize,
    },
}

/// What is done with the rest of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is dropped but for the last cell.
    ButTheLast,
    /// It is dropped.
    Whole,
}

/// A switch with a buffer for each output.
#[derive(Clone, Debug)]
pub struct AtmSwitch {
    buffer_cells: usize,
    discard: Discard,
    outputs: Vec<[VecDeque<AtmCell>; 2]>,
    /// Circuits of which a PDU is being dropped.
    dropping: BTreeMap<u32, Rest>,
    dropped: u64,
}

impl AtmSwitch {
    /// An empty switch.
    #[must_use]
    pub fn new(ports: usize, buffer_cells: usize, discard: Discard) -> Self {
        Self {
            buffer_cells,
            discard,
            outputs: vec![Default::default(); ports],
            dropping: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Cells that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Cells that wait for an output.
    #[must_use]
    pub fn held(&self, output: usize) -> usize {
        self.outputs[output].iter().map(VecDeque::len).sum()
    }

    /// A cell for an output; false if it is dropped.
    pub fn handle_cell(&mut self, output: usize, cell: AtmCell) -> bool {
        let taken = self.admits(output, cell);
        if taken {
            self.outputs[output][usize::from(!cell.priority)].push_back(cell);
        } else {
            self.dropped += 1;
        }
        taken
    }

    /// The next cell of an output.
    pub fn poll(&mut self, output: usize) -> Option<AtmCell> {
        let queues = &mut self.outputs[output];
        queues.iter_mut().find_map(VecDeque::pop_front)
    }

    fn admits(&mut self, output: usize, cell: AtmCell) -> bool {
        let held = self.held(output);
        let room = held < self.buffer_cells;
        if let Some(rest) = self.dropping.get(&cell.circuit).copied() {
            if cell.is_last() {
                self.dropping.remove(&cell.circuit);
                return rest == Rest::ButTheLast && room;
            }
            return false;
        }
        let rest = match self.discard {
            Discard::Cells => None,
            Discard::Early { threshold } if cell.index == 0 && held >= threshold => {
                Some(Rest::Whole)
            }
            Discard::Partial | Discard::Early { .. } if !room => Some(if cell.index == 0 {
                Rest::Whole
            } else {
                Rest::ButTheLast
            }),
            Discard::Partial | Discard::Early { .. } => None,
        };
        if let Some(rest) = rest {
            if !cell.is_last() {
                self.dropping.insert(cell.circuit, rest);
            }
            return false;
        }
        room
    }
}

/// What has come of a PDU so far.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    pdu: u64,
    cells: u16,
    broken: bool,
}

/// The receiving half of an adapter.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    circuits: BTreeMap<u32, Gathered>,
}

impl Reassembly {
    /// Nothing has come yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A cell has come; the PDU that is whole and good with it.
    pub fn handle_cell(&mut self, cell: AtmCell) -> Option<u64> {
        let gathered = self.circuits.entry(cell.circuit).or_insert(Gathered {
            pdu: cell.pdu,
            cells: 0,
            broken: false,
        });
        gathered.cells = gathered.cells.saturating_add(1);
        gathered.broken |= cell.broken || gathered.pdu != cell.pdu;
        if !cell.is_last() {
            return None;
        }
        let gathered = self.circuits.remove(&cell.circuit)?;
        let good = !gathered.broken && gathered.cells == cell.of;
        good.then_some(cell.pdu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pdu: u64, circuit: u32, of: u16) -> AtmCell {
        AtmCell {
            pdu,
            circuit,
            index: 0,
            of,
            priority: false,
            broken: false,
        }
    }

    /// All PDUs at once into one output of `buffer_cells`, which takes nothing meanwhile; then
    /// what is held goes on. Which PDUs are good, and how many cells passed for nothing.
    fn squeeze(discard: Discard, buffer_cells: usize, pdus: &[AtmCell]) -> (Vec<u64>, usize) {
        let mut adapter = AtmAdapter::new();
        pdus.iter().for_each(|pdu| adapter.offer(*pdu));
        let mut switch = AtmSwitch::new(1, buffer_cells, discard);
        while let Some(cell) = adapter.poll() {
            switch.handle_cell(0, cell);
        }
        let mut passed = 0;
        let mut reassembly = Reassembly::new();
        let mut good = Vec::new();
        while let Some(cell) = switch.poll(0) {
            passed += 1;
            good.extend(reassembly.handle_cell(cell));
        }
        let useful: usize = pdus
            .iter()
            .filter(|pdu| good.contains(&pdu.pdu))
            .map(|pdu| usize::from(pdu.of))
            .sum();
        (good, passed - useful)
    }

    #[test]
    fn circuits_take_turns_and_priority_goes_first() {
        let mut adapter = AtmAdapter::new();
        adapter.offer(first(1, 1, 3));
        adapter.offer(first(2, 2, 1));
        let urgent = AtmCell {
            priority: true,
            ..first(3, 3, 1)
        };
        adapter.offer(urgent);
        let order: Vec<_> = std::iter::from_fn(|| adapter.poll())
            .map(|cell| (cell.pdu, cell.index))
            .collect();
        assert_eq!(order, [(3, 0), (1, 0), (2, 0), (1, 1), (1, 2)]);
    }

    /// Three PDUs of ten cells side by side into room for sixteen: dropped cell by cell none
    /// comes through, partly dropped none either, early dropped one does.
    #[test]
    fn early_discard_saves_whole_pdus() {
        let pdus = [first(1, 1, 10), first(2, 2, 10), first(3, 3, 10)];
        assert_eq!(squeeze(Discard::Cells, 16, &pdus), (vec![], 16));
        let (good, waste) = squeeze(Discard::Partial, 16, &pdus);
        assert_eq!((good, waste), (vec![], 16));
        let early = Discard::Early { threshold: 1 };
        assert_eq!(squeeze(early, 16, &pdus), (vec![1], 0));
        let roomy = squeeze(Discard::Cells, 30, &pdus);
        assert_eq!(roomy, (vec![1, 2, 3], 0));
    }

    /// The last cell is lost: the next PDU on the circuit goes with it.
    #[test]
    fn a_lost_end_spoils_two_pdus() {
        let mut reassembly = Reassembly::new();
        for index in 0..2 {
            let cell = AtmCell {
                index,
                ..first(1, 1, 3)
            };
            assert_eq!(reassembly.handle_cell(cell), None);
        }
        assert_eq!(reassembly.handle_cell(first(2, 1, 1)), None);
        assert_eq!(reassembly.handle_cell(first(3, 1, 1)), Some(3));
        let broken = AtmCell {
            broken: true,
            ..first(4, 1, 1)
        };
        assert_eq!(reassembly.handle_cell(broken), None);
    }
}
