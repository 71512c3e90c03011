//! A running program, and what it does things with.

use std::collections::BTreeMap;

use barewire_units::Instant;

use crate::experiment::Table;
use crate::workbench::bench::{Bench, Note, Sim};

/// A running program.
pub(in crate::network) trait Program {
    /// Begins.
    fn begin(&mut self, desk: &mut Hands<'_>);

    /// Something that it waits for has happened at `host`.
    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>);

    /// A message of its is lost.
    fn lost(&mut self, message: u32, desk: &mut Hands<'_>);

    /// Whether it has done what it was to do.
    fn is_done(&self) -> bool;

    /// Adds what it has found to the tables.
    fn tell(&mut self, name: &str, bench: &Bench, tables: &mut Tables);
}

/// The tables of the programs, one for each kind.
pub(in crate::network) struct Tables {
    pub pings: Table,
    pub streams: Table,
    pub requests: Table,
    pub incasts: Table,
    pub tcp_streams: Table,
    pub tcp_requests: Table,
    /// Where the time of round trips goes: of a program, at a place, on a part, in us.
    pub paths: Vec<(String, u16, &'static str, f64)>,
}

/// What a program does things with.
pub(in crate::network) struct Hands<'a> {
    pub bench: &'a mut Bench,
    pub sim: &'a mut Sim,
    /// Its own number.
    pub program: u16,
    /// Whether no other program runs on the hosts of this one.
    pub alone: bool,
    /// The cards that it names, by host: its messages leave by those.
    pub cards: &'a BTreeMap<u16, u8>,
    /// The program of each message.
    pub owners: &'a mut Vec<u16>,
    /// IP packets under way, by their messages.
    pub packets: &'a mut BTreeMap<u32, Vec<u8>>,
    /// The program of each time that was set, and the number by which it knows it.
    pub ticks: &'a mut Vec<(u16, u32)>,
}

impl Hands<'_> {
    pub(super) fn now(&self) -> Instant {
        self.sim.now()
    }

    pub(super) fn post(&mut self, from: u16, to: u16, bytes: u64, about: u64) -> u32 {
        self.owners.push(self.program);
        let number = self.bench.post(from, to, bytes, about);
        self.bench.messages[number as usize].card = self.cards.get(&from).copied();
        number
    }

    /// Whether there are messages of this program that its host has not begun to send.
    pub(super) fn has_posted(&self, host: u16) -> bool {
        let own = |message: u32| self.owners[message as usize] == self.program;
        self.bench.outbox(host).any(own)
    }

    /// Sends an IP packet as a message of its length.
    pub(super) fn post_packet(&mut self, (from, to): (u16, u16), packet: Vec<u8>, about: u64) {
        let message = self.post(from, to, packet.len() as u64, about);
        self.packets.insert(message, packet);
    }

    /// The packet of a message that has come, or was lost.
    pub(super) fn take_packet(&mut self, message: u32) -> Option<Vec<u8>> {
        self.packets.remove(&message)
    }

    pub(super) fn tick(&mut self, host: u16, number: u32, at: Instant) {
        let tick = self.ticks.len() as u32;
        self.ticks.push((self.program, number));
        self.bench.tick(host, tick, at, self.sim);
    }
}
