//! What can be asked of the experiment, and one point of it.

use barewire_proto::evb::Policy;
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use crate::sizes::Distribution;

/// What keeps sources from sending together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Control {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "shaping")]
    Shaping,
    #[serde(rename = "barrel shifter")]
    Barrel,
    #[serde(rename = "credits")]
    Credits,
    #[serde(rename = "global window")]
    Window,
    #[serde(rename = "global schedule")]
    Schedule,
}

impl Control {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shaping => "shaping",
            Self::Barrel => "barrel shifter",
            Self::Credits => "credits",
            Self::Window => "global window",
            Self::Schedule => "global schedule",
        }
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
pub(super) enum Assignment {
    #[serde(rename = "round robin")]
    RoundRobin,
    #[serde(rename = "least loaded")]
    LeastLoaded,
    #[serde(rename = "pulled")]
    Pulled,
    #[serde(rename = "hash")]
    Hash,
}

impl Assignment {
    pub(super) const fn policy(self) -> Policy {
        match self {
            Self::RoundRobin => Policy::RoundRobin,
            Self::LeastLoaded => Policy::LeastLoaded,
            Self::Pulled => Policy::Pulled,
            Self::Hash => Policy::Hash,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Full {
    Block,
    Drop,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    pub(super) sizes: Vec<String>,
    pub(super) controls: Vec<Control>,
    pub(super) transports: Vec<Transport>,
    pub(super) distributions: Vec<Distribution>,
    pub(super) fragment: ByteSize,
    pub(super) fragment_largest: ByteSize,
    pub(super) sigma: f64,
    pub(super) events: u64,
    pub(super) load: f64,
    pub(super) triggers: Triggers,
    pub(super) assignment: Assignment,
    pub(super) pulled_events: u32,
    pub(super) mtu: ByteSize,
    pub(super) source_link: Rate,
    pub(super) builder_link: Rate,
    pub(super) port_buffer: ByteSize,
    pub(super) source_buffer: ByteSize,
    pub(super) when_full: Full,
    pub(super) timeout: Duration,
    pub(super) shaping_share: f64,
    pub(super) shaping_burst: ByteSize,
    pub(super) slot_fragments: f64,
    pub(super) clock_error: Duration,
    pub(super) credits: u32,
    pub(super) window: u32,
    pub(super) nagle: bool,
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
