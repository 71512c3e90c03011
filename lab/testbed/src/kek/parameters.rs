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
use crate::refuse::{self, BYTE, Limits, MOMENT, at_least, within, wrong};

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
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        let missing = Host::ALL.iter().find(|host| !self.hosts.contains_key(host));
        if let Some(host) = missing {
            return Err(wrong("hosts", format!("no {host:?}"), "each of the PCs"));
        }
        for machine in self.hosts.values() {
            at_least("clock_mhz", machine.clock_mhz, 1)?;
        }
        within("kernel.tick_hz", self.kernel.tick_hz, 1..=1_000_000)?;
        // Four PCs need four.
        within("switch.ports", self.switch.ports, 4..=9)?;
        at_least("pci.burst", self.pci.burst, BYTE)?;
        at_least("tcp.message", self.tcp.message, BYTE)?;
        at_least("tcp.buffer", self.tcp.buffer, ByteSize::from_kib(64))?;
        at_least("card.send_ring", self.card.send_ring, 1)?;
        at_least("card.memory", self.card.memory, ByteSize::from_kib(64))?;
        within("building.header", self.building.header.as_bytes(), 28..=400)?;
        at_least("runs.time", self.runs.time, MOMENT)?;
        at_least("runs.switched_time", self.runs.switched_time, MOMENT)
    }

    /// The same with hosts that take no time.
    pub fn without_hosts(&self) -> Self {
        let mut none = self.clone();
        for machine in none.hosts.values_mut() {
            machine.copy = Rate::from_bps(u64::MAX);
        }
        let kernel = &mut none.kernel;
        kernel.interrupt_registers = Duration::ZERO;
        for cycles in [
            &mut kernel.receive,
            &mut kernel.receive_ack,
            &mut kernel.send,
            &mut kernel.send_ack,
            &mut kernel.tick,
            &mut kernel.call,
            &mut kernel.switch,
            &mut kernel.interrupt,
            &mut kernel.shaping_enqueue,
            &mut kernel.shaping_dequeue,
        ] {
            *cycles = Cycles(0);
        }
        none
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
