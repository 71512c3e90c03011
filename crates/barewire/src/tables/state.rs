//! A node's tables: links, connections, listeners, doorbells, events; under one lock.
//!
//! Everything here is off the data path. This file holds the tables; the files beside it hold
//! what is done to them.

use std::collections::HashMap;
use std::sync::Arc;

use barewire_fabric::OverBudget;
use barewire_sys::memory::Placement;
use barewire_sys::wake::EventFd;
use slab::Slab;

use crate::error::Misconduct;
use crate::links::base::Base;
use crate::links::budget::{Accounts, Charges, Resource};
use crate::messages::passed::Checked;
use crate::tables::doorbells::Doorbells;
use crate::tables::entries::{ConnectionEntry, ListenerEntry, Phase};
use crate::tables::events::{Events, Pending};
use crate::tables::exports::Exports;
use crate::tables::peer::{Peer, Stage};

/// The tables of a node.
pub(crate) struct State {
    pub base: Arc<Base>,
    pub doorbells: Doorbells,
    pub events: Events,
    pub peers: Slab<Peer>,
    pub peer_generation: u32,
    pub by_node_id: HashMap<[u64; 2], usize>,
    pub by_name: HashMap<(u32, String), usize>,
    /// Links to be closed: index, generation, and what their peers did.
    pub to_close: Vec<(usize, u32, Option<Misconduct>)>,
    /// A peer's word has been handled, for which some thread may be waiting.
    pub news: bool,
    pub connections: Slab<ConnectionEntry>,
    next_serial: u64,
    pub listeners: Listeners,
    pub exports: Exports,
    pub accounts: Accounts,
    /// Where the memory that we make is to lie.
    pub placement: Placement,
}

/// The names that a node listens to.
#[derive(Default)]
pub(crate) struct Listeners {
    pub entries: Slab<ListenerEntry>,
    /// Their sockets are not looked at until more has been closed.
    pub paused: bool,
    /// A descriptor in reserve.
    pub spare: Option<EventFd>,
}

impl Listeners {
    /// A request of this listener has been answered, or is none any more.
    pub fn request_answered(&mut self, listener: Option<usize>) {
        if let Some(listener) = listener.and_then(|l| self.entries.get_mut(l)) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}

impl State {
    /// Empty. The memory that the node makes lies where `placement` says.
    pub fn new(
        base: Arc<Base>,
        doorbells: Doorbells,
        accounts: Accounts,
        placement: Placement,
    ) -> State {
        State {
            base,
            doorbells,
            events: Events::default(),
            peers: Slab::new(),
            peer_generation: 0,
            by_node_id: HashMap::new(),
            by_name: HashMap::new(),
            to_close: Vec::new(),
            news: false,
            connections: Slab::new(),
            next_serial: 1,
            listeners: Listeners {
                spare: EventFd::new().ok(),
                ..Listeners::default()
            },
            exports: Exports::default(),
            accounts,
            placement,
        }
    }

    /// Adds an event, to be found by the next poll. A sleeper is not woken: for that, ring
    /// [`OWN_SOURCE`](crate::tables::doorbells::OWN_SOURCE).
    pub fn push(&mut self, pending: Pending) {
        // An owner that never polls would else keep the news of all it ever had.
        if self.events.pending.len() == self.events.pending.capacity() {
            self.events.drop_outdated(&self.connections);
        }
        self.events.pending.push_back(pending);
        self.attract();
    }

    /// Has the next poll look here.
    pub fn attract(&self) {
        self.base.set_attention(true);
    }

    pub fn push_ready(&mut self, number: u32) {
        self.push(Pending::Ready(number));
    }

    /// Whether nothing has to be looked at but the own page.
    pub fn is_settled(&self) -> bool {
        self.events.is_empty() && self.doorbells.is_settled()
    }

    /// Whether a poll would find something to look at.
    pub fn has_work(&self) -> bool {
        !self.events.is_empty() || self.doorbells.has_work()
    }

    pub fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// The connection with this number, if it is still the same use of it.
    pub fn connection(&mut self, number: u32, serial: u64) -> Option<&mut ConnectionEntry> {
        let entry = self.connections.get_mut(number as usize)?;
        (entry.serial == serial).then_some(entry)
    }

    /// The link of an open connection and its number at the peer.
    pub fn route(&self, number: u32) -> Option<(usize, u32)> {
        let entry = self.connections.get(number as usize)?;
        Some((entry.link, entry.peer_half.as_ref()?.number))
    }

    pub fn is_peer(&self, index: usize, generation: u32) -> bool {
        self.peers
            .get(index)
            .is_some_and(|p| p.generation == generation)
    }

    /// Whether a peer is of another user.
    pub fn is_foreign(&self, index: usize) -> bool {
        let peer = self.peers.get(index);
        peer.is_some_and(|p| p.credentials.uid != self.base.own.uid)
    }

    pub fn is_up(&self, index: usize) -> bool {
        let up = |p: &Peer| matches!(p.stage, Stage::Up(_));
        self.peers.get(index).is_some_and(up)
    }

    /// Our connection with this number, if it is one with this peer.
    pub fn own_connection(&self, index: usize, number: u32) -> Checked<Phase> {
        self.connections
            .get(number as usize)
            .filter(|entry| entry.link == index)
            .map(|entry| entry.phase)
            .ok_or(Misconduct::Control(
                "speaks of a connection that is not its own",
            ))
    }

    /// The serial of our connection with this number, if it stands; `None` if we have let
    /// go of it, which the peer need not know yet.
    pub fn serial_if_open(&self, index: usize, number: u32) -> Checked<Option<u64>> {
        let phase = self.own_connection(index, number)?;
        let entry = &self.connections[number as usize];
        match phase {
            Phase::Open if !entry.handle_gone => Ok(Some(entry.serial)),
            Phase::Open | Phase::Abandoned => Ok(None),
            Phase::Opening | Phase::Requested => Err(Misconduct::Control(
                "speaks on a connection that does not stand",
            )),
        }
    }

    pub fn connection_uid(&self, number: u32) -> Option<u32> {
        let entry = self.connections.get(number as usize)?;
        self.peers.get(entry.link)?.uid()
    }

    pub fn count_handed_out(&mut self, number: u32, serial: u64) {
        if let Some(entry) = self.connection(number, serial) {
            entry.events = entry.events.saturating_sub(1);
        }
    }

    /// Charges the user of a peer, unless it is our own.
    pub fn charge(
        &mut self,
        index: usize,
        wanted: &[(Resource, u64)],
    ) -> core::result::Result<Charges, OverBudget> {
        let uid = self.peers.get(index).map(|p| p.credentials.uid);
        match uid.filter(|uid| *uid != self.base.own.uid) {
            Some(uid) => self.accounts.charge(uid, wanted),
            None => Ok(Charges::default()),
        }
    }

    /// The node goes away: tells all peers.
    pub fn send_bye(&mut self) {
        for (_, peer) in &self.peers {
            peer.send_bye();
        }
    }
}
