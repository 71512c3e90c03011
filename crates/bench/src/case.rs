//! What is measured: tests, transports and the ways of using them, the channels that they
//! need, and the work of a sample.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Bytes in a request and in a reply of `transactions`.
pub const REQUEST_BYTES: usize = 64;

/// What a test measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// One message there and back.
    Rtt,
    /// One way, as many as fit.
    Stream,
    /// Requests and replies of one server on many connections.
    Transactions,
    /// There and back with both ends asleep.
    Wake,
}

impl Test {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Test::Rtt => "rtt",
            Test::Stream => "stream",
            Test::Transactions => "transactions",
            Test::Wake => "wake",
        }
    }

    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        match self {
            Test::Rtt | Test::Wake => "ns",
            Test::Stream => "bytes/s",
            Test::Transactions => "transactions/s",
        }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Test::Stream | Test::Transactions)
    }
}

/// What carries the messages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The bare machine: what no transport can beat
    Limit,
    /// This project
    Barewire,
    /// This project between hosts: a link over TCP, also where both ends are on this machine
    Hosts,
    /// TCP over 127.0.0.1, or the path to the other host, with TCP_NODELAY
    Tcp,
    /// A Unix stream socket
    Unix,
    /// Two pipes
    Pipe,
}

impl Transport {
    /// All of them, in the order of tables.
    pub const ALL: [Transport; 6] = [
        Transport::Limit,
        Transport::Barewire,
        Transport::Hosts,
        Transport::Tcp,
        Transport::Unix,
        Transport::Pipe,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Limit => "limit",
            Transport::Barewire => "barewire",
            Transport::Hosts => "hosts",
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
            Transport::Pipe => "pipe",
        }
    }

    /// Whether it is one of this project's.
    pub fn is_own(self) -> bool {
        matches!(self, Transport::Barewire | Transport::Hosts)
    }

    /// Whether its two ends may be on two hosts.
    pub fn is_between_hosts(self) -> bool {
        matches!(self, Transport::Hosts | Transport::Tcp)
    }
}

/// A way of using a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The only way.
    Plain,
    /// Limit: one cache line.
    PingPong,
    /// Limit: a copy in, a flag, a copy out.
    Exchange,
    /// Limit: the same, copied in past the caches.
    ExchangeNt,
    /// Limit: the kernel copies from the sender's memory into the receiver's.
    KernelCopy,
    /// Limit: a ring of 10 KiB.
    Ring10k,
    /// Limit: a ring of 64 KiB.
    Ring64k,
    /// Limit: the same, copied in past the caches.
    Ring64kNt,
    /// Limit: a ring of 1 MiB, for large messages.
    Ring1m,
    /// Limit: a ring of 4 MiB.
    Ring4m,
    /// Limit: an eventfd each way.
    Eventfd,
    /// Limit: a futex each way.
    Futex,
    /// Barewire: messages received from the connection.
    Message,
    /// Barewire: the same, but the receiver reads only the last byte, where the message lies.
    InPlace,
    /// Barewire: several messages in one frame.
    Batch,
    /// Barewire: a byte stream.
    Stream,
    /// Barewire: a byte stream over rings of 8 KiB.
    Stream8k,
    /// Barewire: messages announced in the event queue.
    EventQueue,
    /// Barewire: a put into an aperture that fires a tripwire.
    Tripwire,
}

impl Variant {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::PingPong => "ping-pong",
            Variant::Exchange => "exchange",
            Variant::ExchangeNt => "exchange-nt",
            Variant::KernelCopy => "kernel-copy",
            Variant::Ring10k => "ring-10k",
            Variant::Ring64k => "ring-64k",
            Variant::Ring64kNt => "ring-64k-nt",
            Variant::Ring1m => "ring-1m",
            Variant::Ring4m => "ring-4m",
            Variant::Eventfd => "eventfd",
            Variant::Futex => "futex",
            Variant::Message => "message",
            Variant::InPlace => "in-place",
            Variant::Batch => "batch",
            Variant::Stream => "stream",
            Variant::Stream8k => "stream-8k",
            Variant::EventQueue => "event-queue",
            Variant::Tripwire => "tripwire",
        }
    }
}

/// How both ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They spin.
    Polling,
    /// They sleep.
    Blocking,
}

impl Waiting {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Polling => "polling",
            Waiting::Blocking => "blocking",
        }
    }
}

/// A channel between the two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSpec {
    /// What carries it.
    pub transport: Transport,
    /// How it is used.
    pub variant: Variant,
    /// The message size, where memory is laid out for it; else 0.
    pub size: usize,
    /// How many connections, where one server has many.
    pub many: Option<u32>,
    /// Bytes of a ring, where that is chosen (barewire); else 0.
    pub ring_bytes: usize,
    /// How both ends will wait, where a channel is made for that (barewire); elsewhere
    /// it is changed from sample to sample, and this is [`Waiting::Polling`].
    pub waiting: Waiting,
}

impl ChannelSpec {
    /// How many connections to make.
    pub fn connections(&self) -> u32 {
        self.many.unwrap_or(1)
    }

    /// Whether a server may do this for a client that it does not know.
    pub fn is_harmless(&self) -> bool {
        let is_ring = self.ring_bytes.is_power_of_two() && self.ring_bytes <= RING_BYTES_MAX;
        self.transport.is_between_hosts()
            && self.connections() <= CONNECTIONS_MAX
            && (is_ring || self.transport == Transport::Tcp)
    }
}

/// Most connections of a channel.
pub const CONNECTIONS_MAX: u32 = 100_000;
/// Longest message.
pub const SIZE_MAX: usize = 1 << 24;
/// Largest ring that is made for a client that is not known.
const RING_BYTES_MAX: usize = 64 << 20;
/// Longest sample for such a client: 100 times what the command line allows.
const DURATION_NS_MAX: u64 = 1_000_000_000_000;

/// What both ends do in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The test.
    pub test: Test,
    /// Bytes in a message.
    pub size: usize,
    /// Connections in use.
    pub connections: u32,
    /// Requests outstanding on each.
    pub outstanding: u32,
    /// How both ends wait.
    pub waiting: Waiting,
    /// How long to measure.
    pub duration_ns: u64,
    /// What both ends do besides.
    pub habits: Habits,
}

impl Work {
    /// Whether a server may do this for a client that it does not know.
    pub fn is_harmless(&self) -> bool {
        (8..=SIZE_MAX).contains(&self.size)
            && (1..=CONNECTIONS_MAX).contains(&self.connections)
            && self.duration_ns <= DURATION_NS_MAX
            && self.habits.server_think_ns <= u64::from(u32::MAX)
    }
}

/// What the ends of `rtt` and `stream` do besides sending and receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Habits {
    /// Each line of a message is written before it is sent, as a program does that has something new to say.
    pub is_fresh: bool,
    /// How long the client thinks between an answer and the next request (`rtt`).
    pub client_think_ns: u64,
    /// How long the server thinks between a request and its answer (`rtt`).
    pub server_think_ns: u64,
    /// Each thinks from nothing to twice as long, at random.
    pub is_random: bool,
}

/// One line of the results.
#[derive(Clone, Debug)]
pub struct Case {
    /// The work of a sample.
    pub work: Work,
    /// The channel that carries it: an index into the channels of its phase.
    pub channel: usize,
    /// The transport and the way it is used.
    pub transport: Transport,
    /// The way the transport is used.
    pub variant: Variant,
}

impl Case {
    /// Whether both are the same line of the results.
    pub fn same(&self, other: &Case) -> bool {
        (self.work, self.transport, self.variant) == (other.work, other.transport, other.variant)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.work.test.name(), self.transport.name())?;
        if self.variant != Variant::Plain {
            write!(f, " {}", self.variant.name())?;
        }
        if self.work.test == Test::Transactions {
            write!(f, " {} connections", self.work.connections)
        } else {
            write!(f, " {} B", self.work.size)
        }
    }
}
