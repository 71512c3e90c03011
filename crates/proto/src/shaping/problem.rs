//! Why a command does not fit a tree, and which part of it is at fault.

use super::handle::{Handle, NodeHandle};

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
