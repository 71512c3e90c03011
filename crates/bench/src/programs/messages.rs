//! What the benchmark and its two small programs write to each other, a line of JSON each.

use serde::{Deserialize, Serialize};

use super::memory::Memory;

/// What a process is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Listen; the answer is the port.
    Listen,
    /// Accept a connection and do the server's part.
    Serve(Work),
    /// Connect to the port and do the client's part.
    Play(u16, Work),
}

/// What both ends of a sample do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Messages of so many bytes to and fro.
    PingPong {
        /// Bytes of a message.
        size: usize,
        /// Reads do not wait: both ends look again and again.
        polling: bool,
        /// Both ends share one processor: whoever polls gives way between its looks.
        yields: bool,
        /// How long.
        ms: u64,
    },
    /// One way, from client to server, so many bytes in each write.
    Stream {
        /// Bytes of a write.
        size: usize,
        /// How long.
        ms: u64,
    },
    /// Connections, one after the other, both ends in one process: client only.
    Connects {
        /// How many.
        count: u32,
    },
    /// Connections, one after the other: a request of 64 B, an answer, and the end.
    Short {
        /// How many.
        count: u32,
        /// Bytes of an answer.
        answer_bytes: usize,
        /// A child of the server, forked for the connection, answers.
        forks: bool,
    },
    /// Children that end at once, one after the other: client only.
    Children {
        /// How many.
        count: u32,
        /// Each becomes another program: `true`.
        starts: bool,
    },
    /// Many connections that have been used, and then nothing.
    Idle {
        /// How many.
        count: u32,
        /// Messages to and fro on each.
        rounds: u32,
        /// How long nothing.
        ms: u64,
    },
}

/// What a process answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It listens there.
    Port(u16),
    /// It has done its part.
    Done(Done),
    /// It could not.
    Failed(String),
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Round trips, connections or children.
    pub operations: u64,
    /// The bytes that count for the rate.
    pub bytes: u64,
    /// In so many nanoseconds.
    pub elapsed_ns: f64,
    /// The median round trip.
    pub median_ns: f64,
    /// Processor time of the whole part, and how long that took.
    pub cpu_ns: f64,
    /// As above.
    pub wall_ns: f64,
    /// Memory before and after all connections were made.
    pub memory: Option<(Memory, Memory)>,
}
