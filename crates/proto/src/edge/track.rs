//! What the bridge knows of a TCP connection from the segments that pass it: enough to say what must happen when its
//! client goes.
//!
//! | state | the lease ends | the port |
//! |---|---|---|
//! | Silent: the client has sent nothing | nothing is sent | is free at once |
//! | Opening: only the client has sent | the peer gets a RST | waits |
//! | Open: both have sent | the peer gets a RST | waits |
//! | HalfClosed: one has sent its FIN | the peer gets a RST | waits |
//! | Closed: both have sent their FIN | nothing is sent | waits |
//! | Reset: one has sent a RST | nothing is sent | is free at once |
//!
//! A port that waits is in TIME-WAIT: [`super::waiting`].

use barewire_units::transitions;

use super::packet::{Segment, tcp_flags};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackState {
    /// The client has sent nothing.
    Silent,
    /// Only the client has sent something.
    Opening,
    /// Both have.
    Open,
    /// The client has sent its FIN.
    ClientClosed,
    /// The peer has sent its FIN.
    PeerClosed,
    /// Both have.
    Closed,
    /// One of them has sent a RST.
    Reset,
}

/// What passes the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackEvent {
    /// A segment of the client, without FIN or RST.
    FromClient,
    /// A segment of the peer, without FIN or RST.
    FromPeer,
    /// A FIN of the client.
    ClientFin,
    /// A FIN of the peer.
    PeerFin,
    /// A RST of either.
    Rst,
}

transitions! {
    TrackState on TrackEvent {
        Silent + FromClient => Opening,
        Silent + ClientFin => ClientClosed,
        Silent + Rst => Reset,
        Opening + FromPeer => Open,
        Opening + ClientFin => ClientClosed,
        Opening + PeerFin => PeerClosed,
        Opening + Rst => Reset,
        Open + ClientFin => ClientClosed,
        Open + PeerFin => PeerClosed,
        Open + Rst => Reset,
        ClientClosed + PeerFin => Closed,
        ClientClosed + Rst => Reset,
        PeerClosed + ClientFin => Closed,
        PeerClosed + Rst => Reset,
        Closed + Rst => Reset,
    }
}

/// What must happen when a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: the port is free.
    Free,
    /// The port waits.
    Wait,
    /// The peer gets a RST, and the port waits.
    Abort,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    state: TrackState,
    /// The number behind the last byte that the client has sent.
    client_next: u32,
    /// The number behind the last byte that the peer has sent, or what the client expects, whichever is known.
    peer_next: u32,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            state: TrackState::Silent,
            client_next: 0,
            peer_next: 0,
        }
    }
}

/// Whether a sequence number is behind another one: RFC 9293, 3.4.
#[must_use]
pub const fn is_after(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) > 0
}

impl Track {
    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> TrackState {
        self.state
    }

    /// The sequence number that the peer expects next of the client, if all has come.
    #[must_use]
    pub const fn client_next(&self) -> u32 {
        self.client_next
    }

    /// The sequence number that the client expects next of the peer, if all has come.
    #[must_use]
    pub const fn peer_next(&self) -> u32 {
        self.peer_next
    }

    /// A segment of the client passes.
    pub fn from_client(&mut self, segment: &Segment) {
        let end = segment.sequence_end();
        if self.state == TrackState::Silent || is_after(end, self.client_next) {
            self.client_next = end;
        }
        if segment.has(tcp_flags::ACK) && self.state == TrackState::Silent {
            self.peer_next = segment.acknowledgment;
        }
        self.step(segment, TrackEvent::FromClient, TrackEvent::ClientFin);
    }

    /// A segment of the peer passes. A RST is believed only where the peer may send one, so that a stranger who
    /// forges its address must also guess a number (RFC 5961).
    pub fn from_peer(&mut self, segment: &Segment) {
        if segment.has(tcp_flags::RST) && !self.is_expected(segment) {
            return;
        }
        let end = segment.sequence_end();
        let is_first = self.state == TrackState::Opening && segment.has(tcp_flags::SYN);
        if is_first || is_after(end, self.peer_next) {
            self.peer_next = end;
        }
        self.step(segment, TrackEvent::FromPeer, TrackEvent::PeerFin);
    }

    /// Whether a RST of the peer fits: where the connection is opened, to the client's number; then, to its own.
    fn is_expected(&self, segment: &Segment) -> bool {
        match self.state {
            TrackState::Silent => false,
            TrackState::Opening => {
                segment.has(tcp_flags::ACK) && segment.acknowledgment == self.client_next
            }
            _ => segment.sequence == self.peer_next,
        }
    }

    fn step(&mut self, segment: &Segment, plain: TrackEvent, fin: TrackEvent) {
        // A FIN also says that its sender has sent something.
        let events = match segment.flags {
            flags if flags & tcp_flags::RST != 0 => [None, Some(TrackEvent::Rst)],
            flags if flags & tcp_flags::FIN != 0 => [Some(plain), Some(fin)],
            _ => [None, Some(plain)],
        };
        for event in events.into_iter().flatten() {
            self.state = self.state.on(event).unwrap_or(self.state);
        }
    }

    /// What must happen if the lease ends now.
    #[must_use]
    pub const fn ending(&self) -> Ending {
        match self.state {
            TrackState::Silent | TrackState::Reset => Ending::Free,
            TrackState::Closed => Ending::Wait,
            TrackState::Opening
            | TrackState::Open
            | TrackState::ClientClosed
            | TrackState::PeerClosed => Ending::Abort,
        }
    }
}

#[cfg(test)]
mod tests;
