//! Sinks: what a builder does with events that are built or given up.

mod hand_over;
pub mod hdf5;

use std::io;
use std::path::Path;
use std::time::Instant;

use crate::config::{Config, SinkKind};
use crate::part::PartError;
use crate::record::{Recorder, Stored};

use hand_over::HandOver;
pub(crate) use hand_over::{GREETING_BYTES, MAGIC, MESSAGE_BYTES_MAX, name_of};
use hdf5::Hdf5Writer;

/// How long a consumer has for the last events of a run that does not wait for it.
const LAST_EVENTS: std::time::Duration = std::time::Duration::from_millis(500);

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sunk {
    /// They are in the file, or a consumer has taken them.
    pub taken: u64,
    /// Dropped: there was no consumer, or it was too slow.
    pub dropped: u64,
    /// A consumer is to take them.
    pub waiting: u64,
}

/// Where a builder's events go.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere: they were verified.
    Discard,
    /// Into a file.
    File(Recorder),
    /// Into a file, and into an HDF5 file beside it.
    Hdf5(Recorder, Box<Hdf5Writer>),
    /// To a consumer.
    HandOver(Box<HandOver>),
}

impl Sink {
    /// The sink of a builder in a run.
    ///
    /// # Errors
    ///
    /// The file can not be made, or the name is taken.
    pub fn open(config: &Config, run: u32, builder: u16) -> Result<Self, PartError> {
        match &config.sink {
            SinkKind::Discard => Ok(Self::Discard),
            SinkKind::File { directory, hdf5 } => {
                let made = Recorder::create(directory, run, builder);
                let made = made.map_err(|(path, error)| PartError::Record { path, error })?;
                if !hdf5 {
                    return Ok(Self::File(made));
                }
                let path = made.path().with_extension("h5");
                let writer = recording(&path, Hdf5Writer::create(&path, run, builder))?;
                Ok(Self::Hdf5(made, Box::new(writer)))
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
            Self::File(recorder) => Some(format!("records in {}", recorder.path().display())),
            Self::Hdf5(recorder, writer) => Some(format!(
                "records in {} and {}",
                recorder.path().display(),
                writer.path().display()
            )),
            Self::HandOver(queue) => Some(format!("hands events over at {}", queue.name())),
        }
    }

    /// One more event.
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        match self {
            Self::Discard => {}
            Self::File(recorder) => recorder.add(event, missing, fragments),
            Self::Hdf5(recorder, writer) => {
                recorder.add(event, missing, fragments);
                writer.add(event, missing, fragments);
            }
            Self::HandOver(queue) => queue.add(event, missing, fragments),
        }
    }

    /// Writes or sends what it can.
    ///
    /// # Errors
    ///
    /// The disk is full, or worse.
    pub fn work(&mut self) -> Result<(), PartError> {
        match self {
            Self::Discard => Ok(()),
            Self::File(recorder) => {
                let written = recorder.write();
                recording(recorder.path(), written)
            }
            Self::Hdf5(recorder, writer) => {
                let written = recorder.write();
                recording(recorder.path(), written)?;
                let written = writer.write();
                recording(writer.path(), written)
            }
            Self::HandOver(queue) => Ok(queue.work()?),
        }
    }

    /// How many of these events, in the order in which they were added, are where they should be
    /// and may be called closed.
    #[must_use]
    pub fn settled(&self, closed: &[u64]) -> usize {
        let waits = match self {
            Self::HandOver(queue) => queue.first_awaited(),
            _ => None,
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
    pub fn sums(&self) -> Sunk {
        match self {
            Self::Discard => Sunk::default(),
            Self::File(recorder) | Self::Hdf5(recorder, _) => Sunk {
                taken: recorder.events(),
                ..Sunk::default()
            },
            Self::HandOver(queue) => queue.sums(),
        }
    }

    /// The run is over.
    ///
    /// # Errors
    ///
    /// As [`Sink::work`].
    pub fn finish(self) -> Result<(), PartError> {
        let recorder = match self {
            Self::Discard | Self::HandOver(_) => return Ok(()),
            Self::File(recorder) => recorder,
            Self::Hdf5(recorder, writer) => {
                // First: the other one waits for the disk, and `daq run` not for ever for us.
                let path = writer.path().to_owned();
                recording(&path, writer.finish())?;
                recorder
            }
        };
        let path = recorder.path().to_owned();
        recording(&path, recorder.finish())
    }
}

fn recording<T>(path: &Path, done: io::Result<T>) -> Result<T, PartError> {
    done.map_err(|error| PartError::Record {
        path: path.display().to_string(),
        error,
    })
}
