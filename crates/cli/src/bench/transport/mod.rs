//! The transports behind a few traits, so that every measuring loop is written once.
//!
//! A transport opens its two ends ([`open_client`], [`open_server`]) with the help of the
//! control socket, and each end turns one sample into loops of `super::loops`, which are
//! compiled for it: no dynamic call stands inside a timed loop.

pub mod barewire;
pub mod kernel;
pub mod limit;
pub mod pipe;
pub mod tcp;
pub mod unix;

use super::clock::Clock;
use super::control::{Control, Served};
use super::error::Result;
use super::plan::{ChannelSpec, Transport, Waiting, Work};
use super::stats::Scratch;

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

/// Opens the client's end; the server was told to open its own.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    match spec.transport {
        Transport::Limit => limit::open_client(spec, control),
        Transport::Tcp => tcp::open_client(spec, control),
        Transport::Unix => unix::open_client(spec, control),
        Transport::Pipe => pipe::open_client(spec, control),
        Transport::Barewire => barewire::open_client(spec, control),
    }
}

/// Opens the server's end.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    match spec.transport {
        Transport::Limit => limit::open_server(spec, control),
        Transport::Tcp => tcp::open_server(spec, control),
        Transport::Unix => unix::open_server(spec, control),
        Transport::Pipe => pipe::open_server(spec, control),
        Transport::Barewire => barewire::open_server(spec, control),
    }
}
