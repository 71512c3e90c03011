//! Detectors: how a program of the user's is a source of a run.
//!
//! The program implements [`Detector`] and gives it to [`run_detector`](crate::part::run_detector)
//! with the configuration of the run (`source.kind = "own"`) and its number. From then on it is a
//! part like any other: it is welcomed, watched, told of the run's state, and accounted for.
//!
//! | what happens | with `trigger.mode = "sources"` | with another mode |
//! |---|---|---|
//! | an event is triggered | when any source has given a fragment of that number, or a later one | by the manager: [`Word::Triggered`] |
//! | a fragment that is given | waits for its event, which follows at once unless the run is paused or full | waits for its event, which has mostly been triggered |
//! | a number that is left out | the event is built without this source, as soon as a later one is given | the same |
//! | [`Polled::End`] of all sources | the run is drained | no more fragments come: what was left out up to the last event is closed at once |
//!
//! Without [`Polled::End`] after [`Word::Drain`], a last event that a source leaves out waits for
//! `builder.timeout`, and counts as lost with `builder.incomplete = "loss"`.
//!
//! When `source.buffer` is full, `source.full = "block"` means that the detector is not asked
//! any more until there is room; `"drop"` that it is asked, and that what it gives is dropped
//! with account.
//!
//! ```no_run
//! use std::convert::Infallible;
//! use std::path::Path;
//!
//! use barewire_daq::config::Config;
//! use barewire_daq::detector::{Detector, Fragment, Number, Polled, Word};
//! use barewire_daq::part;
//!
//! /// Counts up, and gives the count.
//! struct Counter {
//!     left: u64,
//!     running: bool,
//! }
//!
//! impl Detector for Counter {
//!     fn poll(&mut self) -> Polled {
//!         if !self.running {
//!             return Polled::NotYet;
//!         }
//!         if self.left == 0 {
//!             return Polled::End;
//!         }
//!         self.left -= 1;
//!         let data = self.left.to_le_bytes().to_vec();
//!         match Fragment::new(Number::Next, None, data) {
//!             Ok(fragment) => Polled::Fragment(fragment),
//!             Err(problem) => Polled::Trouble(problem.to_string()),
//!         }
//!     }
//!
//!     fn told(&mut self, word: Word) {
//!         match word {
//!             Word::Start | Word::Resume => self.running = true,
//!             Word::Pause | Word::Stop => self.running = false,
//!             _ => {}
//!         }
//!     }
//! }
//!
//! let config = Config::load(Path::new("daq.toml")).expect("a good configuration");
//! part::run_detector(&config, 0, Box::new(Counter { left: 10, running: false })).expect("a run");
//! ```

use std::os::fd::BorrowedFd;

use barewire_units::ByteSize;

use crate::config::FRAGMENT_BYTES_MAX;

/// To which event a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// To this one, counted from 0 in each run. Later fragments have higher numbers.
    Event(u64),
    /// To the one after that of the last fragment; at the beginning to the first event of the
    /// run, or to the first that was triggered after a source had joined again.
    Next,
}

/// More bytes than a fragment may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fragment of {bytes} bytes; {} at most",
    ByteSize::from_bytes(FRAGMENT_BYTES_MAX)
)]
pub struct TooLarge {
    /// How many.
    pub bytes: u64,
}

/// What a detector has read of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub(crate) number: Number,
    pub(crate) at_ns: Option<u64>,
    pub(crate) data: Vec<u8>,
}

impl Fragment {
    /// `data` of an event, read at `at_ns` on a clock that the sources agree on; without that,
    /// it bears the time of the trigger on the manager's clock.
    ///
    /// # Errors
    ///
    /// More than 64 MiB.
    pub fn new(number: Number, at_ns: Option<u64>, data: Vec<u8>) -> Result<Self, TooLarge> {
        let bytes = data.len() as u64;
        if bytes > FRAGMENT_BYTES_MAX {
            return Err(TooLarge { bytes });
        }
        Ok(Self {
            number,
            at_ns,
            data,
        })
    }
}

/// What a detector has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// A fragment.
    Fragment(Fragment),
    /// Nothing for now.
    NotYet,
    /// Nothing any more in this run.
    End,
    /// Something that the event log should tell, as a warning; the run goes on.
    Trouble(String),
}

/// What a detector is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A run of this number is prepared. It begins with event 0.
    Configure {
        /// Its number.
        run: u32,
    },
    /// The run runs.
    Start,
    /// No events are triggered for now. What is given waits.
    Pause,
    /// They are again.
    Resume,
    /// No more events will be triggered; fragments of those that were are still wanted.
    Drain,
    /// The run is over, or was aborted. Nothing is wanted until the next one.
    Stop,
    /// Events were triggered: fragments of them are wanted.
    Triggered {
        /// The first.
        first: u64,
        /// How many, with the numbers after it.
        count: u32,
        /// When, in ns on the manager's clock.
        at_ns: u64,
    },
}

/// A detector, as a source of a run reads it. All of it is called by one thread, and none of it
/// may take long: a part that is silent for `parts.liveness` is lost.
pub trait Detector {
    /// The next fragment, if there is one. Asked from [`Word::Configure`] to [`Word::Stop`], while
    /// there is room.
    fn poll(&mut self) -> Polled;

    /// The run has another state, or events were triggered.
    fn told(&mut self, word: Word) {
        let _ = word;
    }

    /// What can be read when [`Detector::poll`] has something, and no more when that has returned
    /// [`Polled::NotYet`]; always the same. Without it the detector is asked again after a
    /// millisecond at most.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
