//! TCP over 127.0.0.1, or to where the server is, without Nagle's delay.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::kernel::{Duplex, client_over, server_over};
use crate::case::ChannelSpec;
use crate::channel::control::{Control, Reply};
use crate::channel::ends::{ClientEnd, ServerEnd};
use crate::error::{Error, Result, What};

fn socket(to: &SocketAddr) -> Result<OwnedFd> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .what("making a TCP socket")
}

fn prepare(socket: &OwnedFd) -> Result<()> {
    sockopt::set_tcp_nodelay(socket, true).what("setting TCP_NODELAY")
}

/// Connects as often as the test has connections.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    let address: SocketAddr = control
        .expect_address()?
        .parse()
        .map_err(|_| Error::Peer("it sent no address".into()))?;
    let mut connections = Vec::with_capacity(spec.connections() as usize);
    for _ in 0..spec.connections() {
        let socket = socket(&address)?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))
            .what("connecting over TCP to the server")?;
        prepare(&socket)?;
        // Closing resets the connection, so that thousands of them leave no TIME_WAIT.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).what("setting SO_LINGER")?;
        connections.push(Duplex::socket(socket));
    }
    client_over(connections, spec.many.is_some())
}

/// Accepts them.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    let at = SocketAddr::new(control.server_address(), 0);
    let listener = socket(&at)?;
    rustix::net::bind(&listener, &at).what("binding a TCP socket")?;
    rustix::net::listen(&listener, 4096).what("listening over TCP")?;
    let address = rustix::net::getsockname(&listener).what("asking for the TCP port")?;
    let address = SocketAddr::try_from(address).what("asking for the TCP port")?;
    control.send(&Reply::Address(address.to_string()))?;
    let mut connections = Vec::with_capacity(spec.connections() as usize);
    for _ in 0..spec.connections() {
        let socket =
            rustix::io::retry_on_intr(|| rustix::net::accept_with(&listener, SocketFlags::CLOEXEC))
                .what("accepting a TCP connection")?;
        prepare(&socket)?;
        connections.push(Duplex::socket(socket));
    }
    server_over(connections, spec.many.is_some())
}
