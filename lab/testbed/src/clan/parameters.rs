//! The parameter file of CLAN, and the models' configurations made of it.

use barewire_fabric::frame::{LINE_BYTES, ring_bytes_valid};
use barewire_models::clan::{
    BusConfig, CardConfig, Cluster, HostCosts, InterfaceConfig, LinkConfig, PORTS_MAX, PORTS_MIN,
    RivalConfig,
};
use barewire_models::parameters;
use barewire_units::{ByteSize, Duration, Rate};

use super::windowed::Stream;
use crate::error::SystemError;
use crate::refuse::{self, BYTE, Limits, MOMENT, at_least, within, wrong};

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/clan.toml");

/// Less makes runs endless.
const TIME_MIN: Duration = Duration::from_ns(1);
/// Longer times make clocks overflow.
const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    slowest: Rate::from_mbps(1),
    largest: ByteSize::from_mib(1),
    but: &["bus.word", "endpoint.state", "endpoint.cache"],
    ..Limits::NONE
};
/// Stores of a ring are so wide, and arrive whole or not at all.
const WORD_BYTES: u64 = 8;

parameters! {
    /// The file.
    pub struct Parameters {
        pub link: LinkConfig,
        pub switch: Switch,
        pub card: CardConfig,
        pub bus: BusConfig,
        pub host: HostCosts,
        pub queue: Queue,
        pub endpoint: Endpoint,
        pub gige_tcp: RivalConfig,
        pub gige_udp: RivalConfig,
        pub via: RivalConfig,
        pub gige_stream: Stream,
        pub via_stream: Stream,
    }
}

parameters! {
    pub struct Switch {
        pub ports: usize,
        pub latency: Duration,
    }
}

parameters! {
    pub struct Queue {
        pub ring: ByteSize,
        pub message: ByteSize,
    }
}

parameters! {
    pub struct Endpoint {
        pub state: ByteSize,
        pub cache: ByteSize,
    }
}

fn bytes(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}

impl Parameters {
    /// Reads a file and checks that its values go together.
    pub fn parse(text: &str) -> Result<Self, SystemError> {
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        let ring = self.ring_bytes();
        if !ring_bytes_valid(ring) {
            return Err(wrong("queue.ring", self.queue.ring, "the size of a ring"));
        }
        within("queue.message", self.message_bytes(), 1..=ring / 4 - 64)?;
        at_least("link.payload_max", self.link.payload_max, BYTE)?;
        at_least("bus.word", self.bus.word, BYTE)?;
        let entry = self.host.write_entry;
        at_least("host.write_entry", entry, BYTE)?;
        at_least("host.write_entries", self.host.write_entries, 1)?;
        if entry.as_bytes() % WORD_BYTES != 0 {
            let expected = format!("words of {WORD_BYTES} B, which go to the bus whole");
            return Err(wrong("host.write_entry", entry, expected));
        }
        within("switch.ports", self.switch.ports, PORTS_MIN..=PORTS_MAX)?;
        at_least("card.fifo", self.card.fifo, BYTE)?;
        at_least("endpoint.state", self.endpoint.state, BYTE)?;
        at_least("host.poll", self.host.poll, TIME_MIN)?;
        at_least("bus.clock", self.bus.clock, TIME_MIN)?;
        for stream in [&self.gige_stream, &self.via_stream] {
            at_least("frame of a stream", stream.frame, BYTE)?;
            at_least("frames_per_update", stream.frames_per_update, 1)?;
        }
        for rival in [&self.gige_tcp, &self.gige_udp, &self.via] {
            at_least("queue of a rival", rival.queue, 1)?;
            at_least("program of a rival", rival.program, MOMENT)?;
        }
        Ok(())
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

    /// Bytes of an entry of the write buffer.
    pub fn write_entry_bytes(&self) -> usize {
        bytes(self.host.write_entry)
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
            host: self.host,
            bus: self.bus,
            card: self.card,
            link: self.link,
        }
    }
}
