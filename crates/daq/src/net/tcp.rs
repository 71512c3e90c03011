//! A TCP connection with messages in it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use barewire_sys::wake::Interest;

use super::error::NetError;

/// Bytes that may wait to be written before there is no room.
const WAITING_MAX: usize = 256 << 10;
/// Written when so many wait, without being asked.
const WRITE_BYTES: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// A connection.
#[derive(Debug)]
pub struct TcpLink {
    stream: TcpStream,
    interest: Interest,
    message_bytes_max: usize,
    /// Read, from `taken` to `filled`.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    ended: bool,
    /// To be written, from `written` on.
    waiting: Vec<u8>,
    written: usize,
}

impl TcpLink {
    pub fn new(stream: TcpStream, message_bytes_max: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            interest: Interest::READ,
            message_bytes_max,
            buffer: vec![0; (message_bytes_max + LENGTH_BYTES).max(WAITING_MAX)],
            taken: 0,
            filled: 0,
            ended: false,
            waiting: Vec::new(),
            written: 0,
        })
    }

    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn wants_to_write(&self) -> bool {
        self.written < self.waiting.len()
    }

    /// Notes what it is waited for; whether that is something else than before.
    pub fn interest_changes(&mut self, interest: Interest) -> bool {
        core::mem::replace(&mut self.interest, interest) != interest
    }

    /// Room for a message at the end of what waits.
    pub fn reserve(&mut self, bytes: usize) -> Result<Option<&mut [u8]>, NetError> {
        let length = u32::try_from(bytes).map_err(|_| NetError::TooLong(bytes))?;
        if self.waiting.len() - self.written >= WRITE_BYTES {
            self.flush()?;
        }
        if self.waiting.len() - self.written >= WAITING_MAX {
            return Ok(None);
        }
        self.waiting.extend_from_slice(&length.to_le_bytes());
        let start = self.waiting.len();
        self.waiting.resize(start + bytes, 0);
        Ok(Some(&mut self.waiting[start..]))
    }

    /// Writes what the kernel takes.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.written < self.waiting.len() {
            match self.stream.write(&self.waiting[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written >= WAITING_MAX {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Hands the next message to `take`.
    pub fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, NetError> {
        loop {
            let there = &self.buffer[self.taken..self.filled];
            let mut needed = LENGTH_BYTES;
            if let Some((length, rest)) = there.split_first_chunk::<LENGTH_BYTES>() {
                let bytes = u32::from_le_bytes(*length) as usize;
                if bytes > self.message_bytes_max {
                    return Err(NetError::TooLong(bytes));
                }
                if let Some(message) = rest.get(..bytes) {
                    let taken = take(message);
                    self.taken += LENGTH_BYTES + bytes;
                    return Ok(Some(taken));
                }
                needed += bytes;
            }
            if self.ended {
                return Err(NetError::Ended);
            }
            if !self.fill(needed)? {
                return Ok(None);
            }
        }
    }

    /// Reads once, with room for a message of `needed` bytes; whether anything came.
    fn fill(&mut self, needed: usize) -> Result<bool, NetError> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        } else if self.taken + needed > self.buffer.len() {
            self.buffer.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => {
                self.ended = true;
                Err(NetError::Ended)
            }
            Ok(bytes) => {
                self.filled += bytes;
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
                _ => Err(error.into()),
            },
        }
    }
}
