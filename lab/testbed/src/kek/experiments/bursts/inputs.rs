//! What can be asked of the experiment, and one point of it.

use std::ops::RangeInclusive;

use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

pub(super) use crate::assignment::Assignment;
use crate::kek::host::MTU;
use crate::refuse::{AtMost, inputs, names, up_to, up_to_time};
use crate::sizes::Distribution;

names! {
    /// What keeps sources from sending together.
    pub(super) enum Control {
        None = "none",
        Shaping = "shaping",
        Barrel = "barrel shifter",
        Credits = "credits",
        Window = "global window",
        Schedule = "global schedule",
    }
}

/// What carries fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    Datagrams,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Triggers {
    Clocked,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Full {
    Block,
    Drop,
}

/// Values of a list.
const LIST: AtMost = AtMost(1_000);
const LINKS: RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(1_000);

inputs! {
    #[derive(Clone, Debug)]
    pub(super) struct Inputs {
        pub(super) sizes: Vec<String> => LIST,
        pub(super) controls: Vec<Control> => LIST,
        pub(super) transports: Vec<Transport> => LIST,
        pub(super) distributions: Vec<Distribution> => LIST,
        pub(super) fragment: ByteSize => up_to(ByteSize::from_mib(1)),
        pub(super) fragment_largest: ByteSize => up_to(ByteSize::from_mib(16)),
        pub(super) sigma: f64 => 0.0..=3.0,
        pub(super) events: u64 => 4..=1_000_000,
        pub(super) load: f64 => 0.01..=10.0,
        pub(super) triggers: Triggers,
        pub(super) assignment: Assignment,
        pub(super) pulled_events: u32 => 1..=10_000,
        pub(super) mtu: ByteSize => MTU,
        pub(super) source_link: Rate => LINKS,
        pub(super) builder_link: Rate => LINKS,
        pub(super) port_buffer: ByteSize,
        pub(super) source_buffer: ByteSize,
        pub(super) when_full: Full,
        pub(super) timeout: Duration => Duration::from_us(1)..=Duration::from_s(100),
        pub(super) shaping_share: f64 => 0.01..=100.0,
        pub(super) shaping_burst: ByteSize,
        pub(super) slot_fragments: f64 => 0.1..=100.0,
        pub(super) clock_error: Duration => up_to_time(Duration::from_s(1)),
        pub(super) credits: u32 => 1..=100_000,
        pub(super) window: u32 => 1..=1_000_000,
        pub(super) nagle: bool,
    }
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) sources: u16,
    pub(super) builders: u16,
    pub(super) distribution: Distribution,
    pub(super) transport: Transport,
    pub(super) control: Control,
}

impl Point {
    pub(super) fn name(&self) -> String {
        let transport = match self.transport {
            Transport::Datagrams => "datagrams",
            Transport::Tcp => "TCP",
        };
        format!("{}, {transport}", self.control.name())
    }
}
