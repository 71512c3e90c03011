//! The parameter file of CLAN, and the models' configurations made of it.

use barewire_fabric::frame::{LINE_BYTES, ring_bytes_valid};
use barewire_models::clan::{Cluster, InterfaceConfig, PORTS_MAX, PORTS_MIN, RivalConfig};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use super::step::Costs;
use super::windowed::Stream;
use crate::error::SystemError;

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/clan.toml");

/// Less makes runs endless.
const TIME_MIN: Duration = Duration::from_ns(1);
/// More makes clocks overflow.
const TIME_MAX: Duration = Duration::from_ms(1000);
const RATE_MIN: Rate = Rate::from_mbps(1);
const SIZE_MAX: ByteSize = ByteSize::from_mib(1);
/// Stores of a ring are so wide, and arrive whole or not at all.
const WORD_BYTES: u64 = 8;

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
    pub endpoint: Endpoint,
    pub gige_tcp: RivalHost,
    pub gige_udp: RivalHost,
    pub via: RivalHost,
    pub gige_stream: Stream,
    pub via_stream: Stream,
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
    pub ports: usize,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub state: ByteSize,
    pub cache: ByteSize,
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
        let streams = [&self.gige_stream, &self.via_stream];
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
        } else if self.host.write_entry.as_bytes() % WORD_BYTES != 0 {
            Some(format!(
                "host.write_entry: {}, but words of {WORD_BYTES} B go to the bus whole",
                self.host.write_entry
            ))
        } else if !(PORTS_MIN..=PORTS_MAX).contains(&self.switch.ports) {
            Some(format!(
                "switch.ports: {}; expected {PORTS_MIN} to {PORTS_MAX}",
                self.switch.ports
            ))
        } else if self.card.fifo.as_bytes() == 0 {
            Some("card.fifo: nothing fits".into())
        } else if self.endpoint.state.as_bytes() == 0 {
            Some("endpoint.state: nothing in it".into())
        } else if self.host.poll < TIME_MIN || self.bus.clock < TIME_MIN {
            Some("host.poll, bus.clock: less than 1 ns".into())
        } else if let Some((key, _)) = self.times().iter().find(|it| it.1 > TIME_MAX) {
            Some(format!("{key}: longer than 1 s"))
        } else if let Some((key, _)) = self.rates().iter().find(|it| it.1 < RATE_MIN) {
            Some(format!("{key}: less than 1 Mbit/s"))
        } else if let Some((key, found)) = self.sizes().iter().find(|it| it.1 > SIZE_MAX) {
            Some(format!("{key}: {found}, which is more than {SIZE_MAX}"))
        } else if streams
            .iter()
            .any(|it| it.frame.as_bytes() == 0 || it.frames_per_update == 0)
        {
            Some("gige_stream, via_stream: frame, frames_per_update: nothing in it".into())
        } else if rivals
            .iter()
            .any(|it| it.queue == 0 || it.program.is_zero())
        {
            Some("a rival with no queue, or a program that takes no time".into())
        } else {
            None
        }
    }

    fn times(&self) -> Vec<(&'static str, Duration)> {
        let (host, bus) = (&self.host, &self.bus);
        let mut times = vec![
            ("switch.latency", self.switch.latency),
            ("card.latency", self.card.latency),
            ("bus.clock", bus.clock),
            ("bus.processor_burst", bus.processor_burst),
            ("bus.card_burst", bus.card_burst),
            ("host.poll", host.poll),
            ("host.send", host.send),
            ("host.receive", host.receive),
            ("host.line", host.line),
            ("host.dispatch", host.dispatch),
            ("host.poll_window", host.poll_window),
            ("host.wake", host.wake),
        ];
        for rival in [&self.gige_tcp, &self.gige_udp, &self.via] {
            times.push(("one_way of a rival", rival.one_way));
            times.push(("held_back of a rival", rival.held_back));
            times.push(("protocol of a rival", rival.protocol));
            times.push(("program of a rival", rival.program));
        }
        for stream in [&self.gige_stream, &self.via_stream] {
            times.push(("one_way of a stream", stream.one_way));
            times.push(("held_back of a stream", stream.held_back));
            times.push(("send of a stream", stream.send));
            times.push(("receive of a stream", stream.receive));
            times.push(("update of a stream", stream.update));
        }
        times
    }

    fn rates(&self) -> [(&'static str, Rate); 5] {
        [
            ("link.rate", self.link.rate),
            ("gige_stream.line", self.gige_stream.line),
            ("gige_stream.copy", self.gige_stream.copy),
            ("via_stream.line", self.via_stream.line),
            ("via_stream.copy", self.via_stream.copy),
        ]
    }

    fn sizes(&self) -> [(&'static str, ByteSize); 9] {
        [
            ("link.payload_max", self.link.payload_max),
            ("link.overhead", self.link.overhead),
            ("card.fifo", self.card.fifo),
            ("host.write_entry", self.host.write_entry),
            ("queue.ring", self.queue.ring),
            ("gige_stream.frame", self.gige_stream.frame),
            ("gige_stream.overhead", self.gige_stream.overhead),
            ("via_stream.frame", self.via_stream.frame),
            ("via_stream.overhead", self.via_stream.overhead),
        ]
    }

    /// Hosts that the two joined switches have ports for.
    pub const fn hosts_max(&self) -> usize {
        Cluster::hosts_max(self.switch.ports)
    }

    /// Bytes of a ring.
    pub fn ring_bytes(&self) -> usize {
        bytes(self.queue.ring)
    }

    /// Bytes of a request and of an answer.
    pub fn message_bytes(&self) -> usize {
        bytes(self.queue.message)
    }

    /// Endpoints whose state the cache holds, and what it takes to load one's from memory.
    pub fn endpoint_state(&self) -> (usize, Duration) {
        let state = self.endpoint.state.as_bytes();
        let cached = self.endpoint.cache.as_bytes() / state;
        let lines = state.div_ceil(LINE_BYTES as u64);
        (cached as usize, self.host.line * lines)
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
