//! The parameter file of the event builder, and the models' configurations made of it.

use std::collections::BTreeMap;

use barewire_models::host::Coalesce;
use barewire_models::kek::{Costs, HEADER_BYTES, NicConfig, PciConfig, SwitchConfig};
use barewire_models::parameters;
use barewire_models::parameters::{Parameters as Walk, Quantity};
use barewire_models::tcp::{ReceiverConfig, SenderConfig};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use super::host::{Host, Tuning, Width};
use crate::error::SystemError;

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/kek.toml");

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    pub hosts: BTreeMap<Host, Machine>,
    pub kernel: Kernel,
    pub pci: Bus,
    pub card: Card,
    pub tcp: Tcp,
    pub switch: SwitchParameters,
    pub link: Link,
    pub shaping: Shaping,
    pub building: Building,
    pub runs: Runs,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub clock_mhz: u64,
    pub copy: Rate,
}

parameters! {
    pub struct Kernel {
        pub receive: u64,
        pub receive_ack: u64,
        pub send: u64,
        pub send_ack: u64,
        pub tick: u64,
        pub call: u64,
        pub switch: u64,
        pub interrupt: u64,
        pub interrupt_registers: Duration,
        pub shaping_enqueue: u64,
        pub shaping_dequeue: u64,
        pub tick_hz: u32,
        pub woken_by_traffic: bool,
    }
}

parameters! {
    pub struct Bus {
        pub cycle: Duration,
        pub burst: ByteSize,
        pub overhead_cycles: u64,
    }
}

parameters! {
    pub struct Card {
        pub memory: ByteSize,
        pub rate: Rate,
        pub frame: Duration,
        pub interrupt: Duration,
        pub descriptor: ByteSize,
        pub send_ring: usize,
        pub receive_ring_normal: usize,
        pub receive_ring_jumbo: usize,
        pub send_frames: usize,
        pub receive_frames_normal: usize,
        pub receive_frames_jumbo: usize,
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
    pub struct SwitchParameters {
        pub ports: usize,
        pub backplane: Rate,
        pub buffer: ByteSize,
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

/// Longest that any time may be, so that no sum of them overflows.
const LONGEST: Duration = Duration::from_s(10);

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
        let kernel = &self.kernel;
        let cycles = [
            kernel.receive,
            kernel.receive_ack,
            kernel.send,
            kernel.send_ack,
            kernel.tick,
            kernel.call,
            kernel.switch,
            kernel.interrupt,
            kernel.shaping_enqueue,
            kernel.shaping_dequeue,
        ];
        if cycles.iter().any(|&cycles| cycles > 1_000_000_000) {
            return Some("kernel: more than 1000000000 cycles for an operation".into());
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
        self.too_long()
    }

    fn too_long(&self) -> Option<String> {
        let tables: [(&str, &dyn Walk); 8] = [
            ("kernel", &self.kernel),
            ("pci", &self.pci),
            ("card", &self.card),
            ("tcp", &self.tcp),
            ("link", &self.link),
            ("shaping", &self.shaping),
            ("building", &self.building),
            ("runs", &self.runs),
        ];
        let wrong = |key: &str, found| match found {
            Quantity::Time(time) if time > LONGEST => {
                Some(format!("{key} is {time}, more than {LONGEST}"))
            }
            _ => None,
        };
        let first = |(key, table): (&str, &dyn Walk)| table.first_wrong(key, &wrong);
        tables.into_iter().find_map(first)
    }

    /// What the operations of `host` cost.
    pub fn costs(&self, host: Host) -> Costs {
        let machine = &self.hosts[&host];
        let kernel = &self.kernel;
        let cycles = |count: u64| Duration::from_ps(count * 1_000_000 / machine.clock_mhz);
        Costs {
            interrupt: cycles(kernel.interrupt) + kernel.interrupt_registers,
            receive: cycles(kernel.receive),
            receive_ack: cycles(kernel.receive_ack),
            send: cycles(kernel.send),
            send_ack: cycles(kernel.send_ack),
            tick: cycles(kernel.tick),
            enqueue: cycles(kernel.shaping_enqueue),
            dequeue: cycles(kernel.shaping_dequeue),
            copy_per_kib: machine.copy.time_to_send(ByteSize::from_kib(1)),
            call: cycles(kernel.call),
            switch: cycles(kernel.switch),
        }
    }

    pub fn bus(&self, width: Width) -> PciConfig {
        PciConfig {
            cycle: self.pci.cycle,
            width_bytes: width.bytes(),
            burst_bytes: self.pci.burst.as_bytes(),
            overhead_cycles: self.pci.overhead_cycles,
        }
    }

    pub fn nic(&self, mtu: u64, tuning: Tuning) -> NicConfig {
        let card = &self.card;
        let jumbo = mtu > 1_500;
        let pick = |normal, large| if jumbo { large } else { normal };
        NicConfig {
            rate: card.rate,
            frame: card.frame,
            interrupt: card.interrupt,
            descriptor_bytes: card.descriptor.as_bytes(),
            memory_bytes: card.memory.as_bytes(),
            send_ring: card.send_ring,
            receive_ring: pick(card.receive_ring_normal, card.receive_ring_jumbo),
            send_coalesce: Coalesce {
                delay: tuning.send,
                frames: card.send_frames,
            },
            receive_coalesce: Coalesce {
                delay: tuning.receive,
                frames: pick(card.receive_frames_normal, card.receive_frames_jumbo),
            },
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

    pub fn switch(&self) -> SwitchConfig {
        SwitchConfig {
            ports: self.switch.ports,
            backplane: self.switch.backplane,
            buffer_bytes: self.switch.buffer.as_bytes(),
        }
    }

    /// The time from tick to tick.
    pub fn tick(&self) -> Duration {
        Duration::from_s(1) / u64::from(self.kernel.tick_hz)
    }
}
