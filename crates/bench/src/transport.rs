//! The transports: what this machine can do at best, the kernel's ways, and barewire.
//!
//! A transport opens its two ends ([`open_client`], [`open_server`]) with the help of the
//! control socket, and each end turns one sample into loops of `channel::loops`, which are
//! compiled for it: no dynamic call stands inside a timed loop.

mod barewire;
mod kernel;
mod kernel_copy;
pub mod limit;
mod pipe;
mod tcp;
mod unix;
mod wakers;

use crate::case::{ChannelSpec, Transport};
use crate::channel::control::Control;
use crate::channel::ends::{ClientEnd, ServerEnd};
use crate::error::Result;

/// Opens the client's end; the server was told to open its own.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    match spec.transport {
        Transport::Limit => limit::open_client(spec, control),
        Transport::Tcp => tcp::open_client(spec, control),
        Transport::Unix => unix::open_client(spec, control),
        Transport::Pipe => pipe::open_client(spec, control),
        Transport::Barewire | Transport::Hosts => barewire::open_client(spec, control),
    }
}

/// Opens the server's end.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    match spec.transport {
        Transport::Limit => limit::open_server(spec, control),
        Transport::Tcp => tcp::open_server(spec, control),
        Transport::Unix => unix::open_server(spec, control),
        Transport::Pipe => pipe::open_server(spec, control),
        Transport::Barewire | Transport::Hosts => barewire::open_server(spec, control),
    }
}
