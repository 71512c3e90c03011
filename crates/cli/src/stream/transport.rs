//! A connection as a stream test needs it: bytes in and out, an end of each direction, and a limit
//! on how long nothing may move.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};

use barewire::{ConnectOptions, Node, NodeConfig, Stream};
use rustix::net::sockopt;

use super::common::{NAME, Over, PATIENCE, PORT, Result, StreamError, doing};

/// Bulk data want a larger ring than the 4 KiB that many small connections want.
const RING_BYTES: usize = 256 << 10;
/// What barewire takes for a ring: powers of two.
const RING_BYTES_MIN: u64 = 4 << 10;
const RING_BYTES_MAX: u64 = 16 << 20;

/// What the sockets of an end hold, as the kernel says; nothing where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    pub send_bytes: Option<u64>,
    pub receive_bytes: Option<u64>,
}

/// How a connection is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the sockets, or of barewire's rings; 0: as they are.
    pub buffer_bytes: u64,
    pub nagle: bool,
}

/// A connection.
pub trait Transport {
    /// At least one byte, 0 at the end.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;
    /// At least one byte.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Nothing more will be written.
    fn finish(&mut self) -> io::Result<()>;
    fn buffers(&self) -> Buffers;
    /// Has the connection as it is to be.
    fn set_up(&mut self, settings: Settings) -> io::Result<()>;
}

/// Whether a ring of so many bytes can be; 0 is the default.
pub fn check_ring(bytes: u64) -> std::result::Result<(), String> {
    let is_size = (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes) && bytes.is_power_of_two();
    if bytes == 0 || is_size {
        return Ok(());
    }
    Err(format!(
        "--buffer {bytes}: with --over barewire a power of two, {RING_BYTES_MIN} to {RING_BYTES_MAX}"
    ))
}

fn nothing_moved() -> io::Error {
    let text = format!("nothing moved for {} s", PATIENCE.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// A time-out of a socket, in words; calls that a signal ended are made again.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => nothing_moved(),
        _ => error,
    }
}

fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(in_words),
        }
    }
}

pub struct Tcp(TcpStream);

impl Tcp {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }
}

impl Transport for Tcp {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        again(|| self.0.read(into))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match again(|| self.0.write(bytes))? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    fn buffers(&self) -> Buffers {
        let size = |size: rustix::io::Result<usize>| size.ok().map(|it| it as u64);
        Buffers {
            send_bytes: size(sockopt::socket_send_buffer_size(&self.0)),
            receive_bytes: size(sockopt::socket_recv_buffer_size(&self.0)),
        }
    }

    fn set_up(&mut self, settings: Settings) -> io::Result<()> {
        self.0.set_nodelay(!settings.nagle)?;
        if settings.buffer_bytes > 0 {
            let bytes = settings.buffer_bytes as usize;
            sockopt::set_socket_send_buffer_size(&self.0, bytes)?;
            sockopt::set_socket_recv_buffer_size(&self.0, bytes)?;
        }
        Ok(())
    }
}

/// A connection of barewire, with the node that it needs where it has one of its own.
pub struct Ours {
    stream: Stream,
    _node: Option<Node>,
}

impl Ours {
    pub const fn new(stream: Stream, node: Option<Node>) -> Self {
        Self {
            stream,
            _node: node,
        }
    }
}

impl Transport for Ours {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.reader().read_timeout(into, Some(PATIENCE))?;
        read.ok_or_else(nothing_moved)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.writer().write_timeout(bytes, Some(PATIENCE))? {
            0 => Err(nothing_moved()),
            written => Ok(written),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.finish();
        Ok(())
    }

    fn buffers(&self) -> Buffers {
        Buffers::default()
    }

    /// Rings are as they were made, and there is no rule of Nagle's.
    fn set_up(&mut self, _: Settings) -> io::Result<()> {
        Ok(())
    }
}

/// A node whose connections have rings of so many bytes; 0: as many as bulk data want.
pub fn node(ring_bytes: u64) -> Result<Node> {
    let config = NodeConfig {
        ring_bytes: ring_of(ring_bytes),
        ..NodeConfig::default()
    };
    Node::with_config(config).map_err(doing("making a node"))
}

/// The ring that a connection's request asks for, as far as there can be one.
pub fn ring_of(bytes: u64) -> usize {
    match bytes {
        0 => RING_BYTES,
        bytes if check_ring(bytes).is_ok() => bytes as usize,
        _ => RING_BYTES,
    }
}

/// Reaches the end that listens.
pub fn connect(over: Over, host: &str, settings: Settings) -> Result<Box<dyn Transport>> {
    let mut transport: Box<dyn Transport> = match over {
        Over::Tcp => Box::new(connect_tcp(host)?),
        Over::Barewire => {
            let node = node(settings.buffer_bytes)?;
            let options = ConnectOptions {
                wait_for_name: false,
                data: settings.buffer_bytes.to_le_bytes().to_vec(),
                ..ConnectOptions::default()
            };
            let name = if host.is_empty() { NAME } else { host };
            let connection = node.connect_with(name, &options);
            let connection = connection.map_err(doing(format!("connecting to `{name}`")))?;
            Box::new(Ours::new(connection.into_stream(), Some(node)))
        }
    };
    transport
        .set_up(settings)
        .map_err(doing("setting the socket up"))?;
    Ok(transport)
}

/// The addresses of `HOST` or `HOST:PORT`.
pub fn addresses(host: &str) -> Result<Vec<SocketAddr>> {
    let with_port = host.to_socket_addrs();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = with_port.or_else(|_| (bare, PORT).to_socket_addrs());
    let found: Vec<_> = found.map_err(doing(format!("finding `{host}`")))?.collect();
    match found.is_empty() {
        true => Err(StreamError::Usage(format!("`{host}` has no address"))),
        false => Ok(found),
    }
}

fn connect_tcp(host: &str) -> Result<Tcp> {
    let mut last = None;
    for address in addresses(host)? {
        match TcpStream::connect_timeout(&address, PATIENCE).and_then(Tcp::new) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) =
        last.ok_or_else(|| StreamError::Usage(format!("`{host}` has no address")))?;
    let what = format!("connecting to {address} (is `barewire stream --listen` running there?)");
    Err(doing(what)(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_port_that_it_names_or_ours() {
        let port = |host: &str| addresses(host).expect(host)[0].port();
        assert_eq!(port("127.0.0.1"), PORT);
        assert_eq!(port("127.0.0.1:80"), 80);
        assert_eq!(port("::1"), PORT);
        assert_eq!(port("[::1]:81"), 81);
        assert_eq!(port("[::1]"), PORT);
        assert!(addresses("127.0.0.1:99999").is_err());
    }

    #[test]
    fn rings_are_powers_of_two() {
        assert!(check_ring(0).is_ok() && check_ring(1 << 20).is_ok());
        assert!(check_ring(528_288).is_err() && check_ring(1 << 40).is_err());
        assert_eq!(
            (ring_of(0), ring_of(3), ring_of(8192)),
            (RING_BYTES, RING_BYTES, 8192)
        );
    }
}
