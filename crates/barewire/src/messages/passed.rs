//! Receives control messages, and the descriptors that a peer passes with them.
//!
//! Closing a descriptor may block for as long as its sender likes ([`barewire_sys::retire`]).
//! So no descriptor is closed here, and none is received that the message should not carry: a
//! message of another user is peeked at first, and stays unread if it carries such descriptors.

use std::os::fd::OwnedFd;

use barewire_sys::memory::{Memfd, PeerAccess};
use barewire_sys::process::has_room_for_descriptors;
use barewire_sys::retire::Retirer;
use barewire_sys::socket::{RIGHTS_MAX, Received, Socket};

use crate::error::Misconduct;
use crate::messages::control::may_carry_descriptors;

/// The result of a check of what a peer said.
pub(crate) type Checked<T = ()> = Result<T, Misconduct>;

/// Descriptors from a peer that nobody has taken yet. Those that are left go to be closed
/// beside the node.
pub(crate) struct Passed {
    fds: Vec<OwnedFd>,
    retirer: Retirer,
}

impl Passed {
    pub fn new(fds: Vec<OwnedFd>, retirer: Retirer) -> Passed {
        Passed { fds, retirer }
    }

    /// Exactly as many descriptors as the message has.
    pub fn take<const N: usize>(mut self) -> Checked<[OwnedFd; N]> {
        if self.fds.len() != N {
            return Err(Misconduct::Control("wrong number of descriptors"));
        }
        let fds = core::mem::take(&mut self.fds);
        fds.try_into()
            .map_err(|_| Misconduct::Control("wrong number of descriptors"))
    }

    /// As [`Passed::take`], if each is memory of this length, for this access.
    pub fn take_memory<const N: usize>(
        self,
        wanted: [(usize, PeerAccess); N],
    ) -> Checked<[Memfd; N]> {
        self.check_memory(wanted)?;
        let fds = self.take::<N>()?;
        let mut memory = Vec::with_capacity(N);
        for (fd, (len_bytes, access)) in fds.into_iter().zip(wanted) {
            memory.push(Memfd::from_peer(fd, len_bytes, access)?);
        }
        memory
            .try_into()
            .map_err(|_| Misconduct::Control("wrong number of descriptors"))
    }

    /// Whether the first descriptors are memory of these lengths, for these accesses.
    pub fn check_memory<const N: usize>(&self, wanted: [(usize, PeerAccess); N]) -> Checked {
        if self.fds.len() < N {
            return Err(Misconduct::Control("wrong number of descriptors"));
        }
        for (fd, (len_bytes, access)) in self.fds.iter().zip(wanted) {
            Memfd::check_peer(std::os::fd::AsFd::as_fd(fd), len_bytes, access)?;
        }
        Ok(())
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if !self.fds.is_empty() {
            self.retirer.descriptors(self.fds.drain(..));
        }
    }
}

/// What was found on a control channel.
pub(crate) enum ControlInput {
    /// A message of so many bytes.
    Message(usize, Passed),
    Nothing,
    /// The other end has closed.
    Closed,
    Wrong(Misconduct),
    /// It carries descriptors, and this process can not have many more.
    NoDescriptorsLeft,
}

/// Receives the next message. `foreign`: from another user.
pub(crate) fn receive_control(
    socket: &Socket,
    foreign: bool,
    buffer: &mut [u8],
    retirer: &Retirer,
) -> ControlInput {
    if foreign {
        match socket.peek() {
            Ok(None) => return ControlInput::Nothing,
            Ok(Some(next)) if next.has_descriptors => {
                if !next.first.is_some_and(may_carry_descriptors) {
                    return ControlInput::Wrong(Misconduct::Control(
                        "descriptors that are not asked for",
                    ));
                }
                // Those for which there is no number, the kernel would close here and now.
                if !has_room_for_descriptors(RIGHTS_MAX) {
                    return ControlInput::NoDescriptorsLeft;
                }
            }
            // Nothing to close comes; or a reset, after which there may be messages.
            Ok(Some(_)) | Err(_) => {}
        }
    }
    let mut fds = Vec::new();
    let received = socket.recv_keeping(buffer, &mut fds);
    let passed = Passed::new(fds, retirer.clone());
    match received {
        Ok(Received::Message(len)) => ControlInput::Message(len, passed),
        Ok(Received::WouldBlock) => ControlInput::Nothing,
        Ok(Received::Hangup) | Err(_) => ControlInput::Closed,
        Ok(Received::Truncated) => ControlInput::Wrong(Misconduct::Control(
            "message too long or too many descriptors",
        )),
    }
}
