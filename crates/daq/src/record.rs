//! The file of events. All numbers are little-endian.
//!
//! Source: ours.
//!
//! | part | bytes | what |
//! |---|---|---|
//! | head | 8 | `BWEVENT1` |
//! | | 4 | run |
//! | | 2 | builder |
//! | | 14 | zero |
//! | | 4 | CRC-32C of what is before it in the head |
//! | event, any number | 4 | `EVNT` |
//! | | 4 | fragments that are missing: 0 for a built event |
//! | | 8 | event |
//! | | 8 | bytes of all its fragments with their heads |
//! | | 4 | fragments |
//! | | 4 | CRC-32C of the 28 bytes before it |
//! | fragment of it | 2 | source |
//! | | 2 | zero |
//! | | 4 | CRC-32C of all of the fragment but these 4 bytes |
//! | | 8 | time of the trigger, ns on the manager's clock |
//! | | 8 | bytes of its data |
//! | | | data |
//! | index | 4 | `INDX` |
//! | | 4 | zero |
//! | | 8 | events |
//! | | 16 each | event, and where its record begins |
//! | tail | 8 | where the index begins |
//! | | 4 | CRC-32C of the index |
//! | | 4 | zero |
//! | | 8 | `BWEVEND1` |
//!
//! A builder writes the record of an event before it says that the event is closed. If it is
//! killed, index and tail are not there, the last record may be cut, and all before it is
//! read by going from record to record.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::config::FRAGMENT_BYTES_MAX;
use crate::disk;
use crate::generate::{Generator, scatter};
use crate::wire::{u32_at, u64_at};

const HEAD_MAGIC: &[u8; 8] = b"BWEVENT1";
const TAIL_MAGIC: &[u8; 8] = b"BWEVEND1";
const EVENT_MAGIC: &[u8; 4] = b"EVNT";
const INDEX_MAGIC: &[u8; 4] = b"INDX";
const EVENT_HEAD_BYTES: usize = 32;
const FRAGMENT_HEAD_BYTES: usize = 24;
const TAIL_BYTES: usize = 24;
const INDEX_HEAD_BYTES: usize = 16;
const INDEX_ENTRY_BYTES: usize = 16;

/// A fragment to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its source.
    pub source: u16,
    /// When its event was triggered, in ns.
    pub at_ns: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// A file that is written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    /// What is not in the file yet.
    waiting: Vec<u8>,
    /// Bytes in the file: head and whole records.
    bytes: u64,
    /// Events, and where their records begin; the first `recorded` of them are in the file.
    index: Vec<(u64, u64)>,
    recorded: usize,
    /// Up to this byte the file system has set room aside; all, if it can not.
    reserved: u64,
}

/// Room is set aside so much at a time.
const RESERVE_BYTES: u64 = 4 << 20;

impl Recorder {
    /// A new file `run-RUN-builder-ID-N.evb`, with the first N that is free.
    ///
    /// # Errors
    ///
    /// The file that can not be made, and why.
    pub fn create(directory: &Path, run: u32, builder: u16) -> Result<Self, (PathBuf, io::Error)> {
        let mut number = 0;
        loop {
            let name = format!("run-{run:06}-builder-{builder:02}-{number:03}.evb");
            let path = directory.join(name);
            match new_file(&path) {
                Ok(file) => return Self::begin(file, path, run, builder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err((path, error)),
            }
        }
    }

    fn begin(
        file: File,
        path: PathBuf,
        run: u32,
        builder: u16,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let mut head = Vec::from(HEAD_MAGIC);
        head.extend(run.to_le_bytes());
        head.extend(builder.to_le_bytes());
        head.extend([0; 14]);
        head.extend(crate::wire::crc32c(&head).to_le_bytes());
        let mut recorder = Self {
            path,
            file,
            bytes: 0,
            waiting: head,
            index: Vec::new(),
            recorded: 0,
            reserved: 0,
        };
        match recorder.write() {
            Ok(()) => Ok(recorder),
            Err(error) => {
                // Nobody has any use for an empty file.
                let _ = std::fs::remove_file(&recorder.path);
                Err((recorder.path, error))
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Events in the file.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.recorded as u64
    }

    /// Events that were added and are not in the file, in the order in which they were added.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        self.index[self.recorded..].iter().map(|&(event, _)| event)
    }

    /// Bytes that are not in the file.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// One more event; it is in the file after [`Recorder::write`].
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        let start = self.waiting.len() as u64;
        self.index.push((event, self.bytes + start));
        append(&mut self.waiting, event, missing, fragments);
    }

    /// Writes what was added. After an error what the file took whole is in it, and the rest waits
    /// for the next time. If the file was removed, all of it is written again.
    ///
    /// # Errors
    ///
    /// The file system is full, or worse.
    pub fn write(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if !disk::has_name(&self.file)? {
            self.begin_again()?;
        }
        if self.write_first(self.waiting.len()).is_ok() {
            return Ok(());
        }
        // One record at a time: some may fit.
        while let Some(end) = self.end_of_first() {
            self.write_first(end)?;
        }
        Ok(())
    }

    /// Where the first record that waits ends, in what waits; the head ends with the first record.
    fn end_of_first(&self) -> Option<usize> {
        let next = self.index.get(self.recorded + 1);
        let end = next.map_or(self.waiting.len(), |it| (it.1 - self.bytes) as usize);
        (end > 0).then_some(end)
    }

    /// Writes the first `count` bytes that wait, which end with a record.
    fn write_first(&mut self, count: usize) -> io::Result<()> {
        let end = self.bytes + count as u64;
        self.set_room_aside(end)?;
        let (_, written) = disk::write_at(&self.file, self.bytes, &self.waiting[..count]);
        if let Err(error) = written {
            // A reader is to find whole records only.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes = end;
        self.waiting.drain(..count);
        let left = self.index[self.recorded..].iter();
        self.recorded += left.take_while(|it| it.1 < end).count();
        Ok(())
    }

    /// Before records up to byte `end` are written: room for them, and for index and tail behind them.
    fn set_room_aside(&mut self, end: u64) -> io::Result<()> {
        let index = INDEX_HEAD_BYTES + self.index.len() * INDEX_ENTRY_BYTES + TAIL_BYTES;
        let needed = end + index as u64;
        if needed <= self.reserved {
            return Ok(());
        }
        for wanted in [needed + RESERVE_BYTES, needed] {
            match disk::reserve(&self.file, wanted) {
                Ok(true) => self.reserved = wanted,
                Ok(false) => self.reserved = u64::MAX,
                // Less may do.
                Err(_) if wanted > needed => continue,
                Err(error) => return Err(error),
            }
            break;
        }
        Ok(())
    }

    /// The file has lost its name, and all that is in it goes with its descriptor: puts it into a new one.
    fn begin_again(&mut self) -> io::Result<()> {
        let new = new_file(&self.path)?;
        let mut from = &self.file;
        from.rewind()?;
        let copied = io::copy(&mut from.take(self.bytes), &mut &new);
        if let Err(error) = copied {
            let _ = std::fs::remove_file(&self.path);
            return Err(error);
        }
        (self.file, self.reserved) = (new, 0);
        Ok(())
    }

    /// Gives up what waits; how many events that were.
    pub fn give_up(&mut self) -> u64 {
        let lost = self.index.len() - self.recorded;
        self.index.truncate(self.recorded);
        self.waiting.clear();
        lost as u64
    }

    /// Writes index and tail, and has all of it on the disk.
    ///
    /// # Errors
    ///
    /// As [`Recorder::write`].
    pub fn finish(mut self) -> io::Result<()> {
        self.write()?;
        let mut index = Vec::from(INDEX_MAGIC);
        index.extend([0; 4]);
        index.extend(self.events().to_le_bytes());
        for (event, at) in &self.index {
            index.extend(event.to_le_bytes());
            index.extend(at.to_le_bytes());
        }
        let crc = crate::wire::crc32c(&index);
        index.extend(self.bytes.to_le_bytes());
        index.extend(crc.to_le_bytes());
        index.extend([0; 4]);
        index.extend(TAIL_MAGIC);
        if !disk::has_name(&self.file)? {
            self.begin_again()?;
        }
        let (_, written) = disk::write_at(&self.file, self.bytes, &index);
        if written.is_err() {
            // Without an index, but whole records.
            let _ = self.file.set_len(self.bytes);
        }
        written?;
        // What was set aside behind the end is given back.
        self.file.set_len(self.bytes + index.len() as u64)?;
        self.file.sync_data()
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    // Read only to put it elsewhere.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).open(path)
}

/// Appends the record of an event.
pub fn append(into: &mut Vec<u8>, event: u64, missing: u32, fragments: &[Stored]) {
    let start = into.len();
    let bytes: usize = fragments
        .iter()
        .map(|it| FRAGMENT_HEAD_BYTES + it.data.len())
        .sum();
    into.reserve(EVENT_HEAD_BYTES + bytes);
    into.extend(EVENT_MAGIC);
    into.extend(missing.to_le_bytes());
    into.extend(event.to_le_bytes());
    into.extend((bytes as u64).to_le_bytes());
    let count = u32::try_from(fragments.len()).unwrap_or(u32::MAX);
    into.extend(count.to_le_bytes());
    let crc = crate::wire::crc32c(&into[start..]);
    into.extend(crc.to_le_bytes());
    for fragment in fragments {
        let head = fragment_head(fragment);
        into.extend(head);
        into.extend(&fragment.data);
    }
}

fn fragment_head(fragment: &Stored) -> [u8; FRAGMENT_HEAD_BYTES] {
    let mut head = [0; FRAGMENT_HEAD_BYTES];
    head[..2].copy_from_slice(&fragment.source.to_le_bytes());
    head[8..16].copy_from_slice(&fragment.at_ns.to_le_bytes());
    head[16..].copy_from_slice(&(fragment.data.len() as u64).to_le_bytes());
    let crc = fragment_crc(&head, &fragment.data);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    head
}

fn fragment_crc(head: &[u8; FRAGMENT_HEAD_BYTES], data: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[..4]);
    digest.update(&head[8..]);
    digest.update(data);
    digest.finalize() as u32
}

/// An event as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The event.
    pub event: u64,
    /// Fragments that were missing.
    pub missing: u32,
    /// The others.
    pub fragments: Vec<Stored>,
}

/// Why the records end.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file can not be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is none of ours.
    #[error("no file of events: {0}")]
    Foreign(&'static str),
    /// A record ends with the file: its writer was stopped.
    #[error("the record at byte {0} is cut")]
    Cut(u64),
    /// A record is spoilt.
    #[error("the record at byte {at}: {what}")]
    Spoilt {
        /// Where it begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// A file that is read, record by record.
#[derive(Debug)]
pub struct Reading<R> {
    input: R,
    len_bytes: u64,
    at: u64,
    /// The run.
    pub run: u32,
    /// The builder.
    pub builder: u16,
}

impl Reading<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It can not be read, or is none of ours.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = File::open(path)?;
        let len_bytes = file.metadata()?.len();
        Self::new(BufReader::with_capacity(1 << 20, file), len_bytes)
    }
}

impl<R: Read> Reading<R> {
    /// Reads what has `len_bytes`.
    ///
    /// # Errors
    ///
    /// It can not be read, or is none of ours.
    pub fn new(mut input: R, len_bytes: u64) -> Result<Self, RecordError> {
        let mut head = [0; 32];
        if len_bytes < 32 {
            return Err(RecordError::Foreign("shorter than its head"));
        }
        input.read_exact(&mut head)?;
        if &head[..8] != HEAD_MAGIC {
            return Err(RecordError::Foreign("it does not begin with BWEVENT1"));
        }
        if crate::wire::crc32c(&head[..28]) != u32_at(&head, 28) {
            return Err(RecordError::Foreign("its head is spoilt"));
        }
        Ok(Self {
            input,
            len_bytes,
            at: 32,
            run: u32_at(&head, 8),
            builder: u16::from_le_bytes([head[12], head[13]]),
        })
    }

    /// Where the next record begins.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    fn head(&mut self, start: u64) -> Result<Option<[u8; EVENT_HEAD_BYTES]>, RecordError> {
        if start == self.len_bytes {
            return Ok(None);
        }
        let mut head = [0; EVENT_HEAD_BYTES];
        self.exact(start, &mut head[..4])?;
        if &head[..4] == INDEX_MAGIC {
            return Ok(None);
        }
        let spoilt = |what| RecordError::Spoilt { at: start, what };
        if &head[..4] != EVENT_MAGIC {
            return Err(spoilt("it does not begin with EVNT"));
        }
        self.exact(start, &mut head[4..])?;
        if crate::wire::crc32c(&head[..28]) != u32_at(&head, 28) {
            return Err(spoilt("the check code of its head is wrong"));
        }
        Ok(Some(head))
    }

    fn exact(&mut self, start: u64, into: &mut [u8]) -> Result<(), RecordError> {
        if self.len_bytes - self.at < into.len() as u64 {
            return Err(RecordError::Cut(start));
        }
        self.input.read_exact(into)?;
        self.at += into.len() as u64;
        Ok(())
    }

    /// The next event; `None` at the index, or where a writer was stopped between two records.
    ///
    /// # Errors
    ///
    /// The record is cut or spoilt, or can not be read.
    pub fn next_event(&mut self) -> Result<Option<Recorded>, RecordError> {
        let start = self.at;
        let Some(head) = self.head(start)? else {
            return Ok(None);
        };
        let spoilt = |what| RecordError::Spoilt { at: start, what };
        let end = self.at.checked_add(u64_at(&head, 16));
        let end = end.ok_or(spoilt("it is impossibly long"))?;
        let mut fragments = Vec::new();
        for _ in 0..u32_at(&head, 24) {
            let (head, bytes) = self.fragment_head(start)?;
            fragments.push(self.data(start, &head, bytes)?);
        }
        if self.at != end {
            return Err(spoilt("its fragments are not as long as it"));
        }
        Ok(Some(Recorded {
            event: u64_at(&head, 8),
            missing: u32_at(&head, 4),
            fragments,
        }))
    }

    /// The head of the next fragment in the record at `start`, and the bytes of its data, which
    /// are there.
    fn fragment_head(
        &mut self,
        start: u64,
    ) -> Result<([u8; FRAGMENT_HEAD_BYTES], u64), RecordError> {
        let mut head = [0; FRAGMENT_HEAD_BYTES];
        self.exact(start, &mut head)?;
        let bytes = u64_at(&head, 16);
        if bytes > FRAGMENT_BYTES_MAX {
            let what = "a fragment of more than 64 MiB";
            return Err(RecordError::Spoilt { at: start, what });
        }
        if bytes > self.len_bytes - self.at {
            return Err(RecordError::Cut(start));
        }
        Ok((head, bytes))
    }

    fn data(
        &mut self,
        start: u64,
        head: &[u8; FRAGMENT_HEAD_BYTES],
        bytes: u64,
    ) -> Result<Stored, RecordError> {
        let mut data = vec![0; bytes as usize];
        self.exact(start, &mut data)?;
        if fragment_crc(head, &data) != u32_at(head, 4) {
            let what = "the check code of a fragment is wrong";
            return Err(RecordError::Spoilt { at: start, what });
        }
        Ok(Stored {
            source: u16::from_le_bytes([head[0], head[1]]),
            at_ns: u64_at(head, 8),
            data,
        })
    }
}

impl<R: Read + Seek> Reading<BufReader<R>> {
    /// Goes on with the record that begins at `at`.
    ///
    /// # Errors
    ///
    /// The file ends before, or can not be read.
    pub fn go_to(&mut self, at: u64) -> Result<(), RecordError> {
        if at > self.len_bytes {
            return Err(RecordError::Cut(at));
        }
        // What is in the buffer is not read again. Files are shorter than 2^63.
        self.input.seek_relative(at.wrapping_sub(self.at) as i64)?;
        self.at = at;
        Ok(())
    }

    /// The fragment of `source` in the record that begins at `at`, if it has one.
    ///
    /// # Errors
    ///
    /// The record is cut or spoilt, or can not be read.
    pub fn fragment(&mut self, at: u64, source: u16) -> Result<Option<Stored>, RecordError> {
        self.go_to(at)?;
        let Some(head) = self.head(at)? else {
            let what = "it is none";
            return Err(RecordError::Spoilt { at, what });
        };
        for _ in 0..u32_at(&head, 24) {
            let (head, bytes) = self.fragment_head(at)?;
            if u16::from_le_bytes([head[0], head[1]]) == source {
                return self.data(at, &head, bytes).map(Some);
            }
            self.go_to(self.at + bytes)?;
        }
        Ok(None)
    }
}

/// The record of an event at the beginning of `bytes`, and how many bytes it is; `None` if it
/// is not all there.
///
/// # Errors
///
/// It is none.
pub fn parse(bytes: &[u8]) -> Result<Option<(Recorded, usize)>, RecordError> {
    let mut reading = Reading {
        input: bytes,
        len_bytes: bytes.len() as u64,
        at: 0,
        run: 0,
        builder: 0,
    };
    let whole = match reading.head(0) {
        Ok(Some(head)) => (EVENT_HEAD_BYTES as u64).saturating_add(u64_at(&head, 16)),
        Ok(None) if bytes.is_empty() => return Ok(None),
        Ok(None) => {
            let what = "an index where an event should be";
            return Err(RecordError::Spoilt { at: 0, what });
        }
        Err(RecordError::Cut(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    if whole > bytes.len() as u64 {
        return Ok(None);
    }
    (reading.input, reading.at) = (bytes, 0);
    let event = reading.next_event()?;
    Ok(event.map(|it| (it, whole as usize)))
}

/// Events, and where their records begin: what the index says, and without one all records
/// before the first that is cut or spoilt.
///
/// # Errors
///
/// The file can not be read, or is none of ours.
pub fn places(path: &Path) -> Result<Vec<(u64, u64)>, RecordError> {
    if let Some(index) = read_index(path)? {
        return Ok(index);
    }
    let mut reading = Reading::open(path)?;
    let mut places = Vec::new();
    loop {
        let at = reading.at();
        match reading.next_event() {
            Ok(Some(event)) => places.push((event.event, at)),
            Ok(None) | Err(RecordError::Cut(_) | RecordError::Spoilt { .. }) => return Ok(places),
            Err(error) => return Err(error),
        }
    }
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Checked {
    /// The run.
    pub run: u32,
    /// The builder.
    pub builder: u16,
    /// Events that were built.
    pub built: u64,
    /// Events that were given up, with what was there.
    pub incomplete: u64,
    /// Fragments.
    pub fragments: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// A sum over all events, of their numbers, and of times and bytes of their fragments:
    /// whatever the order and however they are shared among files, the sum of the files'
    /// sums (modulo 2^64) is that of another recording of the same events.
    pub contents: u64,
    /// Fragments that do not hold what the generator makes, if that was asked for.
    pub mismatched: u64,
    /// Whether the index is there and right.
    pub indexed: bool,
    /// Why the records end before the index, if they do.
    pub problem: Option<RecordError>,
    /// All events, in the order of the file.
    pub events: Vec<u64>,
}

/// What an event adds to [`Checked::contents`].
fn contents_of(event: &Recorded) -> u64 {
    let mut sum = scatter(event.event ^ scatter(u64::from(event.missing)));
    for fragment in &event.fragments {
        let head = fragment_head(fragment);
        let code = u64::from(u32_at(&head, 4)) | u64::from(fragment.source) << 32;
        let sized = scatter(code ^ scatter(fragment.data.len() as u64));
        sum = sum.wrapping_add(scatter(sized ^ scatter(event.event)));
    }
    sum
}

/// Reads a whole file; with a generator, verifies what is in the fragments.
///
/// # Errors
///
/// It can not be read, or is none of ours.
pub fn check(path: &Path, generator: Option<&Generator>) -> Result<Checked, RecordError> {
    let mut reading = Reading::open(path)?;
    let mut checked = Checked {
        run: reading.run,
        builder: reading.builder,
        ..Checked::default()
    };
    let mut index = Vec::new();
    loop {
        let at = reading.at();
        let event = match reading.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(problem) => {
                checked.problem = Some(problem);
                return Ok(checked);
            }
        };
        index.push((event.event, at));
        checked.events.push(event.event);
        checked.built += u64::from(event.missing == 0);
        checked.incomplete += u64::from(event.missing > 0);
        checked.contents = checked.contents.wrapping_add(contents_of(&event));
        for fragment in &event.fragments {
            checked.fragments += 1;
            checked.bytes += fragment.data.len() as u64;
            let good = generator.is_none_or(|it| {
                it.size(fragment.source, event.event) == fragment.data.len() as u64
                    && it.verify(fragment.source, event.event, 0, &fragment.data)
            });
            checked.mismatched += u64::from(!good);
        }
    }
    checked.indexed = match read_index(path)? {
        Some(found) => {
            let same = found == index;
            if !same {
                checked.problem =
                    Some(RecordError::Foreign("its index is not that of its records"));
            }
            same
        }
        None => false,
    };
    Ok(checked)
}

/// The index: events, and where their records begin; `None` if there is none that is whole.
///
/// # Errors
///
/// The file can not be read.
pub fn read_index(path: &Path) -> Result<Option<Vec<(u64, u64)>>, RecordError> {
    let file = File::open(path)?;
    let len_bytes = file.metadata()?.len();
    index_in(file, len_bytes)
}

/// As [`read_index`], of anything that has `len_bytes`.
///
/// # Errors
///
/// It can not be read.
pub fn index_in(
    mut file: impl Read + Seek,
    len_bytes: u64,
) -> Result<Option<Vec<(u64, u64)>>, RecordError> {
    let Some(tail_at) = len_bytes.checked_sub(TAIL_BYTES as u64) else {
        return Ok(None);
    };
    let mut tail = [0; TAIL_BYTES];
    file.seek(SeekFrom::Start(tail_at))?;
    file.read_exact(&mut tail)?;
    let start = u64_at(&tail, 0);
    if &tail[16..] != TAIL_MAGIC || start > tail_at {
        return Ok(None);
    }
    let mut index = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(tail_at - start).read_to_end(&mut index)?;
    let whole = index.len() >= 16 && (index.len() - 16) % 16 == 0;
    if !whole || crate::wire::crc32c(&index) != u32_at(&tail, 8) {
        return Ok(None);
    }
    let entries = index[16..].chunks_exact(16);
    Ok(Some(
        entries.map(|it| (u64_at(it, 0), u64_at(it, 8))).collect(),
    ))
}

#[cfg(test)]
mod tests;
