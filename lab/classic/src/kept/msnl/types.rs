//! What a station is made of, and what it says.

use core::ops::RangeInclusive;

use barewire_formats::msnl::{CHANNELS, DATA_VCI_MIN, MessageRepr, Port, Reason};
use barewire_units::{Duration, Instant};

use super::state::State;

/// How long things may take. All stations of a network have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a message to its first repetition; then twice as long each time.
    pub retry_first: Duration,
    /// Longest time between repetitions.
    pub retry_max: Duration,
    /// From the first message to giving up.
    pub give_up: Duration,
    /// How long a user may take to decide about an incoming call.
    pub decision: Duration,
    /// How long an open call may hear nothing before it probes.
    pub probe_interval: Duration,
    /// Longest time that a cell, or a message, spends in the network; and longest time by which
    /// a call of [`super::Network::handle_timeout`] is late.
    pub cell_lifetime: Duration,
}

impl Default for Timing {
    /// For a ring with rotations of some tens of microseconds and hosts that answer within
    /// milliseconds. OPEN in the source.
    fn default() -> Self {
        Self {
            retry_first: Duration::from_ms(10),
            retry_max: Duration::from_ms(200),
            give_up: Duration::from_s(1),
            decision: Duration::from_s(10),
            probe_interval: Duration::from_s(5),
            cell_lifetime: Duration::from_ms(1),
        }
    }
}

impl Timing {
    /// How long a VCI stays out of use whose peer never said that it left: what the peer has
    /// sent last may confirm us late, then it waits before it probes, probes until it gives up,
    /// and its last cell is under way.
    #[must_use]
    pub fn quarantine(&self) -> Duration {
        let slack = self.cell_lifetime.checked_mul(4).unwrap_or(Duration::MAX);
        self.probe_interval
            .saturating_add(self.give_up)
            .saturating_add(slack)
    }
}

/// A station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its address.
    pub station: u16,
    /// The reference of its first call. After a restart it must be one that no peer remembers:
    /// draw it at random, or count on.
    pub first_reference: u32,
    /// Calls that it holds at most, those that are over but not yet forgotten among them.
    pub calls_max: usize,
    /// VCIs that it gives out.
    pub vcis: RangeInclusive<u16>,
    /// Channels that it listens to: bit n for channel n. The first hardware has one.
    pub receive_channels: u8,
    /// Timing.
    pub timing: Timing,
}

/// Why a configuration can not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No VCI to give out, or a reserved one among them.
    #[error("VCIs {first} to {last}: at least one is needed, and none below {DATA_VCI_MIN}")]
    Vcis {
        /// First of the range.
        first: u16,
        /// Last of the range.
        last: u16,
    },
    /// No channel to listen to, or one that the ring does not have.
    #[error("receive channels {mask:#06b}: at least one is needed, and none beyond {CHANNELS}")]
    Channels {
        /// The channels.
        mask: u8,
    },
    /// A message would be repeated without a pause.
    #[error("the first repetition comes after no time")]
    Retry,
}

/// Why a command was not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No call has this number.
    #[error("no call {call}")]
    NoCall {
        /// The number.
        call: u32,
    },
    /// The call is in a state in which this cannot be done.
    #[error("call {call} is {state:?}")]
    WrongState {
        /// The call.
        call: u32,
        /// Its state.
        state: State,
    },
    /// The table is full.
    #[error("{calls_max} calls are held already")]
    TableFull {
        /// Its size.
        calls_max: usize,
    },
    /// Every VCI is in use, or not yet safe to use again.
    #[error("all {vcis} VCIs are in use")]
    NoVci {
        /// How many there are.
        vcis: usize,
    },
    /// Peers may still send on VCIs from before the restart.
    #[error("quiet after a restart, until {until}")]
    Quiet {
        /// Until when.
        until: Instant,
    },
}

/// How a call ended that the user did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The callee did not take it.
    Rejected(Reason),
    /// The peer closed it.
    ClosedByPeer(Reason),
    /// The peer does not know it: it restarted, or gave up before.
    ForgottenByPeer,
    /// The peer did not answer.
    TimedOut,
    /// The user did not decide in time.
    Undecided,
}

/// What the core wants done or known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this message to the station that it names.
    Send(MessageRepr),
    /// A call has come: accept it or reject it.
    Incoming {
        /// The call.
        call: u32,
        /// Station that calls.
        from: u16,
        /// Service address that is called.
        service: u64,
    },
    /// A call is open: data may be sent, and arrive.
    Opened {
        /// The call.
        call: u32,
    },
    /// A call is over, by other hands than the user's.
    Closed {
        /// The call.
        call: u32,
        /// How it ended.
        end: End,
    },
}

/// What is known of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// Its state.
    pub state: State,
    /// The station at the other end.
    pub peer: u16,
    /// How the peer numbers the call; zero while unknown.
    pub peer_reference: u32,
    /// The service called.
    pub service: u64,
    /// Where this station receives; allocated until the call is forgotten.
    pub receive_at: Option<Port>,
    /// Where to send; only while the call is open.
    pub send_to: Option<Port>,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages that came.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Of these, repetitions.
    pub repeated: u64,
    /// Messages for another station.
    pub misaddressed: u64,
    /// Messages about calls that are not, or no longer, held.
    pub unknown_call: u64,
    /// Messages that mean nothing in the state of their call.
    pub ignored: u64,
    /// Connects that were refused for want of room, or after a restart.
    pub refused: u64,
    /// Messages not sent because too many waited to be polled.
    pub dropped: u64,
    /// Calls whose peer never answered.
    pub timed_out: u64,
    /// Calls that the peer did not know any more.
    pub half_open: u64,
}
