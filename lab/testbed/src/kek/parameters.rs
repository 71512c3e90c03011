//! The parameter file of the event builder, and the models' configurations made of it.

use std::collections::BTreeMap;

use barewire_models::kek::{
    Costs, HEADER_BYTES, Kernel, Machine, Nic, NicConfig, PciConfig, SwitchConfig,
};
use barewire_models::parameters;
use barewire_models::parameters::Cycles;
use barewire_models::tcp::{ReceiverConfig, SenderConfig};
use barewire_units::{ByteSize, Duration, Rate};

use super::host::{Host, Tuning};
use crate::error::SystemError;
use crate::refuse::Limits;

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/kek.toml");

parameters! {
    /// The file.
    pub struct Parameters {
        pub hosts: BTreeMap<Host, Machine>,
        pub kernel: Kernel,
        pub pci: PciConfig,
        pub card: Nic,
        pub tcp: Tcp,
        pub switch: SwitchConfig,
        pub link: Link,
        pub shaping: Shaping,
        pub building: Building,
        pub runs: Runs,
    }
}

parameters! {
    pub struct Tcp {
        pub buffer: ByteSize,
        pub nagle: bool,
        pub ack_delay: Duration,
        pub time_out: Duration,
        pub message: ByteSize,
    }
}

parameters! {
    pub struct Link {
        pub delay: Duration,
    }
}

parameters! {
    pub struct Shaping {
        pub bandwidth: Rate,
        pub bucket: Duration,
        pub limit: ByteSize,
    }
}

parameters! {
    pub struct Building {
        pub control: Duration,
        pub header: ByteSize,
    }
}

parameters! {
    pub struct Runs {
        pub warm_up: Duration,
        pub time: Duration,
        pub switched_warm_up: Duration,
        pub switched_time: Duration,
    }
}

const LIMITS: Limits = Limits {
    longest: Duration::from_s(10),
    cycles: Cycles(1_000_000_000),
    ..Limits::NONE
};

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
        let missing = Host::ALL.iter().find(|host| !self.hosts.contains_key(host));
        if let Some(host) = missing {
            return Some(format!("hosts: no {host:?}"));
        }
        if self.hosts.values().any(|host| host.clock_mhz == 0) {
            return Some("clock_mhz: a processor that stands still".into());
        }
        if self.kernel.tick_hz == 0 || self.kernel.tick_hz > 1_000_000 {
            return Some("kernel.tick_hz: not 1 to 1000000".into());
        }
        if !(4..=9).contains(&self.switch.ports) {
            return Some("switch.ports: four PCs need 4, and there are 9 at most".into());
        }
        if self.pci.burst.as_bytes() == 0 {
            return Some("pci.burst: nothing in it".into());
        }
        if self.tcp.message.as_bytes() == 0 || self.tcp.buffer.as_bytes() < 64 * 1024 {
            return Some("tcp: a message of nothing, or a buffer of less than 64 KiB".into());
        }
        if self.card.send_ring == 0 || self.card.memory.as_bytes() < 64 * 1024 {
            return Some("card: no descriptors, or less than 64 KiB".into());
        }
        if !(28..=400).contains(&self.building.header.as_bytes()) {
            return Some("building.header: not 28 to 400 bytes".into());
        }
        let times = [self.runs.time, self.runs.switched_time];
        if times.iter().any(|time| time.is_zero()) {
            return Some("runs: no time to measure".into());
        }
        None
    }

    /// What the operations of `host` cost.
    pub fn costs(&self, host: Host) -> Costs {
        Costs {
            machine: self.hosts[&host],
            kernel: self.kernel,
        }
    }

    pub fn nic(&self, mtu: u64, tuning: Tuning) -> NicConfig {
        NicConfig {
            nic: self.card,
            jumbo: mtu > 1_500,
            send_delay: tuning.send,
            receive_delay: tuning.receive,
        }
    }

    pub fn sender(&self, mtu: u64, buffer: ByteSize) -> SenderConfig {
        SenderConfig {
            segment_bytes: mtu - HEADER_BYTES,
            buffer_bytes: buffer.as_bytes(),
            nagle: self.tcp.nagle,
            time_out: self.tcp.time_out,
        }
    }

    pub fn receiver(&self, buffer: ByteSize) -> ReceiverConfig {
        ReceiverConfig {
            buffer_bytes: buffer.as_bytes(),
            ack_delay: self.tcp.ack_delay,
        }
    }

    /// The time from tick to tick.
    pub fn tick(&self) -> Duration {
        Duration::from_s(1) / u64::from(self.kernel.tick_hz)
    }
}
