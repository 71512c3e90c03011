//! The parameter file of CLAN, and the models' configurations made of it.

use barewire_fabric::frame::ring_bytes_valid;
use barewire_models::clan::{InterfaceConfig, RivalConfig};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use super::program::Costs;
use crate::SystemError;

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/clan.toml");

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    pub link: Link,
    pub switch: Switch,
    pub card: Card,
    pub bus: Bus,
    pub host: Host,
    pub queue: Queue,
    pub gige_tcp: RivalHost,
    pub gige_udp: RivalHost,
    pub via: RivalHost,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub rate: Rate,
    pub payload_max: ByteSize,
    pub overhead: ByteSize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    pub latency: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub latency: Duration,
    pub fifo: ByteSize,
    pub cam_entries: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    pub clock: Duration,
    pub word: ByteSize,
    pub processor_burst: Duration,
    pub card_burst: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub write_entry: ByteSize,
    pub write_entries: usize,
    pub poll: Duration,
    pub send: Duration,
    pub receive: Duration,
    pub line: Duration,
    pub dispatch: Duration,
    pub poll_window: Duration,
    pub wake: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub ring: ByteSize,
    pub message: ByteSize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RivalHost {
    pub one_way: Duration,
    pub held_back: Duration,
    pub protocol: Duration,
    pub program: Duration,
    pub queue: usize,
}

impl RivalHost {
    pub fn config(&self) -> RivalConfig {
        RivalConfig {
            held_back: self.held_back,
            protocol: self.protocol,
            program: self.program,
            queue: self.queue,
        }
    }
}

fn bytes(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}

impl Parameters {
    /// Reads a file and checks that its values go together.
    pub fn parse(text: &str) -> Result<Self, SystemError> {
        let parameters: Self = toml::from_str(text)?;
        match parameters.contradiction() {
            Some(why) => Err(SystemError::Contradiction(why)),
            None => Ok(parameters),
        }
    }

    fn contradiction(&self) -> Option<String> {
        let ring = bytes(self.queue.ring);
        let message = bytes(self.queue.message);
        let rivals = [&self.gige_tcp, &self.gige_udp, &self.via];
        if !ring_bytes_valid(ring) {
            Some(format!("queue.ring: {ring} B is not a ring"))
        } else if message == 0 || message > ring / 4 - 64 {
            Some(format!(
                "queue.message: {message} B is not a frame of the ring"
            ))
        } else if self.link.payload_max.as_bytes() == 0 || self.bus.word.as_bytes() == 0 {
            Some("link.payload_max, bus.word: nothing in it".into())
        } else if self.host.write_entry.as_bytes() == 0 || self.host.write_entries == 0 {
            Some("host.write_entry, host.write_entries: no write buffer".into())
        } else if self.card.fifo.as_bytes() == 0 {
            Some("card.fifo: nothing fits".into())
        } else if self.host.poll.is_zero() || self.bus.clock.is_zero() {
            Some("host.poll, bus.clock: no time at all".into())
        } else if rivals
            .iter()
            .any(|it| it.queue == 0 || it.program.is_zero())
        {
            Some("a rival with no queue, or a program that takes no time".into())
        } else {
            None
        }
    }

    /// Bytes of a ring.
    pub fn ring_bytes(&self) -> usize {
        bytes(self.queue.ring)
    }

    /// Bytes of a request and of an answer.
    pub fn message_bytes(&self) -> usize {
        bytes(self.queue.message)
    }

    pub fn interface(&self) -> InterfaceConfig {
        InterfaceConfig {
            entry_bytes: bytes(self.host.write_entry),
            entries: self.host.write_entries,
            bus_word_bytes: bytes(self.bus.word),
            bus_clock: self.bus.clock,
            processor_burst: self.bus.processor_burst,
            card_burst: self.bus.card_burst,
            payload_bytes_max: bytes(self.link.payload_max),
            packet_overhead: self.link.overhead,
            link: self.link.rate,
            fifo_bytes: bytes(self.card.fifo),
            cam_entries: self.card.cam_entries,
        }
    }

    pub fn costs(&self) -> Costs {
        Costs {
            poll: self.host.poll,
            send: self.host.send,
            receive: self.host.receive,
            line: self.host.line,
            dispatch: self.host.dispatch,
            poll_window: self.host.poll_window,
        }
    }
}
