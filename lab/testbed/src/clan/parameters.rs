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
use crate::refuse::Limits;

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
        let parameters: Self = toml::from_str(text)?;
        LIMITS.check("", &parameters)?;
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
