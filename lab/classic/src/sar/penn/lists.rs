//! Linked lists of cells over one shared buffer.
//!
//! Cells and lists link by index. A cell is on one list or on the free list; appending,
//! removing and releasing take the same few steps whatever the length. There can be as
//! many lists as cells: a list without cells exists only until its first append.
//! Source: penn91, linked-list manager and dual-port reassembly buffer.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use barewire_formats::atm::PAYLOAD_BYTES;

use crate::sar::slab::Slab;

/// Names a list to the linked-list manager, until its last cell is read. After that it
/// names nothing: numbers are given again, but not with the same birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListRef {
    number: u32,
    birth: u64,
}

/// What the buffer holds of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    bytes: [u8; PAYLOAD_BYTES],
    len: usize,
}

impl Body {
    /// The bytes that count.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

const EMPTY: Body = Body {
    bytes: [0; PAYLOAD_BYTES],
    len: 0,
};

/// A list, which has no ends before its first cell.
struct List {
    birth: u64,
    ends: Option<Ends>,
}

/// Where a list begins and ends.
struct Ends {
    head: usize,
    tail: usize,
    cells: usize,
}

/// The linked-list manager and its buffer.
pub(super) struct Lists {
    bodies: Vec<Body>,
    /// After each cell, the next one of its list or of the free list.
    next: Vec<usize>,
    lists: Slab<List>,
    births: u64,
    free_head: usize,
    free_cells: usize,
    operations: u64,
}

impl Lists {
    /// A buffer of free cells.
    pub(super) fn new(cells: usize) -> Self {
        Self {
            bodies: vec![EMPTY; cells],
            next: (1..=cells).collect(),
            lists: Slab::new(cells),
            births: 0,
            free_head: 0,
            free_cells: cells,
            operations: 0,
        }
    }

    /// Cells on no list.
    pub(super) const fn free_cells(&self) -> usize {
        self.free_cells
    }

    /// Appends, removals and releases so far.
    pub(super) const fn operations(&self) -> u64 {
        self.operations
    }

    /// Names a new list, which exists with its first cell. None where all are taken.
    pub(super) fn create(&mut self) -> Option<ListRef> {
        self.births += 1;
        let birth = self.births;
        let number = self.lists.insert(List { birth, ends: None }).ok()?;
        Some(ListRef { number, birth })
    }

    fn list(&mut self, list: ListRef) -> Option<&mut List> {
        let found = self.lists.get_mut(list.number)?;
        (found.birth == list.birth).then_some(found)
    }

    /// Puts a body of at most 48 bytes at the tail: one operation. False where no cell is
    /// free or there is no such list.
    pub(super) fn append(&mut self, list: ListRef, bytes: &[u8]) -> bool {
        self.operations += 1;
        if self.free_cells == 0 {
            return false;
        }
        let cell = self.free_head;
        let Some(list) = self.list(list) else {
            return false;
        };
        let old_tail = match &mut list.ends {
            Some(ends) => {
                ends.cells += 1;
                Some(mem::replace(&mut ends.tail, cell))
            }
            None => {
                list.ends = Some(Ends {
                    head: cell,
                    tail: cell,
                    cells: 1,
                });
                None
            }
        };
        self.free_head = self.next[cell];
        self.free_cells -= 1;
        let len = bytes.len().min(PAYLOAD_BYTES);
        let body = &mut self.bodies[cell];
        body.bytes[..len].copy_from_slice(&bytes[..len]);
        body.len = len;
        if let Some(tail) = old_tail {
            self.next[tail] = cell;
        }
        true
    }

    /// Takes the body at the head: one operation. The list ends with its last cell.
    pub(super) fn remove(&mut self, list: ListRef) -> Option<Body> {
        let number = list.number;
        let cell = self.list(list)?.ends.as_ref()?.head;
        let next = self.next[cell];
        let ends = self.list(list)?.ends.as_mut()?;
        ends.head = next;
        ends.cells -= 1;
        if ends.cells == 0 {
            self.lists.remove(number);
        }
        self.operations += 1;
        self.next[cell] = self.free_head;
        self.free_head = cell;
        self.free_cells += 1;
        Some(self.bodies[cell])
    }

    /// Puts a whole list on the free list: one operation.
    pub(super) fn release(&mut self, list: ListRef) {
        self.operations += 1;
        if self.list(list).is_none() {
            return;
        }
        let ends = self.lists.remove(list.number).and_then(|list| list.ends);
        if let Some(ends) = ends {
            self.next[ends.tail] = self.free_head;
            self.free_head = ends.head;
            self.free_cells += ends.cells;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against plain queues: the same bodies in the same order, and no cell is ever
        /// lost or on two lists.
        #[test]
        fn lists_are_queues(
            cells in 1_usize..12,
            steps in proptest::collection::vec((0_u8..4, 0_usize..6, any::<u8>()), 0..200),
        ) {
            let mut lists = Lists::new(cells);
            let mut model: BTreeMap<ListRef, VecDeque<u8>> = BTreeMap::new();
            let mut ended = Vec::new();
            for (step, which, byte) in steps {
                let held: usize = model.values().map(VecDeque::len).sum();
                prop_assert_eq!(lists.free_cells(), cells - held);
                let list = model.keys().nth(which).copied();
                match (step, list) {
                    (0, _) => {
                        if let Some(list) = lists.create() {
                            prop_assert!(model.insert(list, VecDeque::new()).is_none());
                        } else {
                            prop_assert_eq!(model.len(), cells);
                        }
                    }
                    (1, Some(list)) => {
                        let done = lists.append(list, &[byte; 3]);
                        prop_assert_eq!(done, held < cells);
                        if done {
                            model.entry(list).or_default().push_back(byte);
                        }
                    }
                    (2, Some(list)) => {
                        let queue = model.entry(list).or_default();
                        let (body, expected) = (lists.remove(list), queue.pop_front());
                        prop_assert_eq!(body.map(|body| body.bytes().to_vec()), expected.map(|byte| vec![byte; 3]));
                        if expected.is_some() && queue.is_empty() {
                            model.remove(&list);
                            ended.push(list);
                        }
                    }
                    (3, Some(list)) => {
                        lists.release(list);
                        model.remove(&list);
                        ended.push(list);
                    }
                    _ => {}
                }
                // What has ended names nothing, though its number may be given again.
                if let Some(list) = ended.last() {
                    prop_assert!(!lists.append(*list, &[0]));
                    prop_assert_eq!(lists.remove(*list), None);
                    lists.release(*list);
                }
            }
        }
    }
}
