//! The socket between the measuring process and its server process: commands one way,
//! replies the other, descriptors along with them. Idle while anything is measured.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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

/// What the measuring process asks of the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// First: where to run. The descriptor of the probe's memory comes along.
    Hello {
        /// The processor to stay on.
        cpu: Option<usize>,
        /// Both processes share one processor.
        shared_processor: bool,
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
pub struct Control(OwnedFd);

impl Control {
    /// Both ends.
    pub fn pair() -> Result<(Control, OwnedFd)> {
        let (near, far) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .what("making the control socket")?;
        Ok((Control(near), far))
    }

    /// The server's end, which it got as its standard input.
    pub fn inherited() -> Result<Control> {
        let fd = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .what("taking over the control socket")?;
        Ok(Control(fd))
    }

    /// Sends one message.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<()> {
        self.send_with(message, &[])
    }

    /// Sends one message with descriptors.
    pub fn send_with<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let bytes = serde_json::to_vec(message)
            .map_err(|error| Error::Transport(format!("control message: {error}")))?;
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::Transport("too many descriptors in a message".into()));
        }
        let slices = [IoSlice::new(&bytes)];
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &slices, &mut ancillary, SendFlags::NOSIGNAL)
        })
        .what("sending to the other process")?;
        Ok(())
    }

    /// Receives one message; `None` when the other side is gone.
    pub fn recv<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; LONGEST];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.0,
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
        let message = serde_json::from_slice(&bytes[..received.bytes])
            .map_err(|error| Error::Transport(format!("control message: {error}")))?;
        Ok(Some((message, fds)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_cross() {
        let (near, far) = Control::pair().unwrap();
        let far = Control(far);
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
