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

use super::classful::{Cbq, Classes, Discipline, Htb};
use super::fifo::Fifo;
use super::handle::Handle;
use super::problem::Problem;
use super::qdisc::{Dropped, Limit, Packet, Qdisc, Stats};
use super::tbf::Tbf;
use super::tc::{self, ClassConfig, Command, FilterConfig, Parent, QdiscConfig};
use super::timer::Timer;
use super::u32::Target;

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
