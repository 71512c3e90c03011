//! A TCP connection to which bytes are written without signals.
//!
//! To a program in C, SIGPIPE is the end unless it has said otherwise. It must not end because another host has. The
//! standard library keeps that signal away only where one buffer is written.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

/// The connection. What can not be sent is an error, and nothing else.
pub(crate) struct Quiet<'s>(pub &'s TcpStream);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut ancillary = SendAncillaryBuffer::default();
        Ok(sendmsg(self.0, parts, &mut ancillary, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Quiet<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(parts)
    }
}
