//! The parameter file.

use barewire_models::parameters;
use barewire_models::rdma::{CardConfig, LineConfig, SwitchConfig};
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::refuse::{self, BYTE, Limits, at_least, within};

/// The file as text, with the source of every value.
pub(super) const TEXT: &str = include_str!("../../parameters/rdma.toml");

const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    slowest: Rate::from_mbps(1),
    largest: ByteSize::from_gib(1),
    ..Limits::NONE
};
/// Less makes runs endless.
const TIMEOUT_MIN: Duration = Duration::from_us(1);

parameters! {
    pub(super) struct Parameters {
        pub host: Host,
        pub card: CardConfig,
        pub line: LineConfig,
        pub switch: SwitchConfig,
    }
}

parameters! {
    #[derive(Copy)]
    pub(super) struct Host {
        pub cores: usize,
        pub send: Duration,
        pub receive: Duration,
        pub copy: Rate,
        pub post: Duration,
        pub poll: Duration,
        pub completion: Duration,
    }
}

impl Parameters {
    pub(super) fn parse(text: &str) -> Result<Self, SystemError> {
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        let (card, switch) = (&self.card, &self.switch);
        within("host.cores", self.host.cores, 1..=64)?;
        at_least("host.poll", self.host.poll, Duration::from_ns(1))?;
        at_least("card.context", card.context, BYTE)?;
        at_least("card.mtu", card.mtu, ByteSize::from_bytes(256))?;
        at_least("card.timeout", card.timeout, TIMEOUT_MIN)?;
        within("switch.hosts", switch.hosts, 2..=1024)?;
        within("switch.uplinks", switch.uplinks, 1..=1024)?;
        within("switch.share_percent", switch.share_percent, 1..=10_000)?;
        let packet = ByteSize::from_bytes(card.mtu.as_bytes() + card.header.as_bytes());
        at_least("switch.buffer", switch.buffer, packet)?;
        at_least("switch.resume_below", switch.resume_below, BYTE)?;
        at_least(
            "switch.pause_above",
            switch.pause_above,
            switch.resume_below,
        )
    }
}
