//! What a configuration says, checked.

use std::path::PathBuf;

use barewire_proto::evb::{BuilderConfig, BuilderId, ManagerConfig, SourceConfig, SourceId};
use barewire_units::{Duration, Rate};

use super::address::HostPort;
use super::hosts::{Hosts, Start};
use crate::faults::Faults;
use crate::shape::Shaping;

/// How parts reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The user-level network of one host.
    Ring,
    /// TCP.
    Tcp,
    /// The user-level network, over links between hosts.
    Hosts,
}

/// When events happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// As many as the window takes.
    Max,
    /// At equal distances.
    Clock(Duration),
    /// At random, at this distance on average.
    Poisson(Duration),
    /// When a source has a fragment of them.
    Sources,
}

/// How large fragments are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All the same.
    Fixed,
    /// From `bytes_min` to as much above the mean.
    Uniform,
    /// Exponential.
    Exponential,
    /// Log-normal, with the standard deviation of the logarithm.
    LogNormal(f64),
}

/// Sizes of fragments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// The distribution.
    pub shape: Shape,
    /// Its mean.
    pub mean_bytes: u64,
    /// None is smaller.
    pub bytes_min: u64,
    /// None is larger.
    pub bytes_max: u64,
}

/// Where fragments come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// They follow from the seed.
    Generator,
    /// They were recorded.
    Replay(ReplayFiles),
    /// Each source is a program of the user's, which [`crate::part::run_detector`] makes a part;
    /// with what starts it, if `daq run` does.
    Own(Option<PathBuf>),
}

/// What is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayFiles {
    /// Files of one run.
    pub files: Vec<PathBuf>,
    /// At the times of the recorded triggers.
    pub paced: bool,
    /// Without end.
    pub repeat: bool,
}

/// What becomes of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// Verified and dropped.
    Discard,
    /// Verified and recorded in this directory.
    File {
        /// Where.
        directory: PathBuf,
        /// And into an HDF5 file beside it.
        hdf5: bool,
    },
    /// Handed over to another process: see [`crate::consumer`].
    HandOver {
        /// What does not fit these bytes is dropped; `None`: the run waits.
        room_bytes: Option<u64>,
    },
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Between two lines of the view.
    pub period: Duration,
    /// Address for Prometheus.
    pub prometheus: Option<HostPort>,
    /// File of the event log.
    pub log: Option<PathBuf>,
    /// Rate of a line, for fractions of it.
    pub line: Option<Rate>,
}

/// A configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Begin of names on the network.
    pub name: String,
    /// Number of the first run.
    pub run: u32,
    /// How parts reach each other.
    pub transport: Transport,
    /// Triggers after which the run is drained.
    pub events: Option<u64>,
    /// Time after which the run is drained.
    pub duration: Option<Duration>,
    /// Whether a part that died is started again.
    pub restart: bool,
    /// Of everything random.
    pub seed: u64,
    /// How long the manager waits for all parts.
    pub patience: Duration,
    /// The manager's address.
    pub tcp_manager: HostPort,
    /// The builders' addresses.
    pub tcp_builders: Vec<HostPort>,
    /// Links to other hosts.
    pub hosts: Hosts,
    /// By which commands parts are started on other hosts.
    pub start: Start,
    /// When events happen.
    pub trigger: Trigger,
    /// How large fragments are.
    pub sizes: Sizes,
    /// The manager's core.
    pub manager: ManagerConfig,
    /// Where fragments come from.
    pub source_kind: SourceKind,
    /// What the generator sends faulty on purpose.
    pub faults: Faults,
    /// The core of source 0.
    pub source: SourceConfig,
    /// Shaping by the kernel; the core then sends as it can.
    pub shaping: Option<Shaping>,
    /// The core of builder 0.
    pub builder: BuilderConfig,
    /// Receive memory of a connection.
    pub ring_bytes: usize,
    /// Events may be closed by the timeout without a fragment; otherwise this is a loss.
    pub may_time_out: bool,
    /// What becomes of events.
    pub sink: SinkKind,
    /// How long a builder waits for a file system that takes no more, before the run ends.
    pub sink_patience: Duration,
    /// What is said.
    pub monitor: Monitor,
    /// The text.
    pub text: String,
    /// CRC-32C of it: parts with another one are turned away.
    pub digest: u32,
}

impl Config {
    /// The core's configuration of a source.
    #[must_use]
    pub fn source(&self, id: u16) -> SourceConfig {
        SourceConfig {
            id: SourceId(id),
            ..self.source
        }
    }

    /// The core's configuration of a builder in a run.
    #[must_use]
    pub fn builder(&self, id: u16, run: u32) -> BuilderConfig {
        BuilderConfig {
            id: BuilderId(id),
            run,
            ..self.builder
        }
    }
}
