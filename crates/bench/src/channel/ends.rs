//! The traits behind which the transports stand, so that every measuring loop is written once.

use crate::case::{Waiting, Work};
use crate::channel::control::Served;
use crate::error::Result;
use crate::measure::clock::Clock;
use crate::measure::stats::Scratch;

/// Which end of a channel this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It begins, and measures.
    Client,
    /// It answers.
    Server,
}

/// What the client's end of a sample measured.
#[derive(Clone, Copy, Debug)]
pub enum Measured {
    /// The client timed each operation (in the scratch histogram), and all together.
    Client {
        /// Operations.
        operations: u64,
        /// The time they took.
        elapsed_ns: f64,
    },
    /// The server timed it and reports it.
    Server,
}

/// What a sample needs besides the channel.
#[derive(Debug)]
pub struct Context {
    /// The clock of the hot loops.
    pub clock: Clock,
    /// Where the client records the time of each operation.
    pub scratch: Scratch,
}

/// A connection that carries messages, or bytes in order.
pub trait Channel {
    /// How many bytes may pass between two looks at the clock: 0 where a system call
    /// stands behind every message anyway.
    const BYTES_PER_LOOK: usize;

    /// From now on both spin, or both sleep.
    fn set_waiting(&mut self, waiting: Waiting) -> Result<()>;

    /// Hands over the whole message.
    fn send(&mut self, message: &[u8]) -> Result<()>;

    /// Makes sure that what was sent is on its way.
    #[inline(always)]
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Receives until the buffer is full.
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()>;

    /// Receives what there is, at least one byte: in a stream of messages of `size`.
    #[inline(always)]
    fn recv_some(&mut self, buffer: &mut [u8], size: usize) -> Result<usize> {
        self.recv_exact(&mut buffer[..size])?;
        Ok(size)
    }
}

/// The client's end of many connections.
pub trait ManyClient {
    /// From now on both spin, or both sleep.
    fn set_waiting(&mut self, waiting: Waiting) -> Result<()>;

    /// Sends `count` requests on one connection.
    fn send(&mut self, connection: u32, request: &[u8], count: u32) -> Result<()>;

    /// Waits for replies; adds (connection, how many) for each that has some.
    fn replies(&mut self, ready: &mut Vec<(u32, u32)>) -> Result<()>;
}

/// The server's end of many connections.
pub trait ManyServer {
    /// From now on both spin, or both sleep.
    fn set_waiting(&mut self, waiting: Waiting) -> Result<()>;

    /// Waits for requests and answers all there are; true after the last one.
    fn turn(&mut self) -> Result<bool>;
}

/// The measuring end of a channel.
pub trait ClientEnd {
    /// Takes one sample.
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured>;
}

/// The serving end of a channel.
pub trait ServerEnd {
    /// Serves one sample.
    fn serve(&mut self, work: &Work, context: &mut Context) -> Result<Served>;
}
