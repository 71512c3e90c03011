//! Pipes: two for each connection, one per direction.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::PipeFlags;

use super::kernel::{Duplex, client_over, server_over};
use crate::case::ChannelSpec;
use crate::channel::control::{Command, Control, DESCRIPTORS_PER_MESSAGE, Reply};
use crate::channel::ends::{ClientEnd, ServerEnd};
use crate::error::{Error, Result, What};

/// Makes the pipes and sends the server its ends.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    let mut connections = Vec::with_capacity(spec.connections() as usize);
    let mut far: Vec<OwnedFd> = Vec::with_capacity(DESCRIPTORS_PER_MESSAGE);
    for index in 0..spec.connections() {
        let (requests_out, requests_in) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).what("making a pipe")?;
        let (replies_out, replies_in) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).what("making a pipe")?;
        connections.push(Duplex::pipes(replies_out, requests_in));
        far.extend([requests_out, replies_in]);
        if far.len() == DESCRIPTORS_PER_MESSAGE || index + 1 == spec.connections() {
            let borrowed: Vec<BorrowedFd<'_>> = far.iter().map(AsFd::as_fd).collect();
            control.send_with(&Command::Descriptors, &borrowed)?;
            control.expect_ready()?;
            far.clear();
        }
    }
    client_over(connections, spec.many.is_some())
}

/// Takes its ends.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    let wanted = spec.connections() as usize;
    let mut connections = Vec::with_capacity(wanted);
    while connections.len() < wanted {
        let mut fds = control.expect_descriptors()?.into_iter();
        while let (Some(read), Some(write)) = (fds.next(), fds.next()) {
            connections.push(Duplex::pipes(read, write));
        }
        if connections.is_empty() {
            return Err(Error::Peer("it sent no pipes".into()));
        }
        control.send(&Reply::Ready)?;
    }
    server_over(connections, spec.many.is_some())
}
