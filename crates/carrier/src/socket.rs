//! A TCP connection to which bytes are written without signals, and whose calls return fast.
//!
//! To a program in C, SIGPIPE is the end unless it has said otherwise. It must not end because another host has. The
//! standard library keeps that signal away only where one buffer is written.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

use barewire_cpu::after_system_call;
use rustix::io::{read, readv};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

/// The connection. What can not be sent is an error, and nothing else.
pub(crate) struct Quiet<'s>(pub &'s TcpStream);

/// The system call, and what has to be done before any function returns.
#[inline(always)]
fn call<T>(call: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
    let result = call();
    after_system_call();
    Ok(result?)
}

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        call(|| send(self.0, bytes, SendFlags::NOSIGNAL))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut ancillary = SendAncillaryBuffer::default();
        call(|| sendmsg(self.0, parts, &mut ancillary, SendFlags::NOSIGNAL))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Quiet<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        call(|| read(self.0, into))
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        call(|| readv(self.0, parts))
    }
}
