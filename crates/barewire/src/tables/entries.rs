//! What the tables keep of one listener, and of one connection.

use std::sync::Arc;

use barewire_shm::Window;
use barewire_shm::counters::RegionPlace;
use barewire_sys::socket::Listener;

use crate::config::Policy;
use crate::error::Error;
use crate::links::budget::Charges;
use crate::links::connection::ConnectionCore;
use crate::messages::control::RegionRef;

/// A name that is listened to.
pub(crate) struct ListenerEntry {
    pub name: String,
    pub socket: Listener,
    pub policy: Policy,
    /// Requests not yet accepted.
    pub waiting: u32,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked and wait for the answer.
    Opening,
    /// They asked and wait for our answer.
    Requested,
    Open,
    /// We asked and no longer care for the answer.
    Abandoned,
}

/// The peer's half of a connection, checked.
#[derive(Clone)]
pub(crate) struct PeerHalf {
    pub number: u32,
    pub window: Window,
    pub ring_bytes: usize,
    pub source: u32,
    pub message_bytes_max: u64,
}

/// What the tables have of a connection.
pub(crate) struct ConnectionEntry {
    pub link: usize,
    pub phase: Phase,
    /// Distinguishes uses of the same number.
    pub serial: u64,
    pub name: String,
    pub data: Vec<u8>,
    pub listener: Option<usize>,
    pub peer_half: Option<PeerHalf>,
    pub region: Option<(RegionRef, Window)>,
    /// The memory in front of our ring, which we may write, too.
    pub line: Option<Window>,
    /// Where others of our user find it.
    pub place: Option<RegionPlace>,
    /// Longest message that we take, as we tell the peer.
    pub message_bytes_max: usize,
    pub wanted_ring_bytes: usize,
    pub source: u32,
    /// Why opening failed.
    pub failure: Option<Error>,
    /// Whether the answer is to be reported as an event.
    pub announce: bool,
    /// What it shares with the user's handle, once that is made.
    pub core: Option<Arc<ConnectionCore>>,
    pub handle_gone: bool,
    pub peer_detached: bool,
    pub closed_reported: bool,
    /// In the list of those whose readiness was reported.
    pub reported: bool,
    /// Events of it that wait and are counted.
    pub events: u32,
    pub charges: Charges,
}
