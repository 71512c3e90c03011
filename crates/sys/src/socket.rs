//! Unix sockets that keep message boundaries (SOCK_SEQPACKET), under abstract
//! names. They carry descriptors and say who is at the other end. None of
//! these calls ever blocks.

mod peer;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use barewire_calls::{self as calls, message, name};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Result, SysError, new_fd, on};
pub use crate::process::Credentials;

/// How many descriptors one message carries at most.
pub const MOST_FDS: usize = 16;
/// How many the kernel lets a message carry (SCM_MAX_FD). There is always room for all of
/// them: the kernel would have this thread close the rest, and that may wait.
pub const RIGHTS_MAX: usize = message::DESCRIPTORS_MAX;

/// A socket on which others connect.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Listens under an abstract name of 1 to 107 bytes, in this network
    /// namespace. `backlog`: how many connections may wait to be accepted.
    ///
    /// # Errors
    /// `AddressInUse` if the name is taken; no descriptors left; a bad name.
    pub fn bind(name: &[u8], backlog: i32) -> Result<Listener> {
        const WHAT: &str = "listen on an abstract socket name";
        check_name(WHAT, name)?;
        let fd = new_fd(name::new()).map_err(on(WHAT))?;
        name::bind(fd.as_raw_fd(), name).map_err(|errno| match errno {
            libc::EADDRINUSE => SysError::AddressInUse { name: shown(name) },
            _ => SysError::new(WHAT, errno),
        })?;
        name::listen(fd.as_raw_fd(), backlog).map_err(on(WHAT))?;
        Ok(Listener { fd })
    }

    /// Nobody can connect from here on; who waits can still be accepted.
    pub fn shutdown(&self) {
        // It can only fail where there is no socket.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }

    /// The next connection, or `None` if none waits.
    ///
    /// # Errors
    /// `TooManyDescriptors`: the connection stays waiting, so the listener
    /// stays readable; wait a little before trying again.
    pub fn accept(&self) -> Result<Option<Socket>> {
        loop {
            match new_fd(name::accept(self.fd.as_raw_fd())) {
                Ok(fd) => return Ok(Some(Socket { fd })),
                // Invalid: shut down, and nobody waits any more.
                Err(libc::EAGAIN | libc::EINVAL) => return Ok(None),
                Err(libc::EINTR | libc::ECONNABORTED) => {}
                Err(errno) => return Err(SysError::new("accept a connection", errno)),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What became of a message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it is on its way.
    Done,
    /// Nothing was sent: there is no room now.
    WouldBlock,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of so many bytes.
    Message(usize),
    /// Nothing is there now.
    WouldBlock,
    /// The other end has closed (or sent an empty message, which is no
    /// message here).
    Hangup,
    /// A message came that was too long or had too many descriptors, or
    /// descriptors for which this process has no numbers left. It is gone,
    /// and all its descriptors are closed.
    Truncated,
}

/// What [`Socket::peek`] saw of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// Its first byte, if it has one.
    pub first: Option<u8>,
    /// Whether it carries descriptors.
    pub has_descriptors: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Connects to the listener of this abstract name.
    ///
    /// # Errors
    /// `NoListener` if nobody listens; `Busy` if too many connections wait
    /// already; a bad name; no descriptors left.
    pub fn connect(name: &[u8]) -> Result<Socket> {
        const WHAT: &str = "connect to an abstract socket name";
        check_name(WHAT, name)?;
        let fd = new_fd(name::new()).map_err(on(WHAT))?;
        loop {
            match name::connect(fd.as_raw_fd(), name) {
                Ok(()) => return Ok(Socket { fd }),
                Err(libc::EINTR) => {}
                Err(libc::ECONNREFUSED) => return Err(SysError::NoListener { name: shown(name) }),
                Err(libc::EAGAIN) => return Err(SysError::Busy { name: shown(name) }),
                Err(errno) => return Err(SysError::new(WHAT, errno)),
            }
        }
    }

    /// Two sockets connected to each other.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> Result<(Socket, Socket)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(on("make a pair of sockets"))?;
        Ok((Socket { fd: a }, Socket { fd: b }))
    }

    /// Sends one message of at least one byte, with at most [`MOST_FDS`]
    /// descriptors (the other end gets duplicates), whole or not at all.
    ///
    /// # Errors
    /// `Hangup` if the other end is closed; `InvalidArgument` if the message
    /// can never be sent; `TooManyDescriptors` if too many are in flight.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Sent> {
        const WHAT: &str = "send on a socket";
        let wrong = |reason| SysError::InvalidArgument { what: WHAT, reason };
        if bytes.is_empty() {
            return Err(wrong("an empty message looks like a hang-up"));
        }
        if fds.len() > MOST_FDS {
            return Err(wrong("more than 16 descriptors"));
        }
        let mut numbers = [-1; MOST_FDS];
        for (number, fd) in numbers.iter_mut().zip(fds) {
            *number = fd.as_raw_fd();
        }
        loop {
            match message::send(self.fd.as_raw_fd(), bytes, &numbers[..fds.len()]) {
                Ok(_) => return Ok(Sent::Done),
                Err(libc::EAGAIN) => return Ok(Sent::WouldBlock),
                Err(libc::EINTR) => {}
                Err(libc::EPIPE | libc::ECONNRESET | libc::ECONNREFUSED | libc::ENOTCONN) => {
                    return Err(SysError::Hangup { what: WHAT });
                }
                Err(libc::EMSGSIZE) => return Err(wrong("longer than the send buffer")),
                Err(errno) => return Err(SysError::new(WHAT, errno)),
            }
        }
    }

    /// Receives one message into `buf` (at least one byte long) and appends
    /// its descriptors, closed on exec, at most [`MOST_FDS`], to `fds`.
    ///
    /// # Errors
    /// Only if the kernel lacks memory or the socket is broken.
    pub fn recv(&self, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<Received> {
        let before = fds.len();
        let received = self.recv_keeping(buf, fds)?;
        if !matches!(received, Received::Message(_)) {
            fds.truncate(before);
        }
        Ok(received)
    }

    /// As [`Socket::recv`]; but all descriptors that came are in `fds`, also those of a
    /// message that was too long or had too many, for the caller to close where that may
    /// wait.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn recv_keeping(&self, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<Received> {
        // After a reset, which is told once, come the messages sent before it.
        let mut was_reset = false;
        loop {
            match self.recv_once(buf, fds) {
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) => return Ok(Received::WouldBlock),
                Err(libc::ECONNRESET) if was_reset => return Ok(Received::Hangup),
                Err(libc::ECONNRESET) => was_reset = true,
                Err(errno) => return Err(SysError::new("receive on a socket", errno)),
                Ok(received) => return Ok(received),
            }
        }
    }

    fn recv_once(&self, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> calls::Result<Received> {
        let mut numbers = [-1; RIGHTS_MAX];
        let got = message::receive(self.fd.as_raw_fd(), buf, &mut numbers, 0)?;
        let new = &numbers[..got.descriptors];
        // SAFETY: the kernel has just made them, and nobody else knows them.
        fds.extend(new.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
        Ok(match got.bytes {
            _ if got.is_cut() || new.len() > MOST_FDS => Received::Truncated,
            0 => Received::Hangup,
            bytes => Received::Message(bytes),
        })
    }

    /// What the next message is, without receiving it; `None` if nothing is there now.
    ///
    /// No descriptor is made for what it carries, so nothing has to be closed.
    ///
    /// # Errors
    /// Only if the connection was reset, which is told once, or the socket is broken.
    pub fn peek(&self) -> Result<Option<Peeked>> {
        let mut first = [0];
        loop {
            match message::receive(self.fd.as_raw_fd(), &mut first, &mut [], libc::MSG_PEEK) {
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) => return Ok(None),
                Err(errno) => return Err(SysError::new("look at a socket", errno)),
                Ok(got) => {
                    return Ok(Some(Peeked {
                        first: (got.bytes > 0).then(|| first[0]),
                        has_descriptors: got.flags & libc::MSG_CTRUNC != 0,
                    }));
                }
            }
        }
    }

    /// Whether a message is left that was not received. Only for a socket that is shut down:
    /// afterwards messages carry more than was sent.
    pub(crate) fn has_unread(&self) -> bool {
        let fd = self.fd.as_raw_fd();
        // The first look may be told of a reset instead. An error that stays tells nothing, so there may be something.
        let found = message::is_there(fd).or_else(|_| message::is_there(fd));
        found.unwrap_or(true)
    }

    /// Ends the connection for both sides, whoever else has the descriptor. What has been
    /// sent can still be received.
    pub fn shutdown(&self) {
        // It can only fail where there is no connection.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }

    /// Sets the room for messages under way, in both directions, in bytes.
    /// The kernel doubles it for its own needs and caps it at
    /// net.core.wmem_max and rmem_max.
    ///
    /// # Errors
    /// Only if the socket is broken.
    pub fn set_buffer_bytes(&self, bytes: usize) -> Result<()> {
        const WHAT: &str = "size the buffers of a socket";
        let bytes = bytes.min(i32::MAX as usize / 2);
        rustix::net::sockopt::set_socket_send_buffer_size(&self.fd, bytes).map_err(on(WHAT))?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.fd, bytes).map_err(on(WHAT))
    }

    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check_name(what: &'static str, name: &[u8]) -> Result<()> {
    match name.len() {
        1..=name::NAME_BYTES_MAX => Ok(()),
        _ => Err(SysError::InvalidArgument {
            what,
            reason: "the name must be 1 to 107 bytes long",
        }),
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
