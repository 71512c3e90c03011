//! The table of events, read: a B-tree over nodes of at most 8 names, which lie in a heap.
//!
//! The format has no check code for it. But how many events there are is known from the root group, which has
//! one, and with it the shape of the whole tree: how many nodes each level has, and how many children each
//! node. All of that, and the names at both ends of each node, have to agree. So a damaged node is found,
//! and no walk is longer than the tree is high. That an entry leads to its event is known by the group
//! that it leads to.

use std::io::{Read, Seek};

use super::format::{
    CHILDREN_MAX, FIRST_NAME_AT, HEAP_BEGIN, HEAP_BYTES, LEAF_BEGIN, LEAF_BYTES, LEAF_ENTRY_BYTES,
    LEAF_HEAD_BYTES, NAMES_MAX, NODE_BEGIN, NODE_BYTES, TABLE_BEGIN, TABLE_BYTES, compare_names,
    name_bytes, name_of,
};
use super::source::{Hdf5Error, Place, Source};
use crate::wire::u64_at;

/// A name in the heap: the 20 digits of the largest number, and zeros.
const NAME_BYTES_MAX: u64 = 24;
/// Children of a node, as a power of 2.
const CHILDREN_BITS: u32 = CHILDREN_MAX.trailing_zeros();

/// Where the table is, and its shape.
#[derive(Debug)]
pub(super) struct Table {
    tree_at: u64,
    names: Place,
    events: u64,
    /// Nodes of names.
    leaves: u64,
    /// Levels of the tree above them.
    levels: u32,
}

/// An event in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub event: u64,
    /// Where the object header of its group is.
    pub at: u64,
}

/// A node of names.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Which one it is, in the order of the names.
    pub number: u64,
    pub place: Place,
    pub entries: Vec<Entry>,
}

/// A node of the tree.
struct Node {
    place: Place,
    /// Where the last name before all children is, and the last one of each child.
    keys: Vec<u64>,
    children: Vec<u64>,
}

/// Which child is wanted.
#[derive(Clone, Copy)]
enum Goal {
    /// That with this leaf.
    Leaf(u64),
    /// That with the event of this number.
    Event(u64),
}

/// The part of the tree that is left of a search.
struct Step {
    at: u64,
    /// Which node of its level it is.
    number: u64,
    /// Where the last names before it and in it are; the root knows of none.
    bounds: Option<(u64, u64)>,
}

impl Table {
    /// The table of so many events whose object header is at `at`.
    pub fn open<R: Read + Seek>(
        source: &mut Source<R>,
        at: u64,
        events: u64,
    ) -> Result<Self, Hdf5Error> {
        let place = Place {
            at,
            bytes: TABLE_BYTES as u64,
            object: "the table of the events",
        };
        // As many as fit: what is computed of it does not overflow then.
        if events > source.len_bytes() / LEAF_ENTRY_BYTES as u64 {
            return Err(place.spoilt(format!("the file is too short for {events} events")));
        }
        let header = source.read(place)?;
        if header[..TABLE_BEGIN.len()] != TABLE_BEGIN[..] {
            return Err(place.spoilt("it is not as this library writes it"));
        }
        let (tree_at, heap_at) = (u64_at(&header, 24), u64_at(&header, 32));
        let heap_place = Place {
            at: heap_at,
            bytes: HEAP_BYTES as u64,
            object: "the heap of names",
        };
        let heap = source.read(heap_place)?;
        if heap[..8] != HEAP_BEGIN[..] {
            return Err(heap_place.spoilt("it is none"));
        }
        let names = Place {
            at: u64_at(&heap, 24),
            bytes: u64_at(&heap, 8),
            object: "the names of the events",
        };
        source.check(names)?;
        let leaves = events.div_ceil(NAMES_MAX as u64);
        let mut levels = 1;
        while nodes(leaves, levels - 1) > 1 {
            levels += 1;
        }
        Ok(Self {
            tree_at,
            names,
            events,
            leaves,
            levels,
        })
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    /// The leaf with this number; there is one.
    pub fn leaf<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        number: u64,
    ) -> Result<Leaf, Hdf5Error> {
        self.descend(source, Goal::Leaf(number))
    }

    /// The leaf in which this event is, if it is in the table; `None` if the table is empty.
    pub fn leaf_with<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        event: u64,
    ) -> Result<Option<Leaf>, Hdf5Error> {
        match self.events {
            0 => Ok(None),
            _ => self.descend(source, Goal::Event(event)).map(Some),
        }
    }

    fn descend<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        goal: Goal,
    ) -> Result<Leaf, Hdf5Error> {
        let mut step = Step {
            at: self.tree_at,
            number: 0,
            bounds: None,
        };
        for level in (0..self.levels).rev() {
            let node = self.node(source, level, &step)?;
            let child = match goal {
                Goal::Leaf(number) => (number >> (CHILDREN_BITS * level)) as usize % CHILDREN_MAX,
                Goal::Event(event) => self.child_with(source, &node, event)?,
            };
            step = Step {
                at: node.children[child],
                number: step.number * CHILDREN_MAX as u64 + child as u64,
                bounds: Some((node.keys[child], node.keys[child + 1])),
            };
        }
        self.names_of(source, &step)
    }

    /// The node of the tree at this level.
    fn node<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        level: u32,
        step: &Step,
    ) -> Result<Node, Hdf5Error> {
        let place = Place {
            at: step.at,
            bytes: NODE_BYTES as u64,
            object: "a node of the tree of events",
        };
        let bytes = source.read(place)?;
        let below = match level {
            0 => self.leaves,
            _ => nodes(self.leaves, level - 1),
        };
        let before = step.number * CHILDREN_MAX as u64;
        let count = below.saturating_sub(before).min(CHILDREN_MAX as u64) as usize;
        let says = (u32::from(bytes[5]), [bytes[6], bytes[7]]);
        let is_right = says == (level, (count as u16).to_le_bytes());
        if bytes[..5] != NODE_BEGIN[..] || !is_right {
            let text = format!("it is none of level {level} with {count} children");
            return Err(place.spoilt(text));
        }
        let keys: Vec<_> = (0..=count).map(|it| u64_at(&bytes, 24 + 16 * it)).collect();
        let children = (0..count).map(|it| u64_at(&bytes, 32 + 16 * it)).collect();
        let ends = (keys[0], keys[count]);
        let is_in_place = match step.bounds {
            Some(bounds) => ends == bounds,
            None => ends.0 == 0,
        };
        let is_in_order = keys.windows(2).all(|it| it[0] < it[1]);
        if !is_in_place || !is_in_order || ends.1 >= self.names.bytes {
            return Err(place.spoilt("its names are not those between its neighbours"));
        }
        Ok(Node {
            place,
            keys,
            children,
        })
    }

    /// Which child has this event, if it is there.
    fn child_with<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        node: &Node,
        event: u64,
    ) -> Result<usize, Hdf5Error> {
        let (mut first, mut last) = (0, node.children.len().saturating_sub(1));
        if node.children.is_empty() {
            return Err(node.place.spoilt("it has no children"));
        }
        while first < last {
            let middle = usize::midpoint(first, last);
            let (found, _) = self.name(source, node.keys[middle + 1])?;
            match compare_names(found, event).is_lt() {
                true => first = middle + 1,
                false => last = middle,
            }
        }
        Ok(first)
    }

    /// The name at this place of the heap, and where the next one is.
    fn name<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        offset: u64,
    ) -> Result<(u64, u64), Hdf5Error> {
        let place = self.place_of(offset, NAME_BYTES_MAX);
        let bytes = source.read(place)?;
        name_in(place, offset, &bytes)
    }

    /// So many bytes at this place of the heap, or those up to its end.
    fn place_of(&self, offset: u64, bytes_max: u64) -> Place {
        let bytes = self.names.bytes.saturating_sub(offset).min(bytes_max);
        Place {
            at: self.names.at.saturating_add(offset),
            bytes,
            object: "the name of an event",
        }
    }

    /// The leaf at the end of a walk.
    fn names_of<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        step: &Step,
    ) -> Result<Leaf, Hdf5Error> {
        let place = Place {
            at: step.at,
            bytes: LEAF_BYTES as u64,
            object: "a node of names",
        };
        let bytes = source.read(place)?;
        let before = step.number * NAMES_MAX as u64;
        let count = self.events.saturating_sub(before).min(NAMES_MAX as u64);
        let says = [bytes[6], bytes[7]];
        if bytes[..6] != LEAF_BEGIN[..] || says != (count as u16).to_le_bytes() {
            return Err(place.spoilt(format!("it is none with {count} names")));
        }
        let (left, right) = step.bounds.unwrap_or_default();
        let mut next = match step.number {
            0 => FIRST_NAME_AT,
            _ => self.name(source, left)?.1,
        };
        let names_at = next;
        let names_place = self.place_of(names_at, count * NAME_BYTES_MAX);
        let names = source.read(names_place)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(NAMES_MAX);
        let mut last = 0;
        for entry in bytes[LEAF_HEAD_BYTES..]
            .chunks_exact(LEAF_ENTRY_BYTES)
            .take(count as usize)
        {
            if u64_at(entry, 0) != next {
                return Err(place.spoilt("its names do not follow one another"));
            }
            last = next;
            let rest = names.get((next - names_at) as usize..).unwrap_or_default();
            let event;
            (event, next) = name_in(names_place, last, rest)?;
            let at = u64_at(entry, 8);
            if entries
                .last()
                .is_some_and(|it| compare_names(it.event, event).is_ge())
            {
                return Err(names_place.spoilt("the names are not in their order"));
            }
            entries.push(Entry { event, at });
        }
        if last != right {
            return Err(place.spoilt("its last name is not what the tree says"));
        }
        Ok(Leaf {
            number: step.number,
            place,
            entries,
        })
    }
}

/// Nodes that a tree over so many leaves has at a level.
fn nodes(leaves: u64, level: u32) -> u64 {
    leaves.div_ceil(1 << (CHILDREN_BITS * (level + 1))).max(1)
}

/// The name at the beginning of `bytes`, which are at `offset` of the heap; and where the next one is.
fn name_in(place: Place, offset: u64, bytes: &[u8]) -> Result<(u64, u64), Hdf5Error> {
    let end = bytes.iter().position(|&it| it == 0);
    let text = end.and_then(|end| core::str::from_utf8(&bytes[..end]).ok());
    let event = text.and_then(|it| it.parse().ok());
    match (event, text) {
        (Some(event), Some(text)) if name_of(event) == text => {
            Ok((event, offset + name_bytes(text) as u64))
        }
        _ => Err(place.spoilt("it is no number of an event")),
    }
}
