//! What the two halves of the driver are doing.

/// What the handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    Off,
    Entry,
    Acknowledge,
    Bus,
    Memory,
    Engine,
    Work,
    Spin,
}

/// What the sender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Off,
    Header,
    /// Looks again whether there is room.
    Full,
    Bus,
    Memory,
    /// Waits for the engine to be free.
    Engine,
}
