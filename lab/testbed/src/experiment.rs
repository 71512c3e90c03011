//! Experiments that a plan can ask for: a question, inputs with units, and tables as the
//! answer.
//!
//! A plan names a system and one of its experiments. What it gives is a [`Setting`]: the
//! system's whole parameter file and the experiment's whole inputs, both as TOML with the
//! plan's changes applied. The answer is an [`Outcome`]: tables whose first column is what
//! was varied, and what went over the links if that was asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use barewire_units::Instant;
use barewire_wire::capture::LinkType;
use serde::de::DeserializeOwned;

use crate::error::SystemError;
use crate::refuse::Inputs;

/// Something that can be asked of a system's model.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its short name. The built-in plan is named by system and experiment: `penn-zero-copy`.
    pub name: &'static str,
    /// What is asked, in a sentence.
    pub question: &'static str,
    /// Its inputs as TOML, each with a comment that says what it is; empty if it has none.
    pub inputs: &'static str,
    /// Reads parameters and inputs and says what is wrong with them. Runs nothing.
    pub check: fn(&Setting<'_>) -> Result<(), SystemError>,
    /// Runs it. The same setting gives the same outcome on every machine.
    pub run: fn(&Setting<'_>) -> Result<Outcome, SystemError>,
}

/// What an experiment is run with.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The system's parameters, whole.
    pub parameters: &'a str,
    /// The experiment's inputs, whole.
    pub inputs: &'a str,
    /// The seed of everything random.
    pub seed: u64,
    /// Packets to record of each link; 0 records none.
    pub packets_per_link: usize,
    /// Where the experiment says how far it is.
    pub progress: &'a Progress,
}

impl Setting<'_> {
    /// The inputs in the experiment's own type.
    ///
    /// # Errors
    ///
    /// A key that is missing or unknown, or a value of another kind.
    pub fn read_inputs<T: DeserializeOwned>(&self) -> Result<T, SystemError> {
        toml::from_str(self.inputs).map_err(SystemError::Inputs)
    }

    /// The same, with each input in its bounds.
    pub(crate) fn checked_inputs<T: Inputs>(&self) -> Result<T, SystemError> {
        let inputs: T = self.read_inputs()?;
        inputs.check_bounds()?;
        Ok(inputs)
    }
}

/// How far an experiment is, for whoever waits. Any thread may advance or read it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Says how many steps there will be, beside those that were announced before.
    pub fn announce(&self, steps: u64) {
        // Relaxed, here and below: figures for a display, with nothing behind them.
        self.total.fetch_add(steps, Ordering::Relaxed);
    }

    /// A step is done.
    pub fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Steps done, and steps announced.
    #[must_use]
    pub fn look(&self) -> (u64, u64) {
        // Partner: announce and step.
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Its tables.
    pub tables: Vec<Table>,
    /// What went over the links, if it was asked for.
    pub links: Vec<LinkCapture>,
    /// Over all events of all runs.
    pub trace_hash: u64,
}

impl Outcome {
    /// Takes in a run: the hash of its events, and what went over its links, if no run before
    /// recorded any.
    pub(crate) fn add_run(&mut self, hash: u64, links: impl IntoIterator<Item = LinkCapture>) {
        self.trace_hash = self.trace_hash.rotate_left(7) ^ hash;
        self.add_links(links);
    }

    /// The same, in the way in which the kept results of Penn and Jetstream join hashes.
    pub(crate) fn mix_run(&mut self, hash: u64, links: impl IntoIterator<Item = LinkCapture>) {
        self.trace_hash = mix_hashes(self.trace_hash, [hash]);
        self.add_links(links);
    }

    /// The last table, if that is its name, or else a new one.
    pub(crate) fn table(&mut self, name: &str) -> &mut Table {
        let at = match self.tables.last() {
            Some(last) if last.name == name => self.tables.len() - 1,
            _ => {
                self.tables.push(Table::named(name));
                self.tables.len() - 1
            }
        };
        &mut self.tables[at]
    }

    fn add_links(&mut self, links: impl IntoIterator<Item = LinkCapture>) {
        if self.links.is_empty() {
            self.links.extend(links);
        }
    }

    /// Its runs are told of; these are the tables.
    #[must_use]
    pub(crate) fn with(mut self, tables: impl IntoIterator<Item = Table>) -> Self {
        self.tables.extend(tables);
        self
    }
}

/// `all` with more hashes, in their order.
pub(crate) fn mix_hashes(all: u64, more: impl IntoIterator<Item = u64>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |all: u64, hash: u64| (all.rotate_left(23) ^ hash).wrapping_mul(ODD);
    more.into_iter().fold(all, mix)
}

/// A table: the first column is what was varied, each other one a quantity that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows: `round trip against load`.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// `round trip`.
    pub name: String,
    /// `us`; empty for names and counts.
    pub unit: String,
}

/// A place in a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number in the column's unit.
    Number(f64),
    /// A name.
    Text(String),
    /// There is no such value, as for a loss rate of nothing sent.
    Missing,
}

/// The cells of a row, each with the name and the unit of its column.
pub(crate) type Row<'a, const N: usize> = [(&'a str, &'a str, Cell); N];

impl Table {
    /// An empty table with these names and units of columns.
    #[must_use]
    pub fn new(name: impl Into<String>, columns: &[(&str, &str)]) -> Self {
        let column = |&(name, unit): &(&str, &str)| Column {
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        Self {
            name: name.into(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// An empty table, which has the columns of its first row.
    #[must_use]
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self::new(name, &[])
    }

    /// Adds a row, in which each cell stands with the name and the unit of its column.
    pub(crate) fn row<const N: usize>(&mut self, cells: Row<'_, N>) {
        if self.columns.is_empty() {
            let columns = cells.each_ref().map(|&(name, unit, _)| (name, unit));
            self.columns = Self::new("", &columns).columns;
        }
        self.push(cells.map(|(_, _, cell)| cell));
    }

    /// Adds a row: a cell for each column.
    pub fn push<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.name);
        self.rows.push(cells.into());
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Number(value)
        } else {
            Self::Missing
        }
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// What went over one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCapture {
    /// Which link: `station 2, receive`. The name of the capture's interface.
    pub link: String,
    /// What each packet begins with.
    pub link_type: LinkType,
    /// The first packets, in the order of their times.
    pub packets: Vec<LinkPacket>,
    /// Packets after those.
    pub not_recorded: u64,
    limit: usize,
}

/// A packet on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPacket {
    /// When its first bit was sent.
    pub at: Instant,
    /// Its bytes, with the pseudo-header of the link type.
    pub bytes: Vec<u8>,
}

impl LinkCapture {
    /// An empty capture that takes `limit` packets, as [`Setting::packets_per_link`] says.
    #[must_use]
    pub fn new(link: impl Into<String>, link_type: LinkType, limit: usize) -> Self {
        Self {
            link: link.into(),
            link_type,
            packets: Vec::new(),
            not_recorded: 0,
            limit,
        }
    }

    /// Records a packet, or counts it once the capture is full. `bytes` is not called then.
    pub fn record(&mut self, at: Instant, bytes: impl FnOnce() -> Vec<u8>) {
        if self.packets.len() >= self.limit {
            self.not_recorded += 1;
            return;
        }
        let bytes = bytes();
        self.packets.push(LinkPacket { at, bytes });
    }
}
