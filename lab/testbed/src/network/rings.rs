//! Rings that lines lead to: stations that wait for a slot or for the token, and the ring that
//! carries what they send.
//!
//! A ring keeps no time. It says when it wants to be told that a time has come, and what has
//! become of the frames that it was offered.

mod common;
mod slotted;
mod token;

use std::collections::VecDeque;

use barewire_models::workbench::Frame;
use barewire_units::Instant;

use super::places::End;
use crate::workbench::path::StepId;
use common::Carried;

pub(super) use common::{Out, RingTables};
pub(super) use slotted::{SlottedLoad, SlottedRing, SlottedSpec};
pub(super) use token::{TokenLoad, TokenRing, TokenSpec};

/// What kind of ring, and all that is on it.
enum Kind {
    Slotted(Box<SlottedRing>),
    Token(Box<TokenRing>),
}

/// A ring with its stations.
pub(super) struct Ring {
    pub place: u16,
    pub node: u16,
    /// What is at each station; nothing at those that only load the ring.
    pub ends: Vec<Option<End>>,
    /// For each host, the station towards it.
    pub ways: Vec<Option<u16>>,
    kind: Kind,
}

impl Ring {
    pub(super) fn slotted(ring: SlottedRing) -> Self {
        Self::of(Kind::Slotted(Box::new(ring)))
    }

    pub(super) fn token(ring: TokenRing) -> Self {
        Self::of(Kind::Token(Box::new(ring)))
    }

    const fn of(kind: Kind) -> Self {
        Self {
            place: 0,
            node: 0,
            ends: Vec::new(),
            ways: Vec::new(),
            kind,
        }
    }

    /// A station has a frame, and no other under way.
    pub(super) fn offer(&mut self, station: usize, frame: Frame, step: StepId, now: Instant) {
        let carried = Carried { frame, step };
        let to = self.ways.get(usize::from(frame.piece.to));
        let to = to.copied().flatten().map(usize::from);
        let Some(to) = to.filter(|&to| to != station) else {
            // The check of the plan has seen to it that there is a way.
            let outs = self.outs();
            outs.push_back(Out::Lost { frame });
            outs.push_back(Out::Left { station, step });
            return;
        };
        match &mut self.kind {
            Kind::Slotted(ring) => ring.offer(station, to, carried),
            Kind::Token(ring) => ring.offer(station, to, carried, now),
        }
    }

    /// A time has come that the ring has asked for.
    pub(super) fn happen(&mut self, code: u64, now: Instant) {
        match &mut self.kind {
            Kind::Slotted(ring) => ring.happen(code, now),
            Kind::Token(ring) => ring.happen(code, now),
        }
    }

    /// What it wants next.
    pub(super) fn poll(&mut self) -> Option<Out> {
        self.outs().pop_front()
    }

    fn outs(&mut self) -> &mut VecDeque<Out> {
        match &mut self.kind {
            Kind::Slotted(ring) => &mut ring.outs,
            Kind::Token(ring) => &mut ring.outs,
        }
    }

    /// Whether loads of its own are still under way, for which the run has to go on.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        match &self.kind {
            Kind::Slotted(ring) => ring.is_done(now),
            Kind::Token(ring) => ring.is_done(now),
        }
    }

    /// Adds a row of what it has carried until `end`, and of its loads.
    pub(super) fn tell(&mut self, name: &str, end: Instant, tables: &mut RingTables) {
        match &mut self.kind {
            Kind::Slotted(ring) => ring.tell(name, end, tables),
            Kind::Token(ring) => ring.tell(name, end, tables),
        }
    }
}
