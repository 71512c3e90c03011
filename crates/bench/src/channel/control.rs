//! The socket between the measuring process and its server process: commands one way,
//! replies the other, descriptors along with them. Idle while anything is measured.
//!
//! With a server on another host it is a TCP connection: each message follows its length in four bytes,
//! little-endian, and descriptors do not travel.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::case::{ChannelSpec, Work};
use crate::error::{Error, Result, What};

/// Descriptors that travel in one message at most.
pub const DESCRIPTORS_PER_MESSAGE: usize = 64;

/// The longest message.
const LONGEST: usize = 128 * 1024;

/// No step of a benchmark takes so long, whatever the machine does.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// What the measuring process asks of the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// First: where to run. The descriptor of the probe's memory follows, if both are on one machine.
    Hello {
        /// Of the client's program. The server's has to be the same.
        version: String,
        /// The processor to stay on.
        cpu: Option<usize>,
        /// Both processes share one processor.
        shared_processor: bool,
        /// Where the server listens over TCP, if both are on one machine.
        listens_at: IpAddr,
    },
    /// Open the server's end of a channel under this number.
    Open {
        /// The number by which samples name it.
        id: usize,
        /// What to open.
        spec: ChannelSpec,
    },
    /// More descriptors for a channel that is being opened.
    Descriptors,
    /// Close a channel.
    Close {
        /// Its number.
        id: usize,
    },
    /// Probe, serve one sample, probe.
    Sample {
        /// The channel.
        id: usize,
        /// What the client will do.
        work: Work,
    },
    /// Probe alone (around something that other processes do).
    Probe,
}

/// What the server answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Ready,
    /// Listening here; connect now.
    Address(String),
    /// A sample was served.
    Served(Served),
    /// It could not be done.
    Failed(String),
}

/// What the server knows about a sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// Operations that the server counted (streams only).
    pub operations: u64,
    /// The time they took at the server, in nanoseconds (streams only).
    pub elapsed_ns: f64,
    /// Picoseconds per operation, for each short stretch (streams only).
    pub stretches_ps: Vec<u64>,
    /// Processor time of the server in the sample.
    pub cpu_ns: u64,
    /// Time that the sample took at the server.
    pub wall_ns: u64,
}

/// One end of the control socket.
#[derive(Debug)]
pub struct Control {
    socket: Socket,
    server_address: IpAddr,
}

#[derive(Debug)]
enum Socket {
    /// To a process of this machine.
    Here(OwnedFd),
    /// To one of any.
    Tcp(TcpStream),
}

impl Control {
    fn here(fd: OwnedFd) -> Control {
        Control {
            socket: Socket::Here(fd),
            server_address: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Over a connection to another host; `server_address` is where the server listens.
    pub fn over(stream: TcpStream, server_address: IpAddr) -> Result<Control> {
        stream.set_nodelay(true).what("setting TCP_NODELAY")?;
        stream
            .set_read_timeout(Some(LONGEST_SILENCE))
            .and_then(|()| stream.set_write_timeout(Some(LONGEST_SILENCE)))
            .what("setting how long to wait for the other host")?;
        Ok(Control {
            socket: Socket::Tcp(stream),
            server_address,
        })
    }

    /// Whether the other end is a process of this machine, which takes descriptors.
    pub fn is_here(&self) -> bool {
        matches!(self.socket, Socket::Here(_))
    }

    /// Where the server listens over TCP.
    pub fn server_address(&self) -> IpAddr {
        self.server_address
    }

    /// Says where it does.
    pub fn set_server_address(&mut self, address: IpAddr) {
        self.server_address = address;
    }

    /// Both ends.
    pub fn pair() -> Result<(Control, OwnedFd)> {
        let (near, far) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .what("making the control socket")?;
        Ok((Control::here(near), far))
    }

    /// The server's end, which it got as its standard input.
    pub fn inherited() -> Result<Control> {
        let fd = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .what("taking over the control socket")?;
        Ok(Control::here(fd))
    }

    /// Sends one message.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<()> {
        self.send_with(message, &[])
    }

    /// Sends one message with descriptors.
    pub fn send_with<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let bytes = serde_json::to_vec(message)
            .map_err(|error| Error::Transport(format!("control message: {error}")))?;
        let fd = match &self.socket {
            Socket::Here(fd) => fd,
            Socket::Tcp(stream) if fds.is_empty() => return send_over(stream, &bytes),
            Socket::Tcp(_) => return Err(no_descriptors()),
        };
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::Transport("too many descriptors in a message".into()));
        }
        let slices = [IoSlice::new(&bytes)];
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(fd, &slices, &mut ancillary, SendFlags::NOSIGNAL)
        })
        .what("sending to the other process")?;
        Ok(())
    }

    /// Receives one message; `None` when the other side is gone.
    pub fn recv<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; LONGEST];
        let fd = match &self.socket {
            Socket::Here(fd) => fd,
            Socket::Tcp(stream) => {
                let Some(len) = receive_over(stream, &mut bytes)? else {
                    return Ok(None);
                };
                return Ok(Some((parse(&bytes[..len])?, Vec::new())));
            }
        };
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                fd,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        })
        .what("receiving from the other process")?;
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(Some((parse(&bytes[..received.bytes])?, fds)))
    }

    /// Receives a reply; a failure of the server becomes an error here.
    pub fn reply(&self) -> Result<(Reply, Vec<OwnedFd>)> {
        match self.recv()? {
            None => Err(Error::Peer("it is gone".into())),
            Some((Reply::Failed(why), _)) => Err(Error::Peer(why)),
            Some(reply) => Ok(reply),
        }
    }

    /// Waits for the plain "done".
    pub fn expect_ready(&self) -> Result<()> {
        match self.reply()? {
            (Reply::Ready, _) => Ok(()),
            (other, _) => Err(Error::Peer(format!("unexpected reply {other:?}"))),
        }
    }

    /// Waits for an address to connect to.
    pub fn expect_address(&self) -> Result<String> {
        match self.reply()? {
            (Reply::Address(address), _) => Ok(address),
            (other, _) => Err(Error::Peer(format!("unexpected reply {other:?}"))),
        }
    }

    /// Waits for further descriptors of a channel that is being opened.
    pub fn expect_descriptors(&self) -> Result<Vec<OwnedFd>> {
        match self.recv()? {
            Some((Command::Descriptors, fds)) => Ok(fds),
            other => Err(Error::Peer(format!("unexpected command {other:?}"))),
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Transport(format!("control message: {error}")))
}

fn no_descriptors() -> Error {
    Error::Transport("descriptors do not travel to another host".into())
}

fn send_over(mut stream: &TcpStream, bytes: &[u8]) -> Result<()> {
    let mut message = (bytes.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(bytes);
    stream.write_all(&message).what("sending to the other host")
}

/// The length of the message that comes next; `None` when the other side is gone.
fn receive_over(mut stream: &TcpStream, into: &mut [u8]) -> Result<Option<usize>> {
    const WHAT: &str = "receiving from the other host";
    let mut len = [0; 4];
    match stream.read_exact(&mut len) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other.what(WHAT)?,
    }
    let len = u32::from_le_bytes(len) as usize;
    let message = into
        .get_mut(..len)
        .ok_or_else(|| Error::Peer("it does not speak the protocol of the benchmark".into()))?;
    stream.read_exact(message).what(WHAT)?;
    Ok(Some(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_over_tcp_without_descriptors_and_lengths_are_bounded() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let near = Control::over(TcpStream::connect(at).unwrap(), at.ip()).unwrap();
        let (mut raw, _) = listener.accept().unwrap();
        let far = Control::over(raw.try_clone().unwrap(), at.ip()).unwrap();
        near.send(&Reply::Address("here".into())).unwrap();
        assert_eq!(far.expect_address().unwrap(), "here");
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let refused = near.send_with(&Command::Descriptors, &[pipe.as_fd()]);
        assert!(refused.unwrap_err().to_string().contains("descriptors"));
        raw.write_all(b"GET ").unwrap();
        let error = near.recv::<Reply>().unwrap_err().to_string();
        assert!(error.contains("does not speak"), "{error}");
        drop(near);
        assert!(far.recv::<Command>().unwrap().is_none());
    }

    #[test]
    fn messages_and_descriptors_cross() {
        let (near, far) = Control::pair().unwrap();
        let far = Control::here(far);
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        near.send_with(&Command::Descriptors, &[pipe.as_fd(), pipe.as_fd()])
            .unwrap();
        assert_eq!(far.expect_descriptors().unwrap().len(), 2);
        far.send(&Reply::Failed("on purpose".into())).unwrap();
        let error = near.reply().unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{error}");
        drop(far);
        assert!(near.recv::<Reply>().unwrap().is_none());
    }
}
