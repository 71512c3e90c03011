//! Bytes that came from the socket, given to the TLS library record by record.
//!
//! The library would read ahead, past the record that ends TLS. Here what comes behind that
//! record stays, so that the connection can go on without TLS.

use std::io::{self, ErrorKind, Read};

use rustls::Connection;

/// Type, version and length of a record (RFC 8446, 5.1).
const HEADER_BYTES: usize = 5;

/// What an attempt to receive gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Some,
    Nothing,
    End,
}

/// Bytes received and not yet given to the library.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// What of the current record was not given to the library yet.
    record_left: usize,
}

impl Inbox {
    /// With room for so many bytes.
    pub(super) fn new(bytes: usize) -> Inbox {
        Inbox {
            bytes: vec![0; bytes].into(),
            start: 0,
            end: 0,
            record_left: 0,
        }
    }

    /// The same bytes, with room for `bytes`, but never less than it has.
    pub(super) fn grown(self, bytes: usize) -> Inbox {
        let mut inbox = Inbox::new(bytes.max(self.bytes.len()));
        inbox.bytes[..self.waiting().len()].copy_from_slice(self.waiting());
        inbox.end = self.waiting().len();
        inbox.record_left = self.record_left;
        inbox
    }

    /// What was received and not given to the library.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether [`Inbox::feed`] would give something to the library.
    pub(super) fn can_feed(&self) -> bool {
        let waiting = self.waiting().len();
        waiting >= HEADER_BYTES || (waiting > 0 && self.record_left > 0)
    }

    /// Receives at most `bytes_max` bytes, as far as there is room.
    pub(super) fn receive(
        &mut self,
        stream: &mut impl Read,
        bytes_max: usize,
    ) -> io::Result<(Received, usize)> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let until = self.end.saturating_add(bytes_max).min(self.bytes.len());
        let room = &mut self.bytes[self.end..until];
        if room.is_empty() {
            return Ok((Received::Nothing, 0));
        }
        loop {
            match stream.read(room) {
                Ok(0) => return Ok((Received::End, 0)),
                Ok(count) => {
                    self.end += count;
                    return Ok((Received::Some, count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok((Received::Nothing, 0));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives bytes of one record to the library, and has it look at them. `false` if there are
    /// none to give. May be called only while the library holds no plaintext.
    pub(super) fn feed(&mut self, tls: &mut Connection) -> Result<bool, rustls::Error> {
        if !self.can_feed() {
            return Ok(false);
        }
        if self.record_left == 0 {
            let header = &self.waiting()[..HEADER_BYTES];
            let length = u16::from_be_bytes([header[3], header[4]]);
            self.record_left = HEADER_BYTES + usize::from(length);
        }
        let mut fed = 0;
        let until = self.record_left.min(self.end - self.start);
        while fed < until {
            let mut piece = &self.bytes[self.start + fed..self.start + until];
            match tls.read_tls(&mut piece) {
                // It takes no more after the end of TLS, or until it has looked at what it has.
                Ok(0) | Err(_) => break,
                Ok(count) => fed += count,
            }
        }
        self.start += fed;
        self.record_left -= fed;
        tls.process_new_packets()?;
        Ok(fed > 0)
    }
}
