//! What can be asked of the experiment.

use barewire_proto::evb::Policy;
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use crate::sizes::Distribution;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    Ring,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Triggers {
    Full,
    Clocked,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Control {
    None,
    Credits,
    Barrel,
    Bucket,
    Schedule,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    pub(super) transport: Transport,
    pub(super) sources: u16,
    pub(super) builders: u16,
    pub(super) processors: u16,
    pub(super) fragments: Vec<ByteSize>,
    pub(super) distribution: Distribution,
    pub(super) fragment_largest: ByteSize,
    pub(super) sigma: f64,
    pub(super) events: u64,
    pub(super) triggers: Triggers,
    pub(super) period: Duration,
    pub(super) assignment: Assignment,
    pub(super) window: u32,
    pub(super) pulled_events: u32,
    pub(super) control: Control,
    pub(super) credits: u32,
    pub(super) rate: Rate,
    pub(super) burst: ByteSize,
    pub(super) slot: Duration,
    pub(super) lead: Duration,
    pub(super) piece: ByteSize,
    pub(super) source_buffer: ByteSize,
    pub(super) timeout: Duration,
    pub(super) room: ByteSize,
    pub(super) slice: Duration,
    pub(super) fragment_out: Duration,
    pub(super) make_kib: Duration,
    pub(super) fragment_in: Duration,
    pub(super) verify_kib: Duration,
    pub(super) event: Duration,
    pub(super) message: Duration,
    pub(super) message_event: Duration,
}
