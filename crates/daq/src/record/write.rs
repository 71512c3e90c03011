//! The file of events, written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::format::{HEAD_MAGIC, INDEX_MAGIC, Stored, TAIL_MAGIC, append};

/// A file that is written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    waiting: Vec<u8>,
    bytes: u64,
    index: Vec<(u64, u64)>,
}

impl Recorder {
    /// A new file `run-RUN-builder-ID-N.evb`, with the first N that is free.
    ///
    /// # Errors
    ///
    /// The file that can not be made, and why.
    pub fn create(directory: &Path, run: u32, builder: u16) -> Result<Self, (String, io::Error)> {
        let mut number = 0;
        loop {
            let name = format!("run-{run:06}-builder-{builder:02}-{number:03}.evb");
            let path = directory.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Self::begin(file, path, run, builder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err((path.display().to_string(), error)),
            }
        }
    }

    fn begin(
        file: File,
        path: PathBuf,
        run: u32,
        builder: u16,
    ) -> Result<Self, (String, io::Error)> {
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
        };
        match recorder.write() {
            Ok(()) => Ok(recorder),
            Err(error) => Err((recorder.path.display().to_string(), error)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.index.len() as u64
    }

    /// One more event; it is in the file after [`Recorder::write`].
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        let start = self.waiting.len() as u64;
        self.index.push((event, self.bytes + start));
        append(&mut self.waiting, event, missing, fragments);
    }

    /// Writes what was added.
    ///
    /// # Errors
    ///
    /// The disk is full, or worse.
    pub fn write(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.waiting)?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
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
        self.file.write_all(&index)?;
        self.file.sync_data()
    }
}
