//! What can happen, and what orders it within an instant.

/// What can happen in a model. Small and `Copy`: it lies in the kernel's slab.
pub trait Event: Copy {
    /// The event as a number, for the trace hash: two events that mean something
    /// different should differ here.
    fn digest(&self) -> u64;
}

/// What comes first among events of one instant: the lower class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

impl Class {
    /// Before everything else of the instant: what changes the stage (links, faults).
    pub const FIRST: Self = Self(0);
    /// Whatever has no reason to be elsewhere.
    pub const NORMAL: Self = Self(128);
    /// After everything else of the instant: probes.
    pub const LAST: Self = Self(255);
}

/// The entity an event belongs to; the lower comes first among events of one
/// instant and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);
