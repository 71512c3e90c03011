//! The disciplines, classes and filters of one device, built from `tc` commands.
//!
//! ```text
//! device -> root discipline -> filters -> class -> its discipline -> ...
//! ```
//!
//! Commands are applied in their order, as `tc` would; only the class that a
//! filter leads to may come later than the filter. A tree does not change once it
//! is built. It prints as the commands that build it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use barewire_units::Instant;

use super::cbq::Cbq;
use super::classful::{Classes, Discipline};
use super::htb::Htb;
use super::tc::{self, ClassConfig, Command, FilterConfig, Parent, QdiscConfig};
use super::u32::{NodeHandle, Target};
use super::{Dropped, Fifo, Handle, Limit, Packet, Qdisc, Stats, Tbf, Timer};

/// Why a command does not fit the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The command is for another device.
    #[error("one tree is for one device, and another was named before")]
    OtherDevice,
    /// The device has a root discipline already.
    #[error("the device has a root discipline already")]
    RootTaken,
    /// No discipline of this major number, or none with classes.
    #[error("no discipline {0} with classes")]
    NoSuchQdisc(Handle),
    /// No class of this name to be the parent.
    #[error("no class {0}")]
    NoSuchClass(Handle),
    /// The name is in use.
    #[error("{0} exists already")]
    Taken(Handle),
    /// A discipline has minor number 0 and a major number above 0.
    #[error("{0} can not name a discipline, 10: could")]
    NotAQdiscHandle(Handle),
    /// The class is named for another discipline, or for a discipline itself.
    #[error("{0} does not name a class of its parent's discipline")]
    NotOfThisQdisc(Handle),
    /// The class is of another kind than its discipline.
    #[error("a class is of the kind of its discipline, here {0}")]
    OtherKind(&'static str),
    /// More levels of classes than there may be.
    #[error("{0} is more than 8 levels below its discipline")]
    TooDeep(Handle),
    /// A class below a class that has a discipline.
    #[error("{0} has a discipline, so it can not have classes")]
    HasQueue(Handle),
    /// A discipline for a class that has classes, or for the root.
    #[error("{0} is not a class without classes, so it can not have a discipline")]
    NotALeaf(Handle),
    /// A filter leads to a class that does not exist.
    #[error("no class {0} in the discipline of the filter")]
    NoSuchFlow(Handle),
    /// A filter of this priority is for another protocol.
    #[error("the filters of priority {0} are for another protocol")]
    OtherProtocol(u16),
    /// The bucket for a rule does not exist.
    #[error("no bucket {table:x}:{bucket:x}:")]
    NoSuchBucket {
        /// Number of the table.
        table: u16,
        /// Bucket in it.
        bucket: u8,
    },
    /// The table that a rule links to does not exist.
    #[error("no table {0:x}:")]
    NoSuchLink(u16),
    /// The number of a table is in use.
    #[error("table {0:x}: exists already")]
    TableTaken(u16),
    /// The name of a rule is in use.
    #[error("rule {0} exists already")]
    RuleTaken(NodeHandle),
    /// A bucket has no free node number.
    #[error("bucket {table:x}:{bucket:x}: is full")]
    BucketFull {
        /// Number of the table.
        table: u16,
        /// Bucket in it.
        bucket: u8,
    },
    /// No number is left for a root table.
    #[error("too many priorities at one parent")]
    TooManyFilters,
}

/// The part of a command that a [`Problem`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `dev`.
    Device,
    /// `parent` or `root`.
    Parent,
    /// `handle`, or `classid` of a class.
    Name,
    /// The kind of discipline or class.
    Kind,
    /// `flowid` of a filter.
    Flow,
    /// `prio` of a filter.
    Priority,
    /// `ht` of a filter.
    Bucket,
    /// `link` of a filter.
    Link,
}

impl Problem {
    /// What is at fault.
    #[must_use]
    pub const fn part(self) -> Part {
        match self {
            Self::OtherDevice => Part::Device,
            Self::RootTaken
            | Self::NoSuchQdisc(_)
            | Self::NoSuchClass(_)
            | Self::HasQueue(_)
            | Self::NotALeaf(_) => Part::Parent,
            Self::Taken(_)
            | Self::NotAQdiscHandle(_)
            | Self::NotOfThisQdisc(_)
            | Self::TooDeep(_)
            | Self::TableTaken(_)
            | Self::RuleTaken(_) => Part::Name,
            Self::OtherKind(_) => Part::Kind,
            Self::NoSuchFlow(_) => Part::Flow,
            Self::OtherProtocol(_) | Self::TooManyFilters => Part::Priority,
            Self::NoSuchBucket { .. } | Self::BucketFull { .. } => Part::Bucket,
            Self::NoSuchLink(_) => Part::Link,
        }
    }
}

/// A command that does not fit the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("command {}: {problem}", index + 1)]
pub struct BuildError {
    /// Which command, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// All that shapes the output of one device.
#[derive(Clone, Debug)]
pub struct Tree {
    commands: Vec<Command>,
    root: Discipline,
}

impl Tree {
    /// Builds the tree; a device without a root discipline gets a plain queue.
    ///
    /// # Errors
    ///
    /// The first command that does not fit.
    pub fn build(commands: Vec<Command>, timer: Timer) -> Result<Self, BuildError> {
        let mut builder = Builder {
            timer,
            device: None,
            names: BTreeSet::new(),
            root: None,
        };
        let at = |index| move |problem| BuildError { index, problem };
        for (index, command) in commands.iter().enumerate() {
            builder.apply(command).map_err(at(index))?;
        }
        for (index, command) in commands.iter().enumerate() {
            builder.check_flow(command).map_err(at(index))?;
        }
        let root = builder
            .root
            .unwrap_or_else(|| Discipline::Fifo(Fifo::new(Limit::DEFAULT)));
        Ok(Self { commands, root })
    }

    /// Builds the tree from `tc` commands, one a line.
    ///
    /// # Errors
    ///
    /// The first word that does not fit, with its line and column.
    pub fn parse(text: &str, timer: Timer) -> Result<Self, tc::Error> {
        let lines = tc::parse(text)?;
        let commands = lines.iter().map(|line| line.command.clone()).collect();
        Self::build(commands, timer)
            .map_err(|error| tc::locate(text, lines[error.index].number, error.problem))
    }

    /// The commands that built it.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Counters of a class, or of what nothing claimed for the name of a
    /// discipline with classes.
    #[must_use]
    pub fn class_stats(&self, id: Handle) -> Option<Stats> {
        let named = Some(id.major).filter(|&major| major != UNNAMED.major)?;
        self.root.find(named)?.classes()?.class_stats(id)
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.commands
            .iter()
            .try_for_each(|command| writeln!(f, "{command}"))
    }
}

impl Qdisc for Tree {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.root.as_qdisc_mut().enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet> {
        self.root.as_qdisc_mut().dequeue(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.root.as_qdisc().next_deadline()
    }

    fn wake(&mut self) {
        self.root.as_qdisc_mut().wake();
    }

    fn stats(&self) -> Stats {
        self.root.as_qdisc().stats()
    }
}

/// A tree that grows.
struct Builder {
    timer: Timer,
    device: Option<String>,
    /// Major numbers in use.
    names: BTreeSet<u16>,
    root: Option<Discipline>,
}

impl Builder {
    fn apply(&mut self, command: &Command) -> Result<(), Problem> {
        let device = self.device.get_or_insert_with(|| command.device().into());
        if device != command.device() {
            return Err(Problem::OtherDevice);
        }
        match command {
            Command::Qdisc {
                parent,
                handle,
                config,
                ..
            } => self.add_qdisc(*parent, *handle, *config),
            Command::Class {
                parent, id, config, ..
            } => self.add_class(*parent, *id, *config),
            Command::Filter { parent, config, .. } => self.add_filter(*parent, config),
        }
    }

    fn add_qdisc(
        &mut self,
        parent: Parent,
        handle: Option<Handle>,
        config: QdiscConfig,
    ) -> Result<(), Problem> {
        let name = handle.unwrap_or(UNNAMED);
        if let Some(name) = handle {
            if name.major == 0 || name.minor != 0 {
                return Err(Problem::NotAQdiscHandle(name));
            }
            if self.names.contains(&name.major) {
                return Err(Problem::Taken(name));
            }
        }
        let discipline = match config {
            QdiscConfig::Fifo(limit) => Discipline::Fifo(Fifo::new(limit)),
            QdiscConfig::Tbf(config) => Discipline::Tbf(Tbf::new(config, self.timer)),
            QdiscConfig::Cbq(config) => Discipline::Cbq(Cbq::new(name, config, self.timer)),
            QdiscConfig::Htb(config) => Discipline::Htb(Htb::new(name, config, self.timer)),
        };
        match parent {
            Parent::Root if self.root.is_some() => return Err(Problem::RootTaken),
            Parent::Root => self.root = Some(discipline),
            Parent::Class(class) => self.classes(class)?.attach(class, discipline)?,
        }
        self.names.extend(handle.map(|name| name.major));
        Ok(())
    }

    fn add_class(
        &mut self,
        parent: Handle,
        id: Handle,
        config: ClassConfig,
    ) -> Result<(), Problem> {
        match (self.qdisc(parent)?, config) {
            (Discipline::Cbq(cbq), ClassConfig::Cbq(config)) => cbq.add_class(parent, id, config),
            (Discipline::Htb(htb), ClassConfig::Htb(config)) => htb.add_class(parent, id, config),
            (Discipline::Cbq(_), _) => Err(Problem::OtherKind("cbq")),
            (Discipline::Htb(_), _) => Err(Problem::OtherKind("htb")),
            _ => Err(Problem::NoSuchQdisc(parent.qdisc())),
        }
    }

    fn add_filter(&mut self, parent: Handle, config: &FilterConfig) -> Result<(), Problem> {
        let filters = self.classes(parent)?.filters_mut(parent)?;
        match config {
            FilterConfig::Rule(rule) => filters.insert(rule.clone()),
            FilterConfig::Table(table) => filters.insert_table(*table),
        }
    }

    fn check_flow(&mut self, command: &Command) -> Result<(), Problem> {
        let Command::Filter { parent, config, .. } = command else {
            return Ok(());
        };
        let FilterConfig::Rule(rule) = config else {
            return Ok(());
        };
        let Target::Class(flow) = rule.target else {
            return Ok(());
        };
        match self.classes(*parent)?.class_stats(flow) {
            Some(_) => Ok(()),
            None => Err(Problem::NoSuchFlow(flow)),
        }
    }

    fn classes(&mut self, handle: Handle) -> Result<&mut dyn Classes, Problem> {
        self.qdisc(handle)?
            .classes_mut()
            .ok_or(Problem::NoSuchQdisc(handle.qdisc()))
    }

    /// The discipline that `handle` is, or that it names a class of.
    fn qdisc(&mut self, handle: Handle) -> Result<&mut Discipline, Problem> {
        let missing = Problem::NoSuchQdisc(handle.qdisc());
        if handle.major == UNNAMED.major {
            return Err(missing);
        }
        let root = self.root.as_mut();
        root.and_then(|root| root.find_mut(handle.major))
            .ok_or(missing)
    }
}

/// The name of a discipline without one: no command can ask for it.
const UNNAMED: Handle = Handle::new(0, 0);

#[cfg(test)]
mod tests;
