//! What carries messages from host to host: rings, alone or joined by the switch, or the rival,
//! an ATM switch. Whoever sends and receives is the same on all of them.
//!
//! | event | what happens |
//! |---|---|
//! | `Card` | the deadline of a card has come |
//! | `Repeat` | until the rings are up: every line repeats its fill |
//! | `Switch` | the deadline of the switch has come |
//! | `ToPort` | a frame is offered to the port that it leaves by |
//! | `PortSent` | its last bit has left that port |
//! | `Whole` | a message is whole at its receiver |
//! | `Line`, `Output` | a host's line, or an output of the ATM switch, is free for the next cell |
//! | `Cell` | a cell is in the ATM switch |

use std::collections::VecDeque;

use barewire_classic::token::Class;
use barewire_des::stats::{Histogram, Tally};
use barewire_des::{Event, Simulator};
use barewire_formats::aal5;
use barewire_models::jetstream::AtmCell;
use barewire_units::{Duration, Instant};
use barewire_wire::capture::exported::TagsRepr;

use super::cells::Cells;
use super::lan::Lan;
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// What happens in a network.
#[derive(Clone, Copy, Debug)]
pub enum NetEvent {
    Card(usize, usize),
    Repeat,
    Switch,
    ToPort(usize),
    PortSent(usize),
    Whole(usize),
    Line(usize),
    Output(usize),
    Cell(AtmCell),
}

impl Event for NetEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Card(ring, station) => (ring as u64) << 8 | station as u64,
            Self::Repeat => 1 << 32,
            Self::Switch => 2 << 32,
            Self::ToPort(message) => 3 << 32 | message as u64,
            Self::PortSent(message) => 4 << 32 | message as u64,
            Self::Whole(message) => 5 << 32 | message as u64,
            Self::Line(host) => 6 << 32 | host as u64,
            Self::Output(port) => 7 << 32 | port as u64,
            Self::Cell(cell) => 8 << 32 | cell.pdu << 12 | u64::from(cell.index),
        }
    }
}

/// Why a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The queue of its sender was full.
    Refused,
    /// The switch had no room for it, or for a cell of it.
    NoRoom,
    /// A bit of it was damaged, or it broke between two clocks.
    Damaged,
    /// The PDU before it had lost its end.
    Spoilt,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    OnItsWay,
    Received,
    Lost(Why),
}

/// What a host sends.
#[derive(Clone, Debug)]
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub class: Class,
    pub payload_bytes: usize,
    pub fate: Fate,
    /// What the payload begins with where it is recorded; the rest is zeros.
    head: Vec<u8>,
}

impl Message {
    /// The payload in an AAL5 PDU.
    pub fn pdu(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.pdu_bytes()];
        let head = self.head.len().min(self.payload_bytes);
        bytes[..head].copy_from_slice(&self.head[..head]);
        let trailer_at = bytes.len() - aal5::TRAILER_BYTES;
        let length = (self.payload_bytes as u16).to_be_bytes();
        bytes[trailer_at + 2..trailer_at + 4].copy_from_slice(&length);
        let mut crc = aal5::Crc32::new();
        crc.update(&bytes[..bytes.len() - 4]);
        let crc_at = bytes.len() - 4;
        bytes[crc_at..].copy_from_slice(&crc.finish().to_be_bytes());
        bytes
    }

    pub fn pdu_bytes(&self) -> usize {
        aal5::pdu_bytes(self.payload_bytes)
    }
}

/// What hosts notice of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The first bit of a message has left, and the last will or did.
    Sent {
        message: usize,
        began: Instant,
        ends: Instant,
    },
    /// It is whole at its receiver.
    Received(usize),
}

/// Every message, and what the hosts have not yet been told.
#[derive(Default)]
pub struct Traffic {
    pub messages: Vec<Message>,
    pub happenings: VecDeque<Happening>,
    pub recording: bool,
    /// Messages that are neither received nor lost.
    pub on_their_way: u64,
}

impl Traffic {
    pub fn lose(&mut self, message: usize, why: Why) {
        if let Some(message) = self.messages.get_mut(message) {
            if message.fate == Fate::OnItsWay {
                message.fate = Fate::Lost(why);
                self.on_their_way -= 1;
            }
        }
    }

    pub fn receive(&mut self, message: usize) {
        if let Some(it) = self.messages.get_mut(message) {
            if it.fate == Fate::OnItsWay {
                it.fate = Fate::Received;
                self.on_their_way -= 1;
                self.happenings.push_back(Happening::Received(message));
            }
        }
    }
}

/// The way of the messages.
pub enum Medium {
    Rings(Box<Lan>),
    Atm(Box<Cells>),
}

/// A network.
pub struct Network {
    pub traffic: Traffic,
    pub medium: Medium,
}

impl Network {
    pub fn new(medium: Medium, recording: bool) -> Self {
        let traffic = Traffic {
            recording,
            ..Traffic::default()
        };
        Self { traffic, medium }
    }

    /// Gets it ready: rings come up. The simulator then stands where hosts may begin.
    ///
    /// # Errors
    /// The rings do not come up.
    pub fn start<W>(world: &mut W, sim: &mut Simulator<W::Event>) -> Result<Instant, SystemError>
    where
        W: barewire_des::World + AsMut<Self>,
        W::Event: From<NetEvent>,
    {
        if let Medium::Atm(_) = world.as_mut().medium {
            return Ok(sim.now());
        }
        Lan::begin(sim);
        sim.run_until(sim.now() + Lan::START_LIMIT, world);
        match &world.as_mut().medium {
            Medium::Rings(lan) if !lan.is_up() => Err(SystemError::Contradiction(format!(
                "ring: not up after {}",
                Lan::START_LIMIT
            ))),
            _ => Ok(sim.now()),
        }
    }

    /// A host sends a message; `head` gives what it begins with, if that is recorded.
    pub fn send<E: Event + From<NetEvent>>(
        &mut self,
        sim: &mut Simulator<E>,
        from: usize,
        to: usize,
        class: Class,
        payload_bytes: usize,
        head: impl FnOnce() -> Vec<u8>,
    ) -> usize {
        let index = self.traffic.messages.len();
        let head = if self.traffic.recording {
            head()
        } else {
            Vec::new()
        };
        self.traffic.messages.push(Message {
            from,
            to,
            class,
            payload_bytes,
            fate: Fate::OnItsWay,
            head,
        });
        self.traffic.on_their_way += 1;
        match &mut self.medium {
            Medium::Rings(lan) => lan.send(index, &mut self.traffic, sim),
            Medium::Atm(cells) => cells.send(index, &mut self.traffic, sim),
        }
        index
    }

    pub fn handle<E: Event + From<NetEvent>>(&mut self, event: NetEvent, sim: &mut Simulator<E>) {
        if let NetEvent::Whole(message) = event {
            return self.traffic.receive(message);
        }
        match &mut self.medium {
            Medium::Rings(lan) => lan.handle(event, &mut self.traffic, sim),
            Medium::Atm(cells) => cells.handle(event, &mut self.traffic, sim),
        }
    }

    /// What was recorded.
    pub fn take_links(&mut self) -> Vec<LinkCapture> {
        match &mut self.medium {
            Medium::Rings(lan) => std::mem::take(&mut lan.links),
            Medium::Atm(cells) => std::mem::take(&mut cells.links),
        }
    }
}

/// A packet of `bytes` for the dissector of that name.
pub fn exported(dissector: &str, bytes: &[u8]) -> Vec<u8> {
    let tags = TagsRepr::new(dissector);
    let mut packet = vec![0; tags.buffer_len()];
    // Cannot fail: the buffer is as long as the tags say.
    let emitted = tags.emit(&mut packet).is_ok();
    debug_assert!(emitted);
    packet.extend_from_slice(bytes);
    packet
}

/// Times: mean, 99th percentile, longest.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    tally: Tally,
    times: Histogram,
}

impl Spread {
    pub fn add(&mut self, time: Duration) {
        self.tally.add(time.as_ps() as f64);
        self.times.add(time.as_ps());
    }

    pub fn count(&self) -> u64 {
        self.tally.count()
    }

    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.tally.mean() * 1e-6)
    }

    pub fn p99_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.times.per_mille(990) as f64 * 1e-6)
    }

    pub fn longest_us(&self) -> Option<f64> {
        self.tally.range().map(|(_, longest)| longest * 1e-6)
    }
}
