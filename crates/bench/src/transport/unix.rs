//! Unix stream sockets, by an abstract name.

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::kernel::{Duplex, client_over, server_over};
use crate::case::ChannelSpec;
use crate::channel::control::{Control, Reply};
use crate::channel::ends::{ClientEnd, ServerEnd};
use crate::error::{Result, What};

/// Connects as often as the test has connections.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    let name = control.expect_address()?;
    let address = SocketAddr::from_abstract_name(&name).what("naming a Unix socket")?;
    let mut connections = Vec::with_capacity(spec.connections() as usize);
    for _ in 0..spec.connections() {
        let stream = UnixStream::connect_addr(&address).what("connecting to a Unix socket")?;
        connections.push(Duplex::socket(OwnedFd::from(stream)));
    }
    client_over(connections, spec.many.is_some())
}

/// Accepts them.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    let name = format!(
        "barewire-bench-{}-{:x}",
        std::process::id(),
        crate::measure::clock::Clock::cycles()
    );
    let address = SocketAddr::from_abstract_name(&name).what("naming a Unix socket")?;
    let listener = UnixListener::bind_addr(&address).what("binding a Unix socket")?;
    control.send(&Reply::Address(name))?;
    let mut connections = Vec::with_capacity(spec.connections() as usize);
    for _ in 0..spec.connections() {
        let (stream, _) = listener.accept().what("accepting on a Unix socket")?;
        connections.push(Duplex::socket(OwnedFd::from(stream)));
    }
    server_over(connections, spec.many.is_some())
}
