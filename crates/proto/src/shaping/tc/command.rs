//! A `tc` command as a value.

use alloc::string::String;

use super::super::handle::Handle;
use super::super::qdisc::Limit;
use super::super::u32::{Rule, Table};
use super::super::{cbq, htb, tbf};

/// What a discipline hangs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The device.
    Root,
    /// A class.
    Class(Handle),
}

/// Parameters of a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QdiscConfig {
    /// `pfifo` or `bfifo`.
    Fifo(Limit),
    /// `tbf`.
    Tbf(tbf::Config),
    /// `cbq`.
    Cbq(cbq::QdiscConfig),
    /// `htb`.
    Htb(htb::QdiscConfig),
}

/// Parameters of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassConfig {
    /// `cbq`.
    Cbq(cbq::ClassConfig),
    /// `htb`.
    Htb(htb::ClassConfig),
}

/// Parameters of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterConfig {
    /// A rule.
    Rule(Rule),
    /// An empty hash table.
    Table(Table),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `tc qdisc add`.
    Qdisc {
        /// The device.
        device: String,
        /// Where it hangs.
        parent: Parent,
        /// Its name.
        handle: Option<Handle>,
        /// Its kind and parameters.
        config: QdiscConfig,
    },
    /// `tc class add`.
    Class {
        /// The device.
        device: String,
        /// The class or discipline above.
        parent: Handle,
        /// Its name.
        id: Handle,
        /// Its kind and parameters.
        config: ClassConfig,
    },
    /// `tc filter add`.
    Filter {
        /// The device.
        device: String,
        /// The discipline or class that asks it.
        parent: Handle,
        /// Its parameters.
        config: FilterConfig,
    },
}

impl Command {
    /// The device that it is for.
    #[must_use]
    pub fn device(&self) -> &str {
        match self {
            Self::Qdisc { device, .. }
            | Self::Class { device, .. }
            | Self::Filter { device, .. } => device,
        }
    }
}
