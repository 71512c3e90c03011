//! Sinks: what a builder does with events that are built or given up.

mod counts;
mod error;
mod hand_over;
pub mod hdf5;

use std::path::Path;
use std::time::Instant;

use crate::clock::Clock;
use crate::config::{Config, SinkKind};
use crate::disk;
use crate::record::{About, Recorder, Stored};
use crate::signals;

pub use counts::SinkCounts;
pub use error::SinkError;
use hand_over::HandOver;
pub(crate) use hand_over::{GREETING_BYTES, MAGIC, MESSAGE_BYTES_MAX, name_of};
use hdf5::Hdf5Writer;

/// How long a consumer has for the last events of a run that does not wait for it.
const LAST_EVENTS: std::time::Duration = std::time::Duration::from_millis(500);

/// Where a builder's events go.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere: they were verified.
    Discard,
    /// Into files.
    File(Box<Files>),
    /// To a consumer.
    HandOver(Box<HandOver>),
}

impl Sink {
    /// The sink of a builder in a run.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or the name is taken.
    pub fn open(config: &Config, run: u32, builder: u16, clock: &Clock) -> Result<Self, SinkError> {
        match &config.sink {
            SinkKind::Discard => Ok(Self::Discard),
            SinkKind::File { directory, hdf5 } => {
                let files =
                    Files::create(directory, *hdf5, (run, builder), &About::now(config, clock))?;
                Ok(Self::File(Box::new(files)))
            }
            SinkKind::HandOver { .. } => {
                let made = HandOver::open(config, run, builder)?;
                Ok(Self::HandOver(Box::new(made)))
            }
        }
    }

    /// What the event log should tell of it.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Discard => None,
            Self::File(file) => Some(format!("records in {}", file.names())),
            Self::HandOver(queue) => Some(format!("hands events over at {}", queue.name())),
        }
    }

    /// The file of events that is written.
    #[must_use]
    pub fn recording(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file.recorder.path()),
            _ => None,
        }
    }

    /// One more event.
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        match self {
            Self::Discard => {}
            Self::File(file) => file.add(event, missing, fragments),
            Self::HandOver(queue) => queue.add(event, missing, fragments),
        }
    }

    /// Writes or sends what it can. What a file system does not take waits for the next time.
    ///
    /// # Errors
    ///
    /// The disk is full, or worse.
    pub fn work(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Discard => Ok(()),
            Self::File(file) => file.write(),
            Self::HandOver(queue) => Ok(queue.work()?),
        }
    }

    /// How many of these events, in the order in which they were added, are where they should be
    /// and may be called closed.
    #[must_use]
    pub fn settled(&self, closed: &[u64]) -> usize {
        let waits = match self {
            Self::Discard => None,
            Self::File(file) => file.first_awaited(),
            Self::HandOver(queue) => queue.first_awaited(),
        };
        let at = waits.and_then(|event| closed.iter().position(|&it| it == event));
        at.unwrap_or(closed.len())
    }

    /// No more events come in this run. What `waits` for a consumer has a little time.
    pub fn end(&mut self, waits: bool) {
        if let Self::HandOver(queue) = self {
            let now = Instant::now();
            queue.end_by(if waits { now + LAST_EVENTS } else { now });
        }
    }

    /// Whether it has to be asked again soon.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.sums().waiting > 0
    }

    /// What became of events.
    #[must_use]
    pub fn sums(&self) -> SinkCounts {
        match self {
            Self::Discard => SinkCounts::default(),
            Self::File(file) => file.sums(),
            Self::HandOver(queue) => queue.sums(),
        }
    }

    /// Gives up what the file system does not take: it counts as dropped.
    pub fn give_up(&mut self) {
        if let Self::File(file) = self {
            file.dropped += file.recorder.give_up();
        }
    }

    /// The run is over.
    ///
    /// # Errors
    ///
    /// As [`Sink::work`].
    pub fn finish(self) -> Result<(), SinkError> {
        match self {
            Self::Discard | Self::HandOver(_) => Ok(()),
            Self::File(file) => file.finish(),
        }
    }
}

/// The file of events of a builder, and an HDF5 file beside it if that is wanted.
#[derive(Debug)]
pub struct Files {
    recorder: Recorder,
    hdf5: Option<Hdf5Writer>,
    /// The first event that was added since all of them were written to all files.
    unwritten: Option<u64>,
    /// Events that were given up.
    dropped: u64,
}

impl Files {
    fn create(
        directory: &Path,
        hdf5: bool,
        (run, builder): (u32, u16),
        about: &About,
    ) -> Result<Self, SinkError> {
        signals::ignore_file_size_limit();
        let recorder = Recorder::create(directory, run, builder, about);
        let recorder =
            recorder.map_err(|(path, error)| SinkError::Record(disk::explain(&path, &error, 0)))?;
        let beside = recorder.path().with_extension("h5");
        let hdf5 = hdf5.then(|| Hdf5Writer::create(&beside, run, builder, Some(about)));
        let hdf5 = hdf5.transpose();
        let hdf5 = hdf5.map_err(|error| {
            // Nobody has any use for an empty file.
            let _ = std::fs::remove_file(recorder.path());
            SinkError::Record(disk::explain(&beside, &error, 0))
        })?;
        Ok(Self {
            recorder,
            hdf5,
            unwritten: None,
            dropped: 0,
        })
    }

    fn names(&self) -> String {
        let file = self.recorder.path().display();
        match &self.hdf5 {
            None => file.to_string(),
            Some(hdf5) => format!("{file} and {}", hdf5.path().display()),
        }
    }

    fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        self.unwritten.get_or_insert(event);
        self.recorder.add(event, missing, fragments);
        if let Some(hdf5) = &mut self.hdf5 {
            hdf5.add(event, missing, fragments);
        }
    }

    fn write(&mut self) -> Result<(), SinkError> {
        let written = self.recorder.write();
        written.map_err(|error| {
            let bytes = self.recorder.waiting_bytes();
            SinkError::Record(disk::explain(self.recorder.path(), &error, bytes))
        })?;
        if let Some(hdf5) = &mut self.hdf5 {
            let written = hdf5.write();
            written.map_err(|error| {
                SinkError::Record(disk::explain(hdf5.path(), &error, hdf5.waiting_bytes()))
            })?;
        }
        self.unwritten = None;
        Ok(())
    }

    /// The first event that is not in all files. What the recorder has written of a batch counts, unless
    /// there is another file.
    fn first_awaited(&self) -> Option<u64> {
        match self.hdf5 {
            None => self.recorder.waiting().next(),
            Some(_) => self.unwritten,
        }
    }

    fn sums(&self) -> SinkCounts {
        SinkCounts {
            taken: self.recorder.events(),
            dropped: self.dropped,
            waiting: self.recorder.waiting().count() as u64,
        }
    }

    fn finish(self) -> Result<(), SinkError> {
        // First: the other one waits for the disk, and `daq run` not for ever for us.
        if let Some(hdf5) = self.hdf5 {
            let (path, bytes) = (hdf5.path().to_owned(), hdf5.waiting_bytes());
            let finished = hdf5.finish();
            finished.map_err(|error| SinkError::Record(disk::explain(&path, &error, bytes)))?;
        }
        let (path, bytes) = (
            self.recorder.path().to_owned(),
            self.recorder.waiting_bytes(),
        );
        let finished = self.recorder.finish();
        finished.map_err(|error| SinkError::Record(disk::explain(&path, &error, bytes)))
    }
}
