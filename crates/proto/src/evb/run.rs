//! The parts of a run, its states, and what changes them.

use barewire_units::transitions;

/// A source, by number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// A builder, by number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuilderId(pub u16);

/// A part of the event builder beside the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A source.
    Source(SourceId),
    /// A builder.
    Builder(BuilderId),
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Nothing is set.
    Idle,
    /// Ready to start.
    Configured,
    /// Takes triggers.
    Running,
    /// Takes no triggers; what is in flight goes on.
    Paused,
    /// Takes no triggers, and ends when nothing is left.
    Draining,
    /// Ended by the loss of a part.
    Failed,
}

/// What changes [`RunState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sets everything back: numbers and accounts begin again.
    Configure,
    /// Takes triggers from now on.
    Start,
    /// Takes none for now.
    Pause,
    /// Takes them again.
    Resume,
    /// Takes no more, finishes what there is, stops.
    Drain,
    /// Drops what there is, with account.
    Abort,
    /// Nothing is left: given by the manager itself.
    Drained,
    /// A part is lost that the run cannot do without: given by the manager itself.
    Fail,
}

transitions! {
    RunState on Command {
        Idle + Configure => Configured,
        Configured + Configure => Configured,
        Configured + Start => Running,
        Running + Pause => Paused,
        Running + Drain => Draining,
        Running + Abort => Configured,
        Running + Fail => Failed,
        Paused + Resume => Running,
        Paused + Drain => Draining,
        Paused + Abort => Configured,
        Paused + Fail => Failed,
        Draining + Drained => Configured,
        Draining + Abort => Configured,
        Draining + Fail => Failed,
        Failed + Configure => Configured,
    }
}
