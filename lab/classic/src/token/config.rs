//! What a station is told before it starts.

use barewire_units::Duration;
use thiserror::Error;

use super::{Budget, Refused};

/// What a station is on its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes the number that RING_UP gives it.
    Host,
    /// Switch port, or the host that was chosen where there is no switch: brings the
    /// ring up, sets MONITOR, replaces a lost token. RID 0.
    Master,
}

/// What a station is told before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Host or master.
    pub role: Role,
    /// The plan of the ring.
    pub budget: Budget,
    /// SA: the station's synchronous allotment in each rotation.
    pub synchronous: Duration,
    /// Master: from the loss of the token being noticed to the new one.
    pub response: Duration,
    /// Master: how long FW1 may take round the ring.
    pub link_timeout: Duration,
    /// Master: how long RING_UP may take round the ring.
    pub numbering_timeout: Duration,
    /// No ring but one other device: both send at once, without a token.
    pub full_duplex: bool,
    /// Frames of each class that may wait.
    pub queue_frames_max: usize,
}

/// Why a configuration can not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// This station's allotment alone does not fit.
    #[error(transparent)]
    Budget(#[from] Refused),
    /// A timeout would always strike.
    #[error("a timeout of {timeout} is no longer than once round the ring, {ring_latency}")]
    Timeout {
        /// The shorter of the two timeouts.
        timeout: Duration,
        /// D_max.
        ring_latency: Duration,
    },
}

impl Config {
    /// Interrupt response of the paper's hosts, «tens of µs» (open: ours).
    pub const RESPONSE: Duration = Duration::from_us(50);
    /// Time for FW1 and for RING_UP, each five times round the longest ring (open: ours).
    pub const TIMEOUT: Duration = Duration::from_us(105);
    /// Frames of each class that may wait (open: ours).
    pub const QUEUE_FRAMES_MAX: usize = 256;

    /// A station of the ring in the paper, without synchronous traffic.
    #[must_use]
    pub fn jetstream(role: Role) -> Self {
        Self {
            role,
            budget: Budget::jetstream(),
            synchronous: Duration::ZERO,
            response: Self::RESPONSE,
            link_timeout: Self::TIMEOUT,
            numbering_timeout: Self::TIMEOUT,
            full_duplex: false,
            queue_frames_max: Self::QUEUE_FRAMES_MAX,
        }
    }

    /// Whether a station can work so.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.budget.admit(&[self.synchronous])?;
        let timeout = self.link_timeout.min(self.numbering_timeout);
        let ring_latency = self.budget.ring_latency;
        if timeout > ring_latency {
            Ok(())
        } else {
            Err(ConfigError::Timeout {
                timeout,
                ring_latency,
            })
        }
    }
}
