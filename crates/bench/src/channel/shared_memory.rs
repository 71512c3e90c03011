//! Memory that both processes of the benchmark map.

use std::os::fd::{AsFd, OwnedFd};

use barewire_shm::region::Region;
use barewire_sys::memory::{Access, Memfd, PeerAccess};

use crate::channel::control::{Command, Control, Reply};
use crate::error::{Error, Result};

/// Shared memory for both processes: made here, its descriptor sent to the server.
pub fn share(name: &str, len_bytes: usize, control: &Control) -> Result<Region> {
    let len_bytes = len_bytes.next_multiple_of(4096);
    let memfd = Memfd::create_sealed(name, len_bytes).map_err(transport)?;
    let region = memfd.map(Access::ReadWrite).map_err(transport)?;
    control.send_with(&Command::Descriptors, &[memfd.as_fd()])?;
    control.expect_ready()?;
    Ok(region)
}

/// The server's side of [`share`].
pub fn take_share(len_bytes: usize, control: &Control) -> Result<Region> {
    let fd = control
        .expect_descriptors()?
        .pop()
        .ok_or_else(|| Error::Peer("it sent no shared memory".into()))?;
    let region = map_peer(fd, len_bytes)?;
    control.send(&Reply::Ready)?;
    Ok(region)
}

fn map_peer(fd: OwnedFd, len_bytes: usize) -> Result<Region> {
    let len_bytes = len_bytes.next_multiple_of(4096);
    Memfd::from_peer(fd, len_bytes, PeerAccess::ReadWrite)
        .map_err(transport)?
        .map(Access::ReadWrite)
        .map_err(transport)
}

fn transport(error: impl std::fmt::Display) -> Error {
    Error::Transport(error.to_string())
}
