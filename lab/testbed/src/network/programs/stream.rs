//! Messages one after the other, from one host to another.

use barewire_units::{Duration, Instant};

use super::program::{Hands, Program, Tables};
use crate::figures::mbps;
use crate::workbench::bench::{Bench, Note};

/// What a stream is made of.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) struct StreamSpec {
    pub from: u16,
    pub to: u16,
    pub bytes: u64,
    pub messages: u64,
    /// Messages that may be under way; 0: any number.
    pub window: u64,
    /// Bytes of the message by which the receiver allows for more.
    pub credit_bytes: u64,
    pub start: Duration,
}

pub(super) struct Stream {
    spec: StreamSpec,
    posted: u64,
    /// Messages that the receiver has allowed for.
    allowed: u64,
    returned: (u64, Instant),
    received: (u64, Instant),
    /// Data that was lost, and whether a credit was, without which the rest is never sent.
    lost: u64,
    credit_lost: bool,
}

impl Stream {
    pub(super) fn new(spec: StreamSpec) -> Self {
        Self {
            spec,
            posted: 0,
            allowed: spec.window,
            returned: (0, Instant::ORIGIN),
            received: (0, Instant::ORIGIN),
            lost: 0,
            credit_lost: false,
        }
    }

    /// Posts the next message, if it may be sent and the one before has been.
    fn post(&mut self, desk: &mut Hands<'_>) {
        let spec = self.spec;
        let may = spec.window == 0 || self.posted < self.allowed;
        if may && self.posted < spec.messages && !desk.has_posted(spec.from) {
            self.posted += 1;
            desk.post(spec.from, spec.to, spec.bytes, 0);
        }
    }

    fn mbps(&self, (count, last): (u64, Instant)) -> Option<f64> {
        let begun = Instant::ORIGIN.saturating_add(self.spec.start);
        mbps(
            self.spec.bytes * count,
            last.saturating_duration_since(begun),
        )
    }
}

impl Program for Stream {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        let at = Instant::ORIGIN.saturating_add(self.spec.start);
        desk.tick(self.spec.from, 0, at);
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        let is_sender = host == self.spec.from;
        match note {
            Note::Returned(_) if is_sender => {
                self.returned = (self.returned.0 + 1, desk.now());
                self.post(desk);
            }
            Note::Received(message) if is_sender => {
                self.allowed += desk.bench.messages[message as usize].about;
                self.post(desk);
            }
            Note::Tick(_) => self.post(desk),
            Note::Received(_) => {
                self.received = (self.received.0 + 1, desk.now());
                let half = self.spec.window.div_ceil(2);
                if half > 0 && self.received.0 % half == 0 {
                    let (from, to) = (self.spec.to, self.spec.from);
                    desk.post(from, to, self.spec.credit_bytes, half);
                }
            }
            Note::Returned(_) | Note::Worked(_) => {}
        }
    }

    fn lost(&mut self, message: u32, desk: &mut Hands<'_>) {
        if desk.bench.messages[message as usize].from == self.spec.from {
            self.lost += 1;
        } else {
            self.credit_lost = true;
        }
    }

    fn is_done(&self) -> bool {
        let arrived = self.received.0 + self.lost;
        // What was lost is never allowed for again: a window can come to rest before its end.
        let stuck = (self.lost > 0 || self.credit_lost)
            && self.spec.window > 0
            && arrived == self.posted
            && self.posted >= self.allowed;
        arrived == self.spec.messages || stuck
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        tables.streams.row([
            ("program", "", name.into()),
            ("size", "B", self.spec.bytes.into()),
            ("sent", "Mbit/s", self.mbps(self.returned).into()),
            ("received", "Mbit/s", self.mbps(self.received).into()),
            ("messages received", "", self.received.0.into()),
            ("lost", "", self.lost.into()),
            ("never sent", "", (self.spec.messages - self.posted).into()),
        ]);
    }
}
