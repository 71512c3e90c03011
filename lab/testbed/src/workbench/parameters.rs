//! The parameters: `parameters/workbench.toml`, and what the models are made of.

use barewire_models::host::{BusConfig, Coalesce, Costs, Memory};
use barewire_models::workbench::{Framing, ReceiverConfig, Taker, TransmitterConfig};
use barewire_models::{choices, parameters};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;
use std::ops::RangeInclusive;

use super::length::Length;
use crate::error::SystemError;
use crate::refuse::{self, BYTE, Limits, at_least, within};

choices!(By, Checksum, Length, Receive, Segments, Send);

const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    slowest: Rate::from_kbps(1),
    largest: ByteSize::from_gib(1),
    ..Limits::NONE
};
/// Slots, and packets until an interrupt.
const COUNTS: RangeInclusive<usize> = 1..=1 << 20;
/// Longest link: half round the world.
const FARTHEST: Length = Length::from_km(20_000);

parameters! {
    pub(crate) struct Parameters {
        pub host: Host,
        pub card: Card,
        pub notice: Notice,
        pub driver: Driver,
        pub link: Link,
        pub switch: Switch,
    }
}

parameters! {
    pub(crate) struct Host {
        pub processors: u8,
        pub costs: Costs,
        pub memory: Memory,
        pub bus: BusConfig,
    }
}

/// How bytes get to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Send {
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
pub(crate) enum Checksum {
    None,
    Card,
    Processor,
}

parameters! {
    pub(crate) struct Card {
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
pub(crate) enum By {
    Interrupt,
    Poll,
}

parameters! {
    pub(crate) struct Notice {
        pub by: By,
        packets: usize,
        delay: Duration,
    }
}

parameters! {
    pub(crate) struct Driver {
        pub send_copies: u64,
        pub receive_copies: u64,
        pub socket: ByteSize,
    }
}

parameters! {
    pub(crate) struct Link {
        pub rate: Rate,
        pub length: Length,
        pub per_km: Duration,
        pub payload: ByteSize,
        pub least: ByteSize,
        pub overhead: ByteSize,
        pub trailer: ByteSize,
    }
}

parameters! {
    pub(crate) struct Switch {
        pub between_two: bool,
        pub latency: Duration,
        pub cut_through: bool,
        pub buffer: ByteSize,
    }
}

impl Parameters {
    pub(crate) fn parse(text: &str) -> Result<Self, SystemError> {
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        let (host, card, link) = (&self.host, &self.card, &self.link);
        for (key, size) in [
            ("host.bus.burst", host.bus.burst),
            ("host.bus.store_burst", host.bus.store_burst),
            ("host.bus.word", host.bus.word),
            ("card.block", card.block),
            ("card.transmit_fifo", card.transmit_fifo),
            ("card.receive_fifo", card.receive_fifo),
            ("link.payload", link.payload),
            ("switch.buffer", self.switch.buffer),
        ] {
            at_least(key, size, BYTE)?;
        }
        within(
            "link.least",
            link.least,
            ByteSize::from_bytes(0)..=link.payload,
        )?;
        within("link.length", link.length, Length::from_km(0)..=FARTHEST)?;
        within("host.processors", host.processors, 1..=2)?;
        within("card.transmit_slots", card.transmit_slots, COUNTS)?;
        within("card.receive_slots", card.receive_slots, COUNTS)?;
        within("notice.packets", self.notice.packets, COUNTS)?;
        within("driver.send_copies", self.driver.send_copies, 0..=2)?;
        within("driver.receive_copies", self.driver.receive_copies, 0..=2)?;
        self.check_fifos()
    }

    /// A frame has to fit the FIFOs, or it never leaves, or never arrives.
    fn check_fifos(&self) -> Result<(), SystemError> {
        let card = &self.card;
        let payload = self.piece_bytes(u64::MAX).min(self.link.payload.as_bytes());
        // A burst that does not fit beside what a frame still lacks would wait for ever.
        let least = ByteSize::from_bytes(payload + self.fill_bytes());
        at_least("card.transmit_fifo", card.transmit_fifo, least)?;
        let least = ByteSize::from_bytes(match self.receiver().taker {
            Taker::Engine => payload,
            Taker::Processor => self.piece_bytes(u64::MAX),
        });
        at_least("card.receive_fifo", card.receive_fifo, least)?;
        let framing = self.framing();
        let least = ByteSize::from_bytes(framing.frame_bytes(framing.payload_bytes));
        at_least("switch.buffer", self.switch.buffer, least)
    }

    /// The most that fills the transmit FIFO at once.
    pub(crate) fn fill_bytes(&self) -> u64 {
        let bus = &self.host.bus;
        match self.card.send {
            Send::Dma => bus.burst.as_bytes(),
            Send::Aperture => bus.store_burst.as_bytes(),
            Send::Words => self.word_burst_bytes(),
        }
    }

    /// Words that the processor moves before it looks around: as many as a burst has.
    pub(crate) fn word_burst_bytes(&self) -> u64 {
        let bus = &self.host.bus;
        bus.burst.as_bytes().max(bus.word.as_bytes())
    }

    /// The longest piece of a message of `bytes`.
    pub(crate) fn piece_bytes(&self, bytes: u64) -> u64 {
        let most = match self.card.segments {
            Segments::Card => self.card.block,
            Segments::Driver => self.link.payload,
        };
        bytes.min(most.as_bytes())
    }

    pub(crate) fn framing(&self) -> Framing {
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

    pub(crate) fn transmitter(&self) -> TransmitterConfig {
        TransmitterConfig {
            framing: self.framing(),
            fifo_bytes: self.card.transmit_fifo.as_bytes(),
            straight_through: self.card.send == Send::Aperture,
        }
    }

    pub(crate) fn receiver(&self) -> ReceiverConfig {
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

    pub(crate) fn coalesce(&self) -> Coalesce {
        Coalesce {
            delay: self.notice.delay,
            frames: self.notice.packets,
        }
    }

    /// From a card to the other, or to the switch.
    pub(crate) fn propagation(&self) -> Duration {
        self.link.length.delay(self.link.per_km)
    }
}
