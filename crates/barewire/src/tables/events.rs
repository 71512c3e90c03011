//! Events that wait for the owner, and the form in which they are handed out.

use std::collections::VecDeque;
use std::sync::Arc;

use barewire_fabric::Allowance;
use barewire_fabric::ring::{RingReceiver, RingSender};
use barewire_shm::Window;
use barewire_shm::counters::SlotCounters;
use barewire_sys::process::Credentials;
use slab::Slab;

use crate::apertures::imported::Imported;
use crate::apertures::layout::ApertureId;
use crate::error::{Error, Result};
use crate::links::budget::Charges;
use crate::links::connection::ConnectionCore;
use crate::tables::entries::ConnectionEntry;
use crate::tables::hot::HotSet;

/// An event that has not been handed out.
pub(crate) enum Pending {
    Request {
        number: u32,
        serial: u64,
    },
    Connected {
        number: u32,
        serial: u64,
    },
    Ready(u32),
    Closed {
        number: u32,
        serial: u64,
    },
    OutOfBand {
        link: (usize, u32),
        number: u32,
        serial: u64,
        data: Vec<u8>,
        charges: Charges,
    },
    Granted {
        number: u32,
        serial: u64,
        cookie: u64,
        aperture: Arc<Imported>,
        charges: Charges,
    },
    Completion {
        cookie: u64,
        result: Result<Vec<u8>>,
    },
}

/// An event as the tables hand it out. Handles are made of it by whoever takes it.
pub(crate) enum Found {
    Request(Requested),
    Connected(Box<Opened>),
    ConnectFailed {
        number: u32,
        error: Error,
    },
    Ready(u32),
    Closed {
        number: u32,
        reason: Error,
    },
    OutOfBand {
        number: u32,
        data: Vec<u8>,
    },
    Granted {
        number: u32,
        cookie: u64,
        aperture: Arc<Imported>,
    },
    Tripwire {
        cookie: u64,
        aperture: ApertureId,
    },
    Completion {
        cookie: u64,
        result: Result<Vec<u8>>,
    },
}

/// A request to connect that waits for an answer.
pub(crate) struct Requested {
    pub number: u32,
    pub serial: u64,
    pub peer: Credentials,
    pub name: String,
    pub data: Vec<u8>,
}

/// An open connection, of which its handle is made.
pub(crate) struct Opened {
    pub core: Arc<ConnectionCore>,
    pub counters: Option<SlotCounters>,
    pub sender: RingSender<Window, Window>,
    /// Longest message that the peer takes.
    pub sent_bytes_max: u64,
    pub receiver: RingReceiver<Window, Window>,
    /// Longest message that we take.
    pub received_bytes_max: usize,
    /// Private memory for messages in pieces, if the peer is of another user.
    pub allowance: Option<Arc<dyn Allowance>>,
}

/// Events that have not been handed out, and readiness that is perhaps to be told again.
#[derive(Default)]
pub(crate) struct Events {
    /// Whoever adds one attracts attention.
    pub pending: VecDeque<Pending>,
    /// Connections whose readiness was told and is perhaps to be told again.
    pub reported: VecDeque<u32>,
    /// Whether those go before new arrivals this time; they take turns.
    pub reported_first: bool,
    /// Which connections the events come from.
    pub hot: HotSet,
    /// Apertures that came too late, to be dropped without the lock: that may take its time.
    pub unclaimed: Vec<Arc<Imported>>,
}

impl Events {
    /// Drops the news of connections that are no more.
    pub fn drop_outdated(&mut self, connections: &Slab<ConnectionEntry>) {
        let is_live = |number: u32, serial: u64| {
            let entry = connections.get(number as usize);
            entry.is_some_and(|e| e.serial == serial && !e.handle_gone)
        };
        self.pending.retain(|pending| match *pending {
            Pending::Ready(number) => {
                let entry = connections.get(number as usize);
                entry.is_some_and(|e| !e.handle_gone)
            }
            Pending::Request { number, serial }
            | Pending::Connected { number, serial }
            | Pending::Closed { number, serial } => is_live(number, serial),
            Pending::OutOfBand { .. } | Pending::Granted { .. } | Pending::Completion { .. } => {
                true
            }
        });
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.reported.is_empty()
    }
}
