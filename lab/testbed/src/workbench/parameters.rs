//! The parameters: `parameters/workbench.toml`, and what the models are made of.

use barewire_models::host::{BusConfig, Coalesce, Costs, Memory};
use barewire_models::workbench::{Framing, ReceiverConfig, Taker, TransmitterConfig};
use barewire_models::{choices, parameters};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use super::length::Length;
use crate::error::SystemError;
use crate::refuse::Limits;

choices!(By, Checksum, Length, Receive, Segments, Send);

const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    slowest: Rate::from_kbps(1),
    largest: ByteSize::from_gib(1),
    ..Limits::NONE
};
/// Longest link: half round the world.
const FARTHEST: Length = Length::from_km(20_000);

parameters! {
    pub(super) struct Parameters {
        pub host: Host,
        pub card: Card,
        pub notice: Notice,
        pub driver: Driver,
        pub link: Link,
        pub switch: Switch,
    }
}

parameters! {
    pub(super) struct Host {
        pub processors: u8,
        pub costs: Costs,
        pub memory: Memory,
        pub bus: BusConfig,
    }
}

/// How bytes get to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Send {
    Words,
    Dma,
    Aperture,
}

/// How bytes get from the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Receive {
    Words,
    Dma,
}

/// Who cuts messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Segments {
    Card,
    Driver,
}

/// Who sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Checksum {
    None,
    Card,
    Processor,
}

parameters! {
    pub(super) struct Card {
        pub send: Send,
        receive: Receive,
        segments: Segments,
        block: ByteSize,
        transmit_fifo: ByteSize,
        receive_fifo: ByteSize,
        pub transmit_slots: usize,
        receive_slots: usize,
        pub descriptor: ByteSize,
        pub frame: Duration,
        pub latency: Duration,
        pub checksum: Checksum,
    }
}

/// How the host learns of what has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    Interrupt,
    Poll,
}

parameters! {
    pub(super) struct Notice {
        pub by: By,
        packets: usize,
        delay: Duration,
    }
}

parameters! {
    pub(super) struct Driver {
        pub send_copies: u64,
        pub receive_copies: u64,
        pub socket: ByteSize,
    }
}

parameters! {
    pub(super) struct Link {
        rate: Rate,
        length: Length,
        per_km: Duration,
        payload: ByteSize,
        least: ByteSize,
        overhead: ByteSize,
        trailer: ByteSize,
    }
}

parameters! {
    pub(super) struct Switch {
        pub between_two: bool,
        pub latency: Duration,
        pub cut_through: bool,
        pub buffer: ByteSize,
    }
}

impl Parameters {
    pub(super) fn parse(text: &str) -> Result<Self, SystemError> {
        let parameters: Self = toml::from_str(text)?;
        LIMITS.check("", &parameters)?;
        parameters.check().map_err(SystemError::Contradiction)?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), String> {
        self.check_sizes()?;
        if self.link.length > FARTHEST {
            let length = self.link.length;
            return Err(format!("link.length is {length}, more than {FARTHEST}"));
        }
        if !(1..=2).contains(&self.host.processors) {
            let found = self.host.processors;
            return Err(format!("host.processors is {found}, expected 1 or 2"));
        }
        let counts = [
            ("card.transmit_slots", self.card.transmit_slots),
            ("card.receive_slots", self.card.receive_slots),
            ("notice.packets", self.notice.packets),
        ];
        for (key, count) in counts {
            if !(1..=1 << 20).contains(&count) {
                return Err(format!("{key} is {count}, expected 1 to {}", 1 << 20));
            }
        }
        for (key, copies) in [
            ("driver.send_copies", self.driver.send_copies),
            ("driver.receive_copies", self.driver.receive_copies),
        ] {
            if copies > 2 {
                return Err(format!("{key} is {copies}, expected 0 to 2"));
            }
        }
        self.check_fifos()
    }

    fn check_sizes(&self) -> Result<(), String> {
        let (card, link) = (&self.card, &self.link);
        let at_least_a_byte = [
            ("host.bus.burst", self.host.bus.burst),
            ("host.bus.store_burst", self.host.bus.store_burst),
            ("host.bus.word", self.host.bus.word),
            ("card.block", card.block),
            ("card.transmit_fifo", card.transmit_fifo),
            ("card.receive_fifo", card.receive_fifo),
            ("link.payload", link.payload),
            ("switch.buffer", self.switch.buffer),
        ];
        for (key, size) in at_least_a_byte {
            if size.as_bytes() == 0 {
                return Err(format!("{key} is {size}, expected 1 B or more"));
            }
        }
        if link.least > link.payload {
            let (least, payload) = (link.least, link.payload);
            return Err(format!(
                "link.least is {least}, more than link.payload of {payload}"
            ));
        }
        Ok(())
    }

    /// A frame has to fit the FIFOs, or it never leaves, or never arrives.
    fn check_fifos(&self) -> Result<(), String> {
        let card = &self.card;
        let payload = self.piece_bytes(u64::MAX).min(self.link.payload.as_bytes());
        // A burst that does not fit beside what a frame still lacks would wait for ever.
        let least = payload + self.fill_bytes();
        let found = card.transmit_fifo;
        if found.as_bytes() < least {
            return Err(format!(
                "card.transmit_fifo is {found}; a frame and the burst that completes it need {least} B"
            ));
        }
        let (needs, what) = match self.receiver().taker {
            Taker::Engine => (payload, "a frame"),
            Taker::Processor => (self.piece_bytes(u64::MAX), "a piece"),
        };
        let found = card.receive_fifo;
        if found.as_bytes() < needs {
            return Err(format!(
                "card.receive_fifo is {found}; {what} needs {needs} B"
            ));
        }
        let (framing, found) = (self.framing(), self.switch.buffer);
        let needs = framing.frame_bytes(framing.payload_bytes);
        if found.as_bytes() < needs {
            return Err(format!("switch.buffer is {found}; a frame needs {needs} B"));
        }
        Ok(())
    }

    /// The most that fills the transmit FIFO at once.
    pub(super) fn fill_bytes(&self) -> u64 {
        let bus = &self.host.bus;
        match self.card.send {
            Send::Dma => bus.burst.as_bytes(),
            Send::Aperture => bus.store_burst.as_bytes(),
            Send::Words => self.word_burst_bytes(),
        }
    }

    /// Words that the processor moves before it looks around: as many as a burst has.
    pub(super) fn word_burst_bytes(&self) -> u64 {
        let bus = &self.host.bus;
        bus.burst.as_bytes().max(bus.word.as_bytes())
    }

    /// The longest piece of a message of `bytes`.
    pub(super) fn piece_bytes(&self, bytes: u64) -> u64 {
        let most = match self.card.segments {
            Segments::Card => self.card.block,
            Segments::Driver => self.link.payload,
        };
        bytes.min(most.as_bytes())
    }

    pub(super) fn framing(&self) -> Framing {
        let link = &self.link;
        Framing {
            rate: link.rate,
            payload_bytes: link.payload.as_bytes(),
            least_bytes: link.least.as_bytes(),
            overhead_bytes: link.overhead.as_bytes(),
            trailer_bytes: match self.card.segments {
                Segments::Card => link.trailer.as_bytes(),
                Segments::Driver => 0,
            },
        }
    }

    pub(super) fn transmitter(&self) -> TransmitterConfig {
        TransmitterConfig {
            framing: self.framing(),
            fifo_bytes: self.card.transmit_fifo.as_bytes(),
            straight_through: self.card.send == Send::Aperture,
        }
    }

    pub(super) fn receiver(&self) -> ReceiverConfig {
        ReceiverConfig {
            taker: match self.card.receive {
                Receive::Words => Taker::Processor,
                Receive::Dma => Taker::Engine,
            },
            fifo_bytes: self.card.receive_fifo.as_bytes(),
            buffers: self.card.receive_slots,
            descriptor_bytes: self.card.descriptor.as_bytes(),
        }
    }

    pub(super) fn coalesce(&self) -> Coalesce {
        Coalesce {
            delay: self.notice.delay,
            frames: self.notice.packets,
        }
    }

    /// From a card to the other, or to the switch.
    pub(super) fn propagation(&self) -> Duration {
        self.link.length.delay(self.link.per_km)
    }
}
