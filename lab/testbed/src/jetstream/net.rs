//! What carries messages from host to host: rings, alone or joined by the switch; the rival, an ATM switch; or a
//! ring and an ATM switch that an interworking unit joins. Whoever sends and receives is the same on all of them.
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
//! | `AtUnit` | a frame of the ring is whole in the interworking unit |
//! | `CellThere` | a cell is in the interworking unit, or in a host beyond it |
//! | `Rest` | cells may have rested there for too long |

use barewire_classic::token::Class;
use barewire_des::{Event, Simulator};
use barewire_units::Instant;

use super::cells::Cells;
use super::joined::Joined;
use super::lan::Lan;
pub use super::traffic::{Fate, Happening, Message, NetEvent, Spread, Traffic, Why};
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// The way of the messages.
pub enum Medium {
    Rings(Box<Lan>),
    Atm(Box<Cells>),
    Joined(Box<Joined>),
}

impl Medium {
    /// The rings, if there are any.
    pub fn lan(&self) -> Option<&Lan> {
        match self {
            Self::Rings(lan) => Some(lan),
            Self::Joined(joined) => Some(&joined.lan),
            Self::Atm(_) => None,
        }
    }

    /// The same, to change them.
    pub fn lan_mut(&mut self) -> Option<&mut Lan> {
        match self {
            Self::Rings(lan) => Some(lan),
            Self::Joined(joined) => Some(&mut joined.lan),
            Self::Atm(_) => None,
        }
    }
}

/// A network.
pub struct Network {
    pub traffic: Traffic,
    pub medium: Medium,
}

impl Network {
    pub fn new(medium: Medium, recording: bool) -> Self {
        let mut traffic = Traffic::default();
        traffic.recording = recording;
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
        if world.as_mut().medium.lan().is_none() {
            return Ok(sim.now());
        }
        Lan::begin(sim);
        sim.run_until(sim.now() + Lan::START_LIMIT, world);
        match world.as_mut().medium.lan() {
            Some(lan) if !lan.is_up() => Err(SystemError::Contradiction(format!(
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
            mangled: None,
        });
        self.traffic.on_their_way += 1;
        match &mut self.medium {
            Medium::Rings(lan) => lan.send(index, &mut self.traffic, sim),
            Medium::Atm(cells) => cells.send(index, &mut self.traffic, sim),
            Medium::Joined(joined) => joined.send(index, &mut self.traffic, sim),
        }
        index
    }

    pub fn handle<E: Event + From<NetEvent>>(&mut self, event: NetEvent, sim: &mut Simulator<E>) {
        match (&mut self.medium, event) {
            (Medium::Joined(joined), event) => joined.handle(event, &mut self.traffic, sim),
            (_, NetEvent::Whole(message)) => self.traffic.receive(message),
            (Medium::Rings(lan), event) => lan.handle(event, &mut self.traffic, sim),
            (Medium::Atm(cells), event) => cells.handle(event, &mut self.traffic, sim),
        }
    }

    /// Whether nothing is on its way, not even what is left of messages that were lost.
    pub fn is_idle(&self) -> bool {
        let left = matches!(&self.medium, Medium::Joined(joined) if !joined.cells.is_idle());
        self.traffic.on_their_way == 0 && !left
    }

    /// Leaves turns of idle rings out, while nothing is on its way.
    pub fn rest<E: Event + From<NetEvent>>(&mut self, sim: &mut Simulator<E>) {
        if self.is_idle() {
            if let Some(lan) = self.medium.lan_mut() {
                lan.rest(sim);
            }
        }
    }

    /// Something is about to be sent: no turn is left out from here on.
    pub fn go_on<E: Event + From<NetEvent>>(&mut self, sim: &mut Simulator<E>) {
        if let Some(lan) = self.medium.lan_mut() {
            lan.go_on(sim);
        }
    }

    /// What was recorded.
    pub fn take_links(&mut self) -> Vec<LinkCapture> {
        match &mut self.medium {
            Medium::Rings(lan) => std::mem::take(&mut lan.links),
            Medium::Atm(cells) => std::mem::take(&mut cells.links),
            Medium::Joined(joined) => joined.take_links(),
        }
    }
}
