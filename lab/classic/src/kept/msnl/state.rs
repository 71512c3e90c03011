//! The states of a call and their transitions. What they mean: `msnl.rs`.

use barewire_units::transitions;

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no such call.
    Free,
    /// Called, no answer yet.
    Connecting,
    /// Called by another, the user decides.
    Incoming,
    /// Taken, not yet confirmed by the caller.
    Accepting,
    /// Both ends may send.
    Open,
    /// Left; the peer does not know yet.
    Closing,
    /// Refused; the caller does not know yet.
    Rejecting,
    /// Left by both; cells may still be under way.
    Lingering,
    /// Left; the peer never answered and may still send.
    Quarantined,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The user calls.
    Connect,
    /// The user takes the call.
    Accept,
    /// The user refuses the call.
    Reject,
    /// The user leaves the call.
    Close,
    /// A connect came.
    ConnectArrives,
    /// An accept came.
    AcceptArrives,
    /// A reject came.
    RejectArrives,
    /// A confirm or a probe came.
    ConfirmArrives,
    /// A close came.
    CloseArrives,
    /// A closed came.
    ClosedArrives,
    /// The wait is over without an answer.
    GiveUp,
    /// Nothing of the call can be under way any more.
    Release,
}

transitions! {
    State on Event {
        Free + Connect => Connecting,
        Free + ConnectArrives => Incoming,
        Connecting + AcceptArrives => Open,
        Connecting + RejectArrives => Lingering,
        Connecting + CloseArrives => Lingering,
        Connecting + Close => Closing,
        Connecting + GiveUp => Closing,
        Incoming + Accept => Accepting,
        Incoming + Reject => Rejecting,
        Incoming + Close => Rejecting,
        Incoming + CloseArrives => Free,
        Incoming + GiveUp => Rejecting,
        Accepting + ConfirmArrives => Open,
        Accepting + Close => Closing,
        Accepting + CloseArrives => Lingering,
        Accepting + ClosedArrives => Lingering,
        Accepting + GiveUp => Closing,
        Open + Close => Closing,
        Open + CloseArrives => Lingering,
        Open + ClosedArrives => Lingering,
        Open + GiveUp => Closing,
        Closing + RejectArrives => Lingering,
        Closing + CloseArrives => Lingering,
        Closing + ClosedArrives => Lingering,
        Closing + GiveUp => Quarantined,
        Rejecting + CloseArrives => Free,
        Rejecting + ClosedArrives => Free,
        Rejecting + GiveUp => Free,
        Lingering + Release => Free,
        Quarantined + CloseArrives => Lingering,
        Quarantined + ClosedArrives => Lingering,
        Quarantined + Release => Free,
    }
}

impl State {
    /// Whether the user has the call, and must hear of its end.
    pub(super) const fn is_users(self) -> bool {
        matches!(
            self,
            Self::Connecting | Self::Incoming | Self::Accepting | Self::Open
        )
    }

    /// Whether both ends are done with the call, as far as this one knows.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Lingering | Self::Quarantined)
    }
}
