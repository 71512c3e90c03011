//! The states of a VI, and what happens to a descriptor that is posted in each.
//!
//! | state | a send is posted | a receive is posted |
//! |---|---|---|
//! | Idle | it is flushed | it waits for a connection |
//! | ConnectPending | it is flushed | it waits for a connection |
//! | Connected | it is processed | it is processed |
//! | Error | it is flushed | it is flushed |
//!
//! To flush a descriptor is to complete it at once, with an error that says so. Whatever breaks a connection, and every
//! disconnect, flushes all descriptors that are not done. There is no state «disconnected»: a VI that was disconnected
//! is idle, and may be connected again.

use barewire_units::transitions;

/// The state of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViState {
    /// Not connected, and nobody is at it.
    Idle,
    /// The program has asked for a connection, and there is no answer yet.
    ConnectPending,
    /// Descriptors are processed.
    Connected,
    /// The connection broke. The program has to disconnect before it can connect again.
    Error,
}

/// What can happen to a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViEvent {
    /// The program asks for a connection, from a server or from a peer.
    Request,
    /// The program accepts a client's request with this VI.
    Accept,
    /// The other end has accepted.
    Established,
    /// The other end refused, is not there, or took too long.
    Refused,
    /// The program disconnects.
    Disconnect,
    /// The other end disconnected or died, or broke the protocol.
    Lost,
    /// A descriptor failed, here or at the other end, and the reliability level does not allow to go on.
    Fault,
}

transitions! {
    ViState on ViEvent {
        Idle + Request => ConnectPending,
        Idle + Accept => Connected,
        Idle + Disconnect => Idle,
        ConnectPending + Established => Connected,
        ConnectPending + Refused => Idle,
        ConnectPending + Disconnect => Idle,
        Connected + Disconnect => Idle,
        Connected + Lost => Error,
        Connected + Fault => Error,
        Error + Disconnect => Idle,
    }
}

/// What becomes of a descriptor that is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// It is processed when its turn comes.
    Process,
    /// It waits in its queue for a connection.
    Hold,
    /// It completes at once, as flushed.
    Flush,
}

impl ViState {
    /// What becomes of a send that is posted in this state.
    #[must_use]
    pub const fn posted_send(self) -> Posting {
        match self {
            ViState::Connected => Posting::Process,
            ViState::Idle | ViState::ConnectPending | ViState::Error => Posting::Flush,
        }
    }

    /// What becomes of a receive that is posted in this state.
    #[must_use]
    pub const fn posted_receive(self) -> Posting {
        match self {
            ViState::Connected => Posting::Process,
            ViState::Idle | ViState::ConnectPending => Posting::Hold,
            ViState::Error => Posting::Flush,
        }
    }
}
