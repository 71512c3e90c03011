//! HDF5 files of events: `/events/NUMBER` is a group, `source-N` in it the bytes of a fragment.
//!
//! Source: the HDF5 File Format Specification, version 3.0. A writer of what is needed, and
//! no reader; why there is one is told in `docs/decisions/0006-hdf5.md`. All numbers are
//! little-endian, addresses and lengths have 8 bytes.
//!
//! | object | attributes |
//! |---|---|
//! | `/` | `run`, `builder`, `events`: how many there are |
//! | `/events/000000000042` | `run`, `event`, `sources`: those that are there, `missing`: how many are not, `complete`: 1 or 0, `time_ns`: of the first fragment |
//! | `source-N` in it: a list of bytes | `source`, `time_ns` |
//!
//! | in the file | written | bytes |
//! |---|---|---|
//! | superblock, version 2 | at the very end of writing | 48 |
//! | of each event: data and object header of each fragment, object header with the links to them | when it is added | |
//! | table of the events: local heap of names, symbol table nodes of at most 8 names, B-tree (version 1) of at most 32 children a node | at the end | 328 and 544 a node |
//! | object header of the table (version 1) and of the root group | at the end | |
//!
//! Until it is whole the file is called `NAME.h5.part` and begins with zeros, so that no reader
//! takes it for one. A writer that is killed leaves that; the file of events beside it is
//! to be converted then.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::record::{Damage, Ending, Reading, RecordError, Stored};

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
const SUPERBLOCK_BYTES: usize = 48;
/// No address.
const NOWHERE: u64 = u64::MAX;
/// Names in a symbol table node, and children of a node of the B-tree: twice the format's
/// defaults of 4 and 16, which hold where the superblock does not say otherwise.
const NAMES_MAX: usize = 8;
const CHILDREN_MAX: usize = 32;

const DATASPACE: u8 = 0x01;
const LINK_INFO: u8 = 0x02;
const DATATYPE: u8 = 0x03;
const FILL_VALUE: u8 = 0x05;
const LINK: u8 = 0x06;
const LAYOUT: u8 = 0x08;
const GROUP_INFO: u8 = 0x0a;
const ATTRIBUTE: u8 = 0x0c;
const SYMBOL_TABLE: u8 = 0x11;

/// A file that is written.
#[derive(Debug)]
pub struct Hdf5Writer {
    path: PathBuf,
    part: PathBuf,
    file: File,
    run: u32,
    builder: u16,
    waiting: Vec<u8>,
    /// Bytes in the file.
    bytes: u64,
    /// Events, and where their groups are.
    events: Vec<(u64, u64)>,
}

impl Hdf5Writer {
    /// A new file; an existing one is not touched.
    ///
    /// # Errors
    ///
    /// It can not be made.
    pub fn create(path: &Path, run: u32, builder: u16) -> io::Result<Self> {
        if path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file,
            run,
            builder,
            waiting: vec![0; SUPERBLOCK_BYTES],
            bytes: 0,
            events: Vec::new(),
        })
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One more event; it is written with [`Hdf5Writer::write`].
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        let mut links = Vec::new();
        for fragment in fragments {
            links.push((
                format!("source-{}", fragment.source),
                self.dataset(fragment),
            ));
        }
        let mut group = Header::group(&links);
        group.number("run", u64::from(self.run), 4);
        group.number("event", event, 8);
        let sources = fragments.iter().map(|it| u64::from(it.source));
        group.numbers("sources", sources, 2);
        group.number("missing", u64::from(missing), 4);
        group.number("complete", u64::from(missing == 0), 1);
        let at_ns = fragments.first().map_or(0, |it| it.at_ns);
        group.number("time_ns", at_ns, 8);
        let at = self.put(&group.finish());
        self.events.push((event, at));
    }

    fn dataset(&mut self, fragment: &Stored) -> u64 {
        let bytes = fragment.data.len() as u64;
        let data = match bytes {
            0 => NOWHERE,
            _ => self.put(&fragment.data),
        };
        let mut dataset = Header::default();
        dataset.message(DATASPACE, &dataspace(Some(bytes)));
        dataset.message(DATATYPE, &unsigned(1));
        // Version 3; space is made late, and filled if a value is set: none is.
        dataset.message(FILL_VALUE, &[3, 0x0a]);
        let mut layout = vec![3, 1];
        layout.extend(data.to_le_bytes());
        layout.extend(bytes.to_le_bytes());
        dataset.message(LAYOUT, &layout);
        dataset.number("source", u64::from(fragment.source), 2);
        dataset.number("time_ns", fragment.at_ns, 8);
        self.put(&dataset.finish())
    }

    /// Appends `bytes` at the next multiple of 8, and says where that is.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        self.waiting
            .resize(self.waiting.len().next_multiple_of(8), 0);
        let at = self.bytes + self.waiting.len() as u64;
        self.waiting.extend_from_slice(bytes);
        at
    }

    /// Writes what was added.
    ///
    /// # Errors
    ///
    /// The disk is full, or worse.
    pub fn write(&mut self) -> io::Result<()> {
        // What follows begins at a multiple of 8 of the file.
        self.waiting
            .resize(self.waiting.len().next_multiple_of(8), 0);
        // After an error all of it waits for the next time.
        self.file.write_all_at(&self.waiting, self.bytes)?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Bytes that are not in the file.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Writes the tables, and gives the file its name. That it is on the disk is not waited for.
    ///
    /// # Errors
    ///
    /// As [`Hdf5Writer::write`], or an event is there twice.
    pub fn finish(mut self) -> io::Result<()> {
        let table = self.table()?;
        let mut root = Header::group(&[("events".to_owned(), table)]);
        root.number("run", u64::from(self.run), 4);
        root.number("builder", u64::from(self.builder), 2);
        root.number("events", self.events.len() as u64, 8);
        let root_at = self.put(&root.finish());
        self.write()?;
        let mut superblock = Vec::from(SIGNATURE);
        superblock.extend([2, 8, 8, 0]);
        for address in [0, NOWHERE, self.bytes, root_at] {
            superblock.extend(address.to_le_bytes());
        }
        superblock.extend(lookup3(&superblock).to_le_bytes());
        self.file.write_all_at(&superblock, 0)?;
        std::fs::rename(&self.part, &self.path)
    }

    /// The group of all events: names in a heap, and the tree by which they are found.
    fn table(&mut self) -> io::Result<u64> {
        let mut events: Vec<_> = self
            .events
            .iter()
            .map(|&(event, at)| (format!("{event:012}"), at))
            .collect();
        events.sort_unstable();
        if let Some(twice) = events.windows(2).find(|it| it[0].0 == it[1].0) {
            let text = format!("event {} is there twice", twice[0].0);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // The empty name comes first.
        let mut names = vec![0; 8];
        let mut leaves = Vec::new();
        for some in events.chunks(NAMES_MAX) {
            let mut node = b"SNOD\x01\0".to_vec();
            node.extend((some.len() as u16).to_le_bytes());
            let mut last = 0;
            for (name, at) in some {
                last = names.len() as u64;
                names.extend_from_slice(name.as_bytes());
                // A zero at least.
                names.resize((names.len() + 1).next_multiple_of(8), 0);
                node.extend(last.to_le_bytes());
                node.extend(at.to_le_bytes());
                node.extend([0; 24]);
            }
            node.resize(8 + 40 * NAMES_MAX, 0);
            leaves.push((last, self.put(&node)));
            self.write()?;
        }
        let tree = self.tree(leaves)?;
        let heap_data = self.put(&names);
        let mut heap = b"HEAP\0\0\0\0".to_vec();
        // 1: nothing in it is free.
        for number in [names.len() as u64, 1, heap_data] {
            heap.extend(number.to_le_bytes());
        }
        let heap = self.put(&heap);
        // An object header of version 1, with one message.
        let mut header = vec![1, 0, 1, 0];
        header.extend(1_u32.to_le_bytes());
        header.extend(24_u32.to_le_bytes());
        header.extend([0; 4]);
        header.extend([SYMBOL_TABLE, 0, 16, 0, 0, 0, 0, 0]);
        header.extend(tree.to_le_bytes());
        header.extend(heap.to_le_bytes());
        Ok(self.put(&header))
    }

    /// The B-tree over children, each with the heap offset of its last name; where its root is.
    fn tree(&mut self, mut children: Vec<(u64, u64)>) -> io::Result<u64> {
        const NODE_BYTES: usize = 24 + 8 * (2 * CHILDREN_MAX + 1);
        let mut level = 0;
        loop {
            let count = children.len().div_ceil(CHILDREN_MAX).max(1);
            // The nodes of a level are side by side.
            let first = self.put(&[]);
            let node_at = |number: usize| first + (number * NODE_BYTES.next_multiple_of(8)) as u64;
            let mut parents = Vec::with_capacity(count);
            let mut before = 0;
            for number in 0..count {
                let start = number * CHILDREN_MAX;
                let some = &children[start..children.len().min(start + CHILDREN_MAX)];
                let mut node = b"TREE\0".to_vec();
                node.push(level);
                node.extend((some.len() as u16).to_le_bytes());
                let left = number.checked_sub(1).map_or(NOWHERE, node_at);
                let right = if number + 1 < count {
                    node_at(number + 1)
                } else {
                    NOWHERE
                };
                node.extend(left.to_le_bytes());
                node.extend(right.to_le_bytes());
                node.extend(u64::to_le_bytes(before));
                for (last, at) in some {
                    node.extend(at.to_le_bytes());
                    node.extend(last.to_le_bytes());
                    before = *last;
                }
                node.resize(NODE_BYTES, 0);
                let at = self.put(&node);
                debug_assert_eq!(at, node_at(number));
                parents.push((before, at));
            }
            self.write()?;
            if let [(_, root)] = parents[..] {
                return Ok(root);
            }
            children = parents;
            level += 1;
        }
    }
}

/// An object header of version 2.
#[derive(Default)]
struct Header {
    messages: Vec<u8>,
}

impl Header {
    /// That of a group whose links stand in it.
    fn group(links: &[(String, u64)]) -> Self {
        let mut header = Self::default();
        let mut info = vec![0, 0];
        // Neither heap nor tree: the links stand here.
        info.extend([0xff; 16]);
        header.message(LINK_INFO, &info);
        header.message(GROUP_INFO, &[0, 0]);
        for (name, at) in links {
            // Version 1; one byte for the length of the name; a hard link.
            let mut link = vec![1, 0, name.len() as u8];
            link.extend(name.as_bytes());
            link.extend(at.to_le_bytes());
            header.message(LINK, &link);
        }
        header
    }

    fn message(&mut self, kind: u8, data: &[u8]) {
        self.messages.push(kind);
        self.messages.extend((data.len() as u16).to_le_bytes());
        self.messages.push(0);
        self.messages.extend_from_slice(data);
    }

    /// An attribute that is a number of so many bytes.
    fn number(&mut self, name: &str, value: u64, width: u8) {
        self.attribute(name, &dataspace(None), width, core::iter::once(value));
    }

    /// An attribute that is a list of numbers.
    fn numbers(&mut self, name: &str, values: impl ExactSizeIterator<Item = u64>, width: u8) {
        let space = dataspace(Some(values.len() as u64));
        self.attribute(name, &space, width, values);
    }

    fn attribute(
        &mut self,
        name: &str,
        space: &[u8],
        width: u8,
        values: impl Iterator<Item = u64>,
    ) {
        let datatype = unsigned(width);
        // Version 3, no flags.
        let mut data = vec![3, 0];
        for len in [name.len() + 1, datatype.len(), space.len()] {
            data.extend((len as u16).to_le_bytes());
        }
        // ASCII; the name ends with a zero.
        data.push(0);
        data.extend(name.as_bytes());
        data.push(0);
        data.extend(datatype);
        data.extend(space);
        for value in values {
            data.extend(&value.to_le_bytes()[..usize::from(width)]);
        }
        self.message(ATTRIBUTE, &data);
    }

    fn finish(self) -> Vec<u8> {
        // Version 2; the size of what follows has 4 bytes.
        let mut header = b"OHDR\x02\x02".to_vec();
        header.extend((self.messages.len() as u32).to_le_bytes());
        header.extend(self.messages);
        header.extend(lookup3(&header).to_le_bytes());
        header
    }
}

/// A dataspace of version 2: one value, or a list of so many.
fn dataspace(count: Option<u64>) -> Vec<u8> {
    let Some(count) = count else {
        return vec![2, 0, 0, 0];
    };
    let mut space = vec![2, 1, 0, 1];
    space.extend(count.to_le_bytes());
    space
}

/// The datatype, version 1, of an unsigned little-endian number of so many bytes.
fn unsigned(width: u8) -> [u8; 12] {
    [0x10, 0, 0, 0, width, 0, 0, 0, 0, 0, 8 * width, 0]
}

/// The check code of the format: Bob Jenkins' `lookup3`, with 0 to begin with.
fn lookup3(bytes: &[u8]) -> u32 {
    let begin = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (begin, begin, begin);
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        add(block, &mut a, &mut b, &mut c);
        for (turn_a, turn_b, turn_c) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turn_a);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(turn_b);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(turn_c);
            b = b.wrapping_add(a);
        }
        rest = after;
    }
    if rest.is_empty() {
        return c;
    }
    add(rest, &mut a, &mut b, &mut c);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Adds up to 12 bytes, as if zeros followed.
fn add(bytes: &[u8], a: &mut u32, b: &mut u32, c: &mut u32) {
    let mut block = [0; 12];
    block[..bytes.len()].copy_from_slice(bytes);
    let word =
        |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    *a = a.wrapping_add(word(0));
    *b = b.wrapping_add(word(4));
    *c = c.wrapping_add(word(8));
}

/// What was converted.
#[derive(Debug, Default)]
pub struct Converted {
    /// Events that are in the HDF5 file.
    pub events: u64,
    /// What of the file of events is left out because it is damaged.
    pub damage: Damage,
    /// How its records ended.
    pub ending: Option<Ending>,
}

/// Makes an HDF5 file of a file of events: of all that is good. Fragments that are damaged count as
/// missing.
///
/// # Errors
///
/// The one can not be read, or the other not be written.
pub fn convert(from: &Path, to: &Path) -> Result<Converted, RecordError> {
    let mut reading = Reading::open(from)?;
    let mut writer = Hdf5Writer::create(to, reading.run, reading.builder)?;
    let mut events = 0;
    while let Some(event) = reading.next_event()? {
        let missing = event.missing.saturating_add(event.damaged);
        writer.add(event.event, missing, &event.fragments);
        writer.write()?;
        events += 1;
    }
    writer.finish()?;
    Ok(Converted {
        events,
        damage: reading.damage().clone(),
        ending: reading.ending(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_code_is_that_of_lookup3() {
        // From the driver at the end of the author's lookup3.c.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
