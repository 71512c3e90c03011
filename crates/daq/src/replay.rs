//! Replay: a detector that gives the recorded fragments of its source again, with their event
//! numbers, times and bytes.
//!
//! Each builder of a run has written a file of its own, in the order in which it closed events;
//! all of them together are the run. What is kept in memory is where each record begins. A fragment
//! or a record that is damaged is told of and left out, and its event is built without it; an event
//! that was recorded without this source's fragment is built without it again. At the end of the
//! files it is told how many events this source had no fragment of, and why.

use core::fmt;
use std::collections::VecDeque;
use std::fs::File;
use std::time::{Duration, Instant};

use crate::config::ReplayFiles;
use crate::detector::{Detector, Fragment, Number, Polled, Word};
use crate::record::{self, Reading, RecordError, Stored};

/// Events looked at before it says that it has nothing yet.
const LOOKS_AT_ONCE: usize = 256;
/// Damaged fragments that are told one by one; of the others there is the sum at the end.
const TOLD_MAX: u64 = 8;

/// Why files cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// One of them cannot be read.
    #[error("{file}: {error}")]
    File {
        /// Which.
        file: String,
        /// Why.
        error: RecordError,
    },
    /// They are of several runs.
    #[error("{file} is of run {found}, the files before it of run {run}: give files of one run")]
    Runs {
        /// Which file is of another.
        file: String,
        /// Its run.
        found: u32,
        /// That of the first.
        run: u32,
    },
    /// An event is there twice: a file was given twice.
    #[error("event {0} is in the files twice: give each file once")]
    Twice(u64),
    /// There is no event.
    #[error("the files hold no event")]
    Empty,
}

/// Where an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    event: u64,
    file: u32,
    at: u64,
}

/// Events of the recorded run of which this source gives no fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lacking {
    /// Their fragment or their record is damaged.
    damaged: u64,
    /// They were recorded without it.
    absent: u64,
    /// Numbers between the first event and the last that are in none of the files.
    unrecorded: u64,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            damaged,
            absent,
            unrecorded,
        } = self;
        write!(
            f,
            "the files lack {unrecorded} events; of this source {damaged} fragments are damaged, \
             and {absent} events were recorded without it"
        )
    }
}

/// A source's fragments of a recorded run.
#[derive(Debug)]
pub struct Replay {
    source: u16,
    files: Vec<Reading<File>>,
    places: Vec<Place>,
    next: usize,
    /// How often all was given.
    rounds: u64,
    repeat: bool,
    pace: Option<Pace>,
    /// Read, and not due yet.
    early: Option<Fragment>,
    /// What is damaged in the files, and was seen when they were opened.
    damages: Vec<String>,
    /// Of it and the rest, what is still to be told in this run.
    to_tell: VecDeque<String>,
    lacking: Lacking,
    /// From the first trigger to the last, and once the mean distance.
    span_ns: u64,
    first_ns: u64,
}

/// Time as the recorded run counts it: stands while the run is paused.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    passed: Duration,
    running_since: Option<Instant>,
}

impl Pace {
    fn passed_ns(&self) -> u64 {
        let since = self.running_since.map_or(Duration::ZERO, |it| it.elapsed());
        u64::try_from((self.passed + since).as_nanos()).unwrap_or(u64::MAX)
    }

    fn stop(&mut self) {
        let since = self.running_since.take();
        self.passed += since.map_or(Duration::ZERO, |it| it.elapsed());
    }
}

impl Replay {
    /// The fragments of `source`.
    ///
    /// # Errors
    ///
    /// Files that cannot be read, or are not those of one run.
    pub fn open(settings: &ReplayFiles, source: u16) -> Result<Self, ReplayError> {
        let mut files = Vec::new();
        let mut places = Vec::new();
        let mut damages = Vec::new();
        for (number, path) in (0..).zip(&settings.files) {
            let file = path.display().to_string();
            let opened = Reading::open(path).and_then(|it| Ok((it, record::places(path)?)));
            let (reading, (found, damage)) = match opened {
                Ok(opened) => opened,
                Err(error) => return Err(ReplayError::File { file, error }),
            };
            if !damage.is_none() {
                damages.push(format!("{file}: {damage}"));
            }
            // Of a damaged head nobody knows the run.
            let known = files.iter().find(|it: &&Reading<_>| it.head_is_right());
            let run = known.map_or(reading.run, |it| it.run);
            if run != reading.run && reading.head_is_right() {
                let found = reading.run;
                return Err(ReplayError::Runs { file, found, run });
            }
            files.push(reading);
            places.extend(found.into_iter().map(|(event, at)| Place {
                event,
                file: number,
                at,
            }));
        }
        places.sort_unstable();
        if let Some(twice) = places.windows(2).find(|it| it[0].event == it[1].event) {
            return Err(ReplayError::Twice(twice[0].event));
        }
        let mut replay = Self {
            source,
            files,
            places,
            next: 0,
            rounds: 0,
            repeat: settings.repeat,
            pace: settings.paced.then(Pace::default),
            early: None,
            damages,
            to_tell: VecDeque::new(),
            lacking: Lacking::default(),
            span_ns: 0,
            first_ns: 0,
        };
        replay.measure()?;
        Ok(replay)
    }

    /// Finds the times of the first and the last event that has any fragment.
    fn measure(&mut self) -> Result<(), ReplayError> {
        let count = self.places.len();
        if count == 0 {
            return Err(ReplayError::Empty);
        }
        let first = (0..count).find_map(|it| self.time_at(it));
        let last = (0..count).rev().find_map(|it| self.time_at(it));
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let between = last.saturating_sub(first);
        self.first_ns = first;
        self.span_ns = between.saturating_add(between / (count as u64 - 1).max(1));
        Ok(())
    }

    fn time_at(&mut self, index: usize) -> Option<u64> {
        let place = self.places[index];
        let reading = &mut self.files[place.file as usize];
        reading.time_at(place.at, place.event).ok()?
    }

    fn read(&mut self) -> Polled {
        for _ in 0..LOOKS_AT_ONCE {
            if let Some(text) = self.to_tell.pop_front() {
                return Polled::Trouble(text);
            }
            if self.next == self.places.len() && self.repeat {
                self.next = 0;
                self.rounds += 1;
            }
            let Some(&place) = self.places.get(self.next) else {
                return Polled::End;
            };
            self.next += 1;
            let found = self.look(place);
            if self.next == self.places.len() && self.rounds == 0 {
                self.sum_up();
            }
            if let Some(stored) = found {
                return self.again(place.event, stored);
            }
        }
        Polled::NotYet
    }

    /// The fragment at a place; why there is none is counted, and the first times told.
    fn look(&mut self, place: Place) -> Option<Stored> {
        let reading = &mut self.files[place.file as usize];
        let is_first_round = self.rounds == 0;
        match reading.fragment(place.at, place.event, self.source) {
            Ok(Some(stored)) => return Some(stored),
            Ok(None) => self.lacking.absent += u64::from(is_first_round),
            Err(error) if is_first_round => {
                self.lacking.damaged += 1;
                if self.lacking.damaged <= TOLD_MAX {
                    let text = format!("event {}: {error}", place.event);
                    self.to_tell.push_back(text);
                }
            }
            Err(_) => {}
        }
        None
    }

    /// Tells what was not there, if anything was not.
    fn sum_up(&mut self) {
        let numbers = self.places.first().zip(self.places.last());
        let span = numbers.map_or(0, |(first, last)| last.event - first.event);
        let others = self.places.len().saturating_sub(1) as u64;
        self.lacking.unrecorded = span.saturating_sub(others);
        if self.lacking != Lacking::default() {
            self.to_tell.push_back(self.lacking.to_string());
        }
    }

    /// A fragment, with the number and the time that it has in this round.
    fn again(&self, event: u64, stored: Stored) -> Polled {
        let last = self.places.last().map_or(0, |it| it.event);
        let before = last.saturating_add(1).saturating_mul(self.rounds);
        let number = Number::Event(event.saturating_add(before));
        let later_ns = self.span_ns.saturating_mul(self.rounds);
        let at_ns = stored.at_ns.saturating_add(later_ns);
        match Fragment::new(number, Some(at_ns), stored.data) {
            Ok(fragment) => Polled::Fragment(fragment),
            Err(problem) => Polled::Trouble(problem.to_string()),
        }
    }

    fn is_due(&self, fragment: &Fragment) -> bool {
        let after_ns = fragment.at_ns.unwrap_or(0).saturating_sub(self.first_ns);
        self.pace
            .is_none_or(|pace| pace.running_since.is_some() && pace.passed_ns() >= after_ns)
    }
}

impl Detector for Replay {
    fn poll(&mut self) -> Polled {
        let polled = self
            .early
            .take()
            .map_or_else(|| self.read(), Polled::Fragment);
        match polled {
            Polled::Fragment(fragment) if !self.is_due(&fragment) => {
                self.early = Some(fragment);
                Polled::NotYet
            }
            polled => polled,
        }
    }

    fn told(&mut self, word: Word) {
        if let Word::Configure { .. } = word {
            (self.next, self.rounds, self.early) = (0, 0, None);
            self.lacking = Lacking::default();
            self.to_tell = self.damages.iter().cloned().collect();
            self.pace = self.pace.map(|_| Pace::default());
        }
        let Some(pace) = &mut self.pace else {
            return;
        };
        match word {
            Word::Start | Word::Resume => pace.running_since = Some(Instant::now()),
            Word::Pause | Word::Drain | Word::Stop => pace.stop(),
            Word::Configure { .. } | Word::Triggered { .. } => {}
        }
    }
}
