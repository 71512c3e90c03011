//! Which builder gets an event, as inputs name it.

use barewire_proto::evb::Policy;
use serde::Deserialize;

/// A way to choose a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Assignment {
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
    /// What the core calls it.
    pub(crate) const fn policy(self) -> Policy {
        match self {
            Self::RoundRobin => Policy::RoundRobin,
            Self::LeastLoaded => Policy::LeastLoaded,
            Self::Pulled => Policy::Pulled,
            Self::Hash => Policy::Hash,
        }
    }
}
