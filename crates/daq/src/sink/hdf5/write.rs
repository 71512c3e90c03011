//! HDF5 files, written: events as they come, the table by which they are found at the end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{
    CHILDREN_MAX, DATASPACE, DATATYPE, FILL_VALUE, FIRST_NAME_AT, FRAGMENTS_MAX, HEAP_BEGIN,
    Header, LAYOUT, LEAF_BEGIN, LEAF_BYTES, NAMES_MAX, NODE_BEGIN, NODE_BYTES, NOWHERE, SIGNATURE,
    SUPERBLOCK_BYTES, SUPERBLOCK_VERSION, TABLE_BEGIN, VERSION_BYTES_MAX, dataspace, lookup3,
    name_bytes, name_of, text, unsigned,
};
use crate::record::{About, Stored};
use crate::wire::crc32c;

/// A file that is written.
#[derive(Debug)]
pub struct Hdf5Writer {
    path: PathBuf,
    part: PathBuf,
    file: File,
    run: u32,
    builder: u16,
    /// What is known of the run, and where its configuration is.
    about: Option<(About, u64)>,
    waiting: Vec<u8>,
    /// Bytes in the file.
    bytes: u64,
    /// Events, and where their groups are.
    events: Vec<(u64, u64)>,
    /// An event that cannot stand in such a file.
    refused: Option<String>,
}

impl Hdf5Writer {
    /// A new file; an existing one is not touched. What is not known `about` the run is left out.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn create(path: &Path, run: u32, builder: u16, about: Option<&About>) -> io::Result<Self> {
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
        let mut writer = Self {
            path: path.to_owned(),
            part,
            file,
            run,
            builder,
            about: None,
            waiting: vec![0; SUPERBLOCK_BYTES],
            bytes: 0,
            events: Vec::new(),
            refused: None,
        };
        writer.about = about.map(|about| (about.clone(), writer.config(&about.config)));
        Ok(writer)
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One more event; it is written with [`Hdf5Writer::write`]. One that has a source twice, or more than
    /// 32 000 fragments, is refused there.
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        if let Some(problem) = problem_of(fragments) {
            self.refused = Some(format!("event {event} {problem}"));
            return;
        }
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

    /// The bytes of a fragment.
    fn dataset(&mut self, fragment: &Stored) -> u64 {
        let space = dataspace(Some(fragment.data.len() as u64));
        let mut dataset = self.values(&space, &unsigned(1), &fragment.data);
        dataset.number("source", u64::from(fragment.source), 2);
        dataset.number("time_ns", fragment.at_ns, 8);
        dataset.number("crc32c", u64::from(crc32c(&fragment.data)), 4);
        self.put(&dataset.finish())
    }

    /// The text of the configuration.
    fn config(&mut self, config: &str) -> u64 {
        let mut bytes = Vec::from(config);
        bytes.resize(bytes.len().max(1), 0);
        let mut dataset = self.values(&dataspace(None), &text(config.len()), &bytes);
        dataset.number("crc32c", u64::from(crc32c(&bytes)), 4);
        self.put(&dataset.finish())
    }

    /// Appends `bytes`, and begins the object header of a dataset that they are.
    fn values(&mut self, space: &[u8], datatype: &[u8], bytes: &[u8]) -> Header {
        let at = match bytes.is_empty() {
            true => NOWHERE,
            false => self.put(bytes),
        };
        let mut dataset = Header::default();
        dataset.message(DATASPACE, space);
        dataset.message(DATATYPE, datatype);
        // Version 3; space is made late, and filled if a value is set: none is.
        dataset.message(FILL_VALUE, &[3, 0x0a]);
        let mut layout = vec![3, 1];
        layout.extend(at.to_le_bytes());
        layout.extend((bytes.len() as u64).to_le_bytes());
        dataset.message(LAYOUT, &layout);
        dataset
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
    /// The disk is full, or worse; or an event was refused.
    pub fn write(&mut self) -> io::Result<()> {
        if let Some(refused) = &self.refused {
            return Err(io::Error::new(io::ErrorKind::InvalidData, refused.clone()));
        }
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
        let mut links = vec![("events".to_owned(), table)];
        links.extend(self.about.iter().map(|it| ("config".to_owned(), it.1)));
        let mut root = Header::group(&links);
        root.number("run", u64::from(self.run), 4);
        root.number("builder", u64::from(self.builder), 2);
        root.number("events", self.events.len() as u64, 8);
        if let Some((about, _)) = &self.about {
            root.number("seed", about.seed, 8);
            root.number("made_unix_ns", about.made_unix_ns, 8);
            root.number("clock_unix_ns", about.clock_unix_ns, 8);
            root.text("version", cut(&about.version));
        }
        let root_at = self.put(&root.finish());
        self.write()?;
        let mut superblock = Vec::from(SIGNATURE);
        superblock.extend(SUPERBLOCK_VERSION);
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
            .map(|&(event, at)| (name_of(event), at))
            .collect();
        events.sort_unstable();
        if let Some(twice) = events.windows(2).find(|it| it[0].0 == it[1].0) {
            let text = format!("event {} is there twice", twice[0].0);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // The empty name comes first.
        let mut names = vec![0; FIRST_NAME_AT as usize];
        let mut leaves = Vec::new();
        for some in events.chunks(NAMES_MAX) {
            let mut node = LEAF_BEGIN.to_vec();
            node.extend((some.len() as u16).to_le_bytes());
            let mut last = 0;
            for (name, at) in some {
                last = names.len() as u64;
                names.extend_from_slice(name.as_bytes());
                names.resize(last as usize + name_bytes(name), 0);
                node.extend(last.to_le_bytes());
                node.extend(at.to_le_bytes());
                node.extend([0; 24]);
            }
            node.resize(LEAF_BYTES, 0);
            leaves.push((last, self.put(&node)));
            self.write()?;
        }
        let tree = self.tree(leaves)?;
        let heap_data = self.put(&names);
        let mut heap = HEAP_BEGIN.to_vec();
        // 1: nothing in it is free.
        for number in [names.len() as u64, 1, heap_data] {
            heap.extend(number.to_le_bytes());
        }
        let heap = self.put(&heap);
        let mut header = TABLE_BEGIN.to_vec();
        header.extend(tree.to_le_bytes());
        header.extend(heap.to_le_bytes());
        Ok(self.put(&header))
    }

    /// The B-tree over children, each with the heap offset of its last name; where its root is.
    fn tree(&mut self, mut children: Vec<(u64, u64)>) -> io::Result<u64> {
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
                let mut node = NODE_BEGIN.to_vec();
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

/// Why these cannot be the fragments of an event.
fn problem_of(fragments: &[Stored]) -> Option<String> {
    if fragments.len() > FRAGMENTS_MAX {
        return Some(format!("has more than {FRAGMENTS_MAX} fragments"));
    }
    let mut sources: Vec<_> = fragments.iter().map(|it| it.source).collect();
    sources.sort_unstable();
    let twice = sources.windows(2).find(|it| it[0] == it[1])?;
    Some(format!("has source {} twice", twice[0]))
}

/// What of a version is kept.
fn cut(version: &str) -> &str {
    let mut end = version.len().min(VERSION_BYTES_MAX);
    while !version.is_char_boundary(end) {
        end -= 1;
    }
    &version[..end]
}
