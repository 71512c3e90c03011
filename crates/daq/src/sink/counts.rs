//! What became of events that a sink was given.

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// They are in the file, or a consumer has taken them.
    pub taken: u64,
    /// Dropped: there was no consumer, or it was too slow; or a file system took no more.
    pub dropped: u64,
    /// A consumer is to take them, or a file system.
    pub waiting: u64,
}
