//! TCP sockets that meet over the loopback device without an accept: one is on its way, and the other connects to it.
//!
//! A [`Pending`] port answers nobody. A socket that connects there is on its way (`SYN-SENT`) until this process decides:
//! [`Pending::join`] connects from the very port to the socket, and both are connected (simultaneous open: RFC 9293,
//! section 3.5). [`give_up`] ends its attempt, for which a duplicate of the socket is needed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use barewire_calls::option;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// `BPF_RET | BPF_K` with 0: of no packet anything is let through.
static DROP: libc::sock_filter = libc::sock_filter {
    code: 6,
    jt: 0,
    jf: 0,
    k: 0,
};

/// A port of the loopback device at which nobody is answered.
#[derive(Debug)]
pub struct Pending {
    _listener: OwnedFd,
    local: SocketAddr,
}

impl Pending {
    /// Opens one at an address of the loopback device, with a port that is free.
    ///
    /// # Errors
    /// No such address; no port or no descriptor is left; or the device is down.
    pub fn open(address: IpAddr) -> io::Result<Pending> {
        let listener = socket(address)?;
        let filter = libc::sock_fprog {
            len: 1,
            filter: (&raw const DROP).cast_mut(),
        };
        let words = [filter.len as usize, filter.filter as usize];
        let bytes = words.map(usize::to_ne_bytes);
        // Before anybody can connect. The kernel reads `DROP`, and copies it.
        option::set_bytes(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            bytes.as_flattened(),
        )
        .map_err(io::Error::from_raw_os_error)?;
        net::bind(&listener, &SocketAddr::new(address, 0))?;
        // Nothing ever waits there.
        net::listen(&listener, 1)?;
        let local = local_of(&listener)?;
        let pending = Pending {
            _listener: listener,
            local,
        };
        pending.check()?;
        Ok(pending)
    }

    /// Its address and port.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether a socket that connects is on its way: not if the device is down.
    fn check(&self) -> io::Result<()> {
        let probe = socket(self.local.ip())?;
        match net::connect(&probe, &self.local) {
            Err(rustix::io::Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => Err(io::Error::other(
                "the kernel ignores the filter of a listening socket",
            )),
        }
    }

    /// Connects to a socket that is on its way here. What comes back does not wait, and is
    /// connected once it is writable.
    ///
    /// # Errors
    /// The socket is not on its way any more.
    pub fn join(&self, other: SocketAddr) -> io::Result<TcpStream> {
        connect(self.local, other)
    }

    /// Connects from another port of the same address, to a listener.
    ///
    /// # Errors
    /// Nobody listens there; or no port is left.
    pub fn call(&self, listener: SocketAddr) -> io::Result<TcpStream> {
        connect(SocketAddr::new(self.local.ip(), 0), listener)
    }
}

fn socket(address: IpAddr) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Several have one port: the one that listens, and those that join.
    sockopt::set_socket_reuseport(&socket, true)?;
    Ok(socket)
}

fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(from.ip())?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    net::bind(&socket, &from)?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// The address of this end of a socket.
///
/// # Errors
/// It is no socket of IP.
pub fn local_of(socket: impl AsFd) -> io::Result<SocketAddr> {
    let address = net::getsockname(socket)?;
    let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
    let ip = address.ip().to_canonical();
    Ok(SocketAddr::new(ip, address.port()))
}

/// Whether a TCP socket has begun to connect, and is not connected yet.
#[must_use]
pub fn is_on_its_way(socket: impl AsFd) -> bool {
    /// `TCP_SYN_SENT` in the first byte of `struct tcp_info`.
    const SYN_SENT: u8 = 2;
    let mut state = [0];
    let fd = socket.as_fd().as_raw_fd();
    let known = option::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state);
    known == Ok(1) && state[0] == SYN_SENT
}

/// Ends what a socket has begun to connect: whoever has it sees an error.
///
/// # Errors
/// It is no TCP socket.
pub fn give_up(socket: impl AsFd) -> io::Result<()> {
    Ok(net::connect_unspec(socket)?)
}

/// Has the other end see a reset when this end is closed, by whomever; or, as usual, the end of the stream.
///
/// # Errors
/// It is no socket.
pub fn reset_at_close(socket: impl AsFd, wanted: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(
        socket,
        wanted.then_some(Duration::ZERO),
    )?)
}

/// An address of the loopback device that others hardly use.
#[must_use]
pub fn address(seed: u32) -> Ipv4Addr {
    let [_, a, b, c] = seed.to_be_bytes();
    // Neither the first nor the last of the network, and not the usual ones.
    Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254))
}

/// The loopback address of IPv6.
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::LOCALHOST;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn on_its_way(pending: &Pending) -> OwnedFd {
        let one = socket(pending.local().ip()).unwrap();
        let error = net::connect(&one, &pending.local()).unwrap_err();
        assert_eq!(error, rustix::io::Errno::INPROGRESS);
        assert!(is_on_its_way(&one));
        one
    }

    #[test]
    fn a_socket_on_its_way_is_joined_or_given_up() {
        let pending = Pending::open(address(0x0053_0102).into()).unwrap();
        let one = on_its_way(&pending);
        let mut joined = pending.join(local_of(&one).unwrap()).unwrap();
        assert!(!is_on_its_way(&one));
        let mut one = TcpStream::from(one);
        assert_eq!(one.peer_addr().unwrap(), pending.local());
        one.set_nonblocking(false).unwrap();
        joined.set_nonblocking(false).unwrap();
        one.write_all(b"ping").unwrap();
        joined.write_all(b"pong").unwrap();
        let mut buffer = [0; 4];
        joined.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"ping");
        one.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"pong");
        reset_at_close(&joined, true).unwrap();
        drop(joined);
        let error = one.read(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let other = on_its_way(&pending);
        give_up(&other).unwrap();
        let other = TcpStream::from(other);
        let error = other.take_error().unwrap().expect("it failed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
