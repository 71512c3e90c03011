//! The file of events, written: what the file system takes, whole records only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::about::About;
use super::format::{
    HEAD_MAGIC, INDEX_ENTRY_BYTES, INDEX_HEAD_BYTES, INDEX_MAGIC, Stored, TAIL_BYTES, TAIL_MAGIC,
    append,
};
use crate::disk;

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
    /// Up to this byte the file system has set room aside; all, if it cannot.
    reserved: u64,
}

/// Room is set aside so much at a time.
const RESERVE_BYTES: u64 = 4 << 20;

impl Recorder {
    /// A new file `run-RUN-builder-ID-N.evb`, with the first N that is free.
    ///
    /// # Errors
    ///
    /// The file that cannot be made, and why.
    pub fn create(
        directory: &Path,
        run: u32,
        builder: u16,
        about: &About,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let head = head_of(run, builder, about);
        let mut number = 0;
        loop {
            let name = format!("run-{run:06}-builder-{builder:02}-{number:03}.evb");
            let path = directory.join(name);
            match new_file(&path) {
                Ok(file) => return Self::begin(file, path, head),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err((path, error)),
            }
        }
    }

    fn begin(file: File, path: PathBuf, head: Vec<u8>) -> Result<Self, (PathBuf, io::Error)> {
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
        if let Err(error) = self.append(&self.waiting[..count]) {
            // What was set aside may have gone with what was cut.
            self.reserved = 0;
            return Err(error);
        }
        self.bytes = end;
        self.waiting.drain(..count);
        let left = self.index[self.recorded..].iter();
        self.recorded += left.take_while(|it| it.1 < end).count();
        Ok(())
    }

    /// Writes all of `bytes` behind the records that are there, or nothing.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.bytes);
        let is_longer = |it: std::fs::Metadata| it.len() > self.bytes;
        if written.is_err() && self.file.metadata().is_ok_and(is_longer) {
            // A reader is to find whole records only.
            let _ = self.file.set_len(self.bytes);
        }
        written
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
        self.append(&index)?;
        // What was set aside behind the end is given back.
        self.file.set_len(self.bytes + index.len() as u64)?;
        self.file.sync_data()
    }
}

/// What stands before the records.
fn head_of(run: u32, builder: u16, about: &About) -> Vec<u8> {
    let mut head = Vec::from(HEAD_MAGIC);
    head.extend(run.to_le_bytes());
    head.extend(builder.to_le_bytes());
    head.extend([0; 14]);
    head.extend(crate::wire::crc32c(&head).to_le_bytes());
    about.append(&mut head);
    head
}

fn new_file(path: &Path) -> io::Result<File> {
    // Read only to put it elsewhere.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).open(path)
}
