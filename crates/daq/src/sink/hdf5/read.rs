//! HDF5 files of events, read: those that this library writes, and no others. The file is not trusted: what it
//! says is checked before it is used.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::format::{
    NAMES_MAX, NOWHERE, OBJECT_BEGIN, OBJECT_HEAD_BYTES, SIGNATURE, SUPERBLOCK_BYTES,
    SUPERBLOCK_VERSION, compare_names, lookup3,
};
use super::parse::{Object, text_in};
use super::source::{Hdf5Error, Place, Source};
use super::table::{Entry, Leaf, Table};
use crate::record::{About, Recorded, Stored};
use crate::wire::{crc32c, u32_at, u64_at};

/// An HDF5 file that [`super::Hdf5Writer`] has written, read event by event, or an event by its number. Of
/// HDF5 it knows what that writes: other files are refused.
///
/// What it gives is what was written: what is damaged is an error, and says at which byte. At most one event is in memory,
/// and no more of it than the file has bytes.
#[derive(Debug)]
pub struct Hdf5Reading<R> {
    source: Source<R>,
    table: Table,
    /// The node of names that was used last.
    leaf: Option<Leaf>,
    /// Which event is next, in the order of the table.
    next: u64,
    /// The last one that was read.
    last: Option<u64>,
    /// What the file says of its run; `None` if that was not known when it was made.
    pub about: Option<About>,
    /// The run.
    pub run: u32,
    /// The builder.
    pub builder: u16,
}

/// The group of an event: its fragments are not read.
struct Group {
    place: Place,
    missing: u32,
    /// Sources, and where the object headers of their fragments are.
    fragments: Vec<(u16, u64)>,
}

impl Hdf5Reading<File> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, is none of ours, or is cut or damaged.
    pub fn open(path: &Path) -> Result<Self, Hdf5Error> {
        let file = File::open(path)?;
        let len_bytes = file.metadata()?.len();
        Self::new(file, len_bytes)
    }
}

impl<R: Read + Seek> Hdf5Reading<R> {
    /// Reads what has `len_bytes`.
    ///
    /// # Errors
    ///
    /// As [`Hdf5Reading::open`].
    pub fn new(input: R, len_bytes: u64) -> Result<Self, Hdf5Error> {
        let mut source = Source::new(input, len_bytes);
        let root_at = root_of(&mut source)?;
        let (place, bytes) = object(&mut source, root_at, "the root group")?;
        let wrong = |problem| place.spoilt(problem);
        let root = Object::parse(messages(&bytes)).map_err(wrong)?;
        let run = root.number("run", 4).map_err(wrong)? as u32;
        let builder = root.number("builder", 2).map_err(wrong)? as u16;
        let events = root.number("events", 8).map_err(wrong)?;
        let table_at = root.link("events").map_err(wrong)?;
        let table = Table::open(&mut source, table_at, events)?;
        let about = match root.has("seed") {
            false => None,
            true => Some(About {
                seed: root.number("seed", 8).map_err(wrong)?,
                made_unix_ns: root.number("made_unix_ns", 8).map_err(wrong)?,
                clock_unix_ns: root.number("clock_unix_ns", 8).map_err(wrong)?,
                version: root.text("version").map_err(wrong)?,
                config: config(&mut source, root.link("config").map_err(wrong)?)?,
            }),
        };
        source.begin_pass();
        Ok(Self {
            source,
            table,
            leaf: None,
            next: 0,
            last: None,
            about,
            run,
            builder,
        })
    }

    /// How many events are in the file.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.table.events()
    }

    /// The next event; `None` at the end. They come in the order of the table: in that of their numbers, but those of more
    /// than 12 digits stand where their text does in the alphabet.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something of the event is damaged. After that it goes on with the next event
    /// that can be found.
    pub fn next_event(&mut self) -> Result<Option<Recorded>, Hdf5Error> {
        if self.next >= self.events() {
            return Ok(None);
        }
        let place = self.next;
        let leaf = place / NAMES_MAX as u64;
        // If its node is damaged, none of the events in it is found.
        self.next = (leaf + 1).saturating_mul(NAMES_MAX as u64);
        let (entry, leaf) = self.entry(place)?;
        self.next = place + 1;
        let is_before = |it| compare_names(it, entry.event).is_lt();
        if !self.last.is_none_or(is_before) {
            return Err(leaf
                .spoilt("the events are not in their order")
                .of(entry.event));
        }
        let event = self.recorded(entry)?;
        self.last = Some(entry.event);
        Ok(Some(event))
    }

    /// The event of this number, found by the tree of the table; `None` if it is not in the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something is damaged of the event or on the way to it.
    pub fn event(&mut self, number: u64) -> Result<Option<Recorded>, Hdf5Error> {
        let left_bytes = self.source.begin_pass();
        let found = self.find(number);
        self.source.resume_pass(left_bytes);
        found
    }

    fn find(&mut self, number: u64) -> Result<Option<Recorded>, Hdf5Error> {
        let Some(leaf) = self.table.leaf_with(&mut self.source, number)? else {
            return Ok(None);
        };
        let is_before = |it| compare_names(it, number).is_lt();
        let in_leaf = leaf.entries.partition_point(|it| is_before(it.event));
        if let Some(&entry) = leaf.entries.get(in_leaf).filter(|it| it.event == number) {
            return self.recorded(entry).map(Some);
        }
        let behind = leaf.number * NAMES_MAX as u64 + in_leaf as u64;
        self.leaf = Some(leaf);
        // The names have no check code: those before and behind it are right if their groups are theirs.
        if let Some(before) = behind.checked_sub(1) {
            self.verify(before)?;
        }
        if behind < self.events() {
            self.verify(behind)?;
        }
        Ok(None)
    }

    /// Whether what the table says at a place leads to the group of that event.
    fn verify(&mut self, place: u64) -> Result<(), Hdf5Error> {
        let (entry, _) = self.entry(place)?;
        self.group(entry).map(drop)
    }

    /// What the table says at a place, which is in it, and the node that says it.
    fn entry(&mut self, place: u64) -> Result<(Entry, Place), Hdf5Error> {
        let number = place / NAMES_MAX as u64;
        let leaf = match self.leaf.take().filter(|it| it.number == number) {
            Some(leaf) => leaf,
            None => self.table.leaf(&mut self.source, number)?,
        };
        let leaf = self.leaf.insert(leaf);
        let entry = leaf.entries.get((place % NAMES_MAX as u64) as usize);
        let entry = entry.ok_or_else(|| leaf.place.spoilt("it lacks a name"))?;
        Ok((*entry, leaf.place))
    }

    fn recorded(&mut self, entry: Entry) -> Result<Recorded, Hdf5Error> {
        let event = entry.event;
        let group = self.group(entry)?;
        let mut left_bytes = self.source.len_bytes();
        let mut fragments = Vec::with_capacity(group.fragments.len());
        for (source, at) in group.fragments {
            let fragment = fragment(&mut self.source, at, source).map_err(|it| it.of(event))?;
            let left = left_bytes.checked_sub(fragment.data.len() as u64);
            left_bytes = left.ok_or_else(|| {
                let problem = "its fragments have more bytes than the file";
                group.place.spoilt(problem).of(event)
            })?;
            fragments.push(fragment);
        }
        Ok(Recorded {
            event,
            missing: group.missing,
            damaged: 0,
            fragments,
        })
    }

    /// The group of the event to which the table says that an entry leads.
    fn group(&mut self, entry: Entry) -> Result<Group, Hdf5Error> {
        let run = self.run;
        let read = object(&mut self.source, entry.at, "the group of an event");
        let (place, bytes) = read.map_err(|it| it.of(entry.event))?;
        let group = group_in(&bytes, run, entry.event);
        let (missing, fragments) =
            group.map_err(|problem| place.spoilt(problem).of(entry.event))?;
        Ok(Group {
            place,
            missing,
            fragments,
        })
    }
}

/// Where the object header of the root group is, as the superblock says.
fn root_of<R: Read + Seek>(source: &mut Source<R>) -> Result<u64, Hdf5Error> {
    let place = Place {
        at: 0,
        bytes: SUPERBLOCK_BYTES as u64,
        object: "the superblock",
    };
    if source.len_bytes() < place.bytes {
        return Err(Hdf5Error::Foreign("it is shorter than a superblock"));
    }
    let bytes = source.read(place)?;
    if bytes[..8] == [0; 8] {
        let problem =
            "it begins with zeros: its writer was stopped; convert the recording beside it";
        return Err(Hdf5Error::Foreign(problem));
    }
    if bytes[..8] != SIGNATURE[..] {
        return Err(Hdf5Error::Foreign("it does not begin as HDF5 files do"));
    }
    if bytes[8..12] != SUPERBLOCK_VERSION[..] {
        return Err(Hdf5Error::Foreign(
            "its superblock is none that this library writes",
        ));
    }
    if lookup3(&bytes[..44]) != u32_at(&bytes, 44) {
        return Err(place.spoilt("its check code is wrong"));
    }
    let (base, extension) = (u64_at(&bytes, 12), u64_at(&bytes, 20));
    if (base, extension) != (0, NOWHERE) {
        return Err(Hdf5Error::Foreign(
            "its superblock is none that this library writes",
        ));
    }
    let (end, there) = (u64_at(&bytes, 28), source.len_bytes());
    if end > there {
        return Err(place.spoilt(format!(
            "the file is cut: it had {end} bytes, and has {there}"
        )));
    }
    Ok(u64_at(&bytes, 36))
}

/// The object header at this place, whose check code is right.
fn object<R: Read + Seek>(
    source: &mut Source<R>,
    at: u64,
    object: &'static str,
) -> Result<(Place, Vec<u8>), Hdf5Error> {
    let head_place = Place {
        at,
        bytes: OBJECT_HEAD_BYTES as u64,
        object,
    };
    let head = source.read(head_place)?;
    if head[..6] != OBJECT_BEGIN[..] {
        return Err(head_place.spoilt("no object header begins there that this library writes"));
    }
    let place = Place {
        bytes: (OBJECT_HEAD_BYTES + 4) as u64 + u64::from(u32_at(&head, 6)),
        ..head_place
    };
    let bytes = source.read(place)?;
    let code_at = bytes.len() - 4;
    match lookup3(&bytes[..code_at]) == u32_at(&bytes, code_at) {
        true => Ok((place, bytes)),
        false => Err(place.spoilt("its check code is wrong")),
    }
}

/// The messages in the bytes of an object header.
fn messages(bytes: &[u8]) -> &[u8] {
    &bytes[OBJECT_HEAD_BYTES..bytes.len() - 4]
}

/// How many fragments are missing, and the sources of the others with the places of their object headers.
fn group_in(bytes: &[u8], run: u32, event: u64) -> Result<(u32, Vec<(u16, u64)>), String> {
    let group = Object::parse(messages(bytes))?;
    let (found_run, found) = (group.number("run", 4)?, group.number("event", 8)?);
    if (found_run, found) != (u64::from(run), event) {
        return Err(format!("it is that of event {found} of run {found_run}"));
    }
    let missing = group.number("missing", 4)? as u32;
    let is_complete = group.number("complete", 1)?;
    if is_complete != u64::from(missing == 0) {
        return Err(format!(
            "it lacks {missing} fragments, and complete is {is_complete}"
        ));
    }
    let mut fragments = Vec::with_capacity(group.links.len());
    let mut links = group.links.iter();
    for source in group.shorts("sources")? {
        let link = links.next().filter(|it| it.0 == format!("source-{source}"));
        let link = link.ok_or_else(|| format!("it has no link source-{source} in its place"))?;
        fragments.push((source, link.1));
    }
    match links.next() {
        None => Ok((missing, fragments)),
        Some(link) => Err(format!("its sources do not name its link {}", link.0)),
    }
}

/// The fragment whose object header is at this place.
fn fragment<R: Read + Seek>(
    source: &mut Source<R>,
    at: u64,
    number: u16,
) -> Result<Stored, Hdf5Error> {
    let (place, bytes) = object(source, at, "a fragment")?;
    let wrong = |problem| place.spoilt(problem);
    let dataset = Object::parse(messages(&bytes)).map_err(wrong)?;
    let found = dataset.number("source", 2).map_err(wrong)?;
    if found != u64::from(number) {
        return Err(wrong(format!("it is of source {found}, not {number}")));
    }
    let range = dataset.byte_list().map_err(wrong)?;
    Ok(Stored {
        source: number,
        at_ns: dataset.number("time_ns", 8).map_err(wrong)?,
        data: values(source, range, "the bytes of a fragment", (place, &dataset))?,
    })
}

/// The text of the configuration, whose object header is at this place.
fn config<R: Read + Seek>(source: &mut Source<R>, at: u64) -> Result<String, Hdf5Error> {
    let (place, bytes) = object(source, at, "the configuration")?;
    let wrong = |problem| place.spoilt(problem);
    let dataset = Object::parse(messages(&bytes)).map_err(wrong)?;
    let range = dataset.text_bytes().map_err(wrong)?;
    let object = "the text of the configuration";
    let text = text_in(&values(source, range, object, (place, &dataset))?);
    text.ok_or_else(|| wrong("it is no text".to_owned()))
}

/// The bytes of a dataset, verified.
fn values<R: Read + Seek>(
    source: &mut Source<R>,
    (at, bytes): (u64, u64),
    object: &'static str,
    (dataset_place, dataset): (Place, &Object<'_>),
) -> Result<Vec<u8>, Hdf5Error> {
    let code = dataset.number("crc32c", 4);
    let code = code.map_err(|problem| dataset_place.spoilt(problem))?;
    let place = Place { at, bytes, object };
    let values = match bytes {
        0 => Vec::new(),
        _ => source.read(place)?,
    };
    match u64::from(crc32c(&values)) == code {
        true => Ok(values),
        false => Err(place.spoilt("its check code is wrong")),
    }
}
