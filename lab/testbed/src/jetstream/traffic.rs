//! What happens in a network of any kind: messages, and what becomes of them.

use barewire_classic::token::Class;
use barewire_des::Event;
use barewire_des::stats::{Histogram, Tally};
use barewire_formats::aal5;
use barewire_models::jetstream::AtmCell;
use barewire_units::{Duration, Instant};
use barewire_wire::capture::exported::TagsRepr;
use std::collections::VecDeque;

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
    AtUnit(usize),
    CellThere(usize, AtmCell),
    Rest,
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
            Self::AtUnit(message) => 9 << 32 | message as u64,
            Self::CellThere(port, cell) => {
                let cell = cell.pdu << 12 | u64::from(cell.index);
                10 << 32 | (port as u64) << 56 ^ cell
            }
            Self::Rest => 11 << 32,
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
    pub head: Vec<u8>,
    /// What an interworking unit has made of the cells of its PDU, if that is something else.
    pub mangled: Option<Vec<u8>>,
}

impl Message {
    /// The payload in an AAL5 PDU, or what has become of that.
    pub fn pdu(&self) -> Vec<u8> {
        if let Some(bytes) = &self.mangled {
            return bytes.clone();
        }
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

    /// Whether what a host of a ring receives passes its check, and is what was sent.
    pub fn is_intact(&self) -> bool {
        let Some(pdu) = &self.mangled else {
            return true;
        };
        let checked = aal5::Pdu::new_checked(&pdu[..]).and_then(|pdu| aal5::PduRepr::parse(&pdu));
        checked.is_ok_and(|it| self.is_of(&pdu[..usize::from(it.payload_bytes)]))
    }

    /// Whether this is its payload.
    pub fn is_of(&self, payload: &[u8]) -> bool {
        let (head, rest) = payload.split_at(self.head.len().min(payload.len()));
        payload.len() == self.payload_bytes
            && head == self.head
            && rest.iter().all(|&byte| byte == 0)
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
    /// Whether whoever sends is to be told what is lost.
    pub tells_losses: bool,
    /// What was lost, and has not been told.
    pub lost: VecDeque<usize>,
    /// The bytes of messages before this one are forgotten.
    forgotten: usize,
}

impl Traffic {
    pub fn lose(&mut self, message: usize, why: Why) {
        if let Some(it) = self.messages.get_mut(message) {
            if it.fate == Fate::OnItsWay {
                it.fate = Fate::Lost(why);
                self.on_their_way -= 1;
                if self.tells_losses {
                    self.lost.push_back(message);
                }
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

impl Traffic {
    /// Forgets the bytes of all messages before `before`, up to the first that is on its way.
    pub fn forget_bytes(&mut self, before: usize) {
        while let Some(message) = self.messages.get_mut(self.forgotten) {
            if self.forgotten >= before || message.fate == Fate::OnItsWay {
                return;
            }
            message.head = Vec::new();
            message.mangled = None;
            self.forgotten += 1;
        }
    }

    /// Forgets all messages, of which none may be on its way.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.forgotten = 0;
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
