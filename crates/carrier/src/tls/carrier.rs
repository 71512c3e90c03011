//! The carrier that encrypts: a TCP connection with a session of TLS 1.3 on it.
//!
//! What is written is gathered until [`Carrier::flush`] or until a record is full, so that many
//! small writes cost one record. The TLS library allocates one buffer for each record that is sent
//! or received. This file allocates nothing after the start.
//!
//! ```text
//! write -> gathered (16 KiB) -> sealed records (64 KiB and one record) -> kernel
//! read  <- plaintext of one record <- inbox (64 KiB) <- kernel
//! ```

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::{Connection, Error};

use super::inbox::{Inbox, Received};
use crate::carrier::{Arrival, Broken, Carrier, Properties, Sleep};
use crate::socket::Quiet;
use crate::tcp::TcpCarrier;

/// The plaintext that one record holds at most, in bytes (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// A record is made only if fewer bytes of records than this wait to be sent.
const SEALED_BYTES_MAX: usize = 64 << 10;
/// More than the library ever holds: a second bound behind our own.
const LIBRARY_BYTES_MAX: usize = SEALED_BYTES_MAX + 4 * RECORD_BYTES;
/// What the encryption of a record adds, in bytes: header, type and tag.
const RECORD_OVERHEAD: usize = 22;
/// Room for what the kernel gives at a time.
const INBOX_BYTES: usize = 64 << 10;
/// One call of `write` takes no more than this, however fast the kernel sends.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// One call of `read` receives no more often than this. A peer that sends records without
/// content must not keep us.
const RECEIVES_MAX: usize = 16;
/// One call of `read` gives no more records to the library than this.
const RECORDS_MAX: usize = 1024;

/// A carrier over a TCP connection, encrypted by TLS 1.3.
///
/// A peer that goes away without [`Carrier::finish`] is an error, not an end: somebody on the way
/// could have cut the connection.
pub struct TlsCarrier {
    stream: TcpStream,
    own_address: String,
    peer_address: String,
    tls: Connection,
    inbox: Inbox,
    /// Taken, and not yet in a record.
    gathered: Vec<u8>,
    /// Bytes of records that wait to be sent; at least as many as there are.
    sealed_bytes: usize,
    /// Nothing more is taken, and the end is sent behind what was.
    is_finishing: bool,
    is_end_sealed: bool,
    /// The last read stopped although there may be more.
    has_more: bool,
    /// Nothing can be read any more, and nothing written.
    broken: Option<Broken>,
    /// Nothing can be written any more. What has arrived can still be read.
    unwritable: Option<Broken>,
}

impl fmt::Debug for TlsCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCarrier")
            .field("properties", &self.properties())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl TlsCarrier {
    /// Over an established session. `inbox` is what came behind the handshake.
    pub(super) fn new(
        stream: TcpStream,
        mut tls: Connection,
        inbox: Inbox,
    ) -> Result<TlsCarrier, Broken> {
        tls.set_buffer_limit(Some(LIBRARY_BYTES_MAX));
        // Neither socket nor addresses change from here on. A proof may wait to be sent.
        Ok(TlsCarrier {
            own_address: stream.local_addr()?.to_string(),
            peer_address: stream.peer_addr()?.to_string(),
            stream,
            // Data, or the end, may have come in one piece with the proof.
            has_more: inbox.can_feed() || !tls.wants_read(),
            tls,
            inbox: inbox.grown(INBOX_BYTES),
            gathered: Vec::with_capacity(RECORD_BYTES),
            sealed_bytes: 0,
            is_finishing: false,
            is_end_sealed: false,
            broken: None,
            unwritable: None,
        })
    }

    /// Ends TLS, and goes on with the same connection without it: not encrypted, and no longer
    /// authenticated. Both sides must have agreed on that, called [`Carrier::finish`], and read
    /// [`Arrival::End`].
    ///
    /// # Errors
    /// [`Broken::Failed`], if not everything was sent and read.
    pub fn into_tcp(self) -> Result<TcpCarrier, Broken> {
        if let Some(broken) = self.broken.or(self.unwritable) {
            return Err(broken);
        }
        let is_sent = self.is_end_sealed && !self.tls.wants_write();
        if !is_sent || self.tls.wants_read() || self.has_more {
            return Err(Broken::Failed {
                reason: "TLS has not ended in both directions yet".to_owned(),
            });
        }
        TcpCarrier::behind(self.stream, self.inbox.waiting())
    }

    fn check_writable(&self) -> Result<(), Broken> {
        match self.broken.as_ref().or(self.unwritable.as_ref()) {
            Some(broken) => Err(broken.clone()),
            None => Ok(()),
        }
    }

    /// Makes records of `plain` as far as there is room for them. How many bytes were taken.
    fn seal(&mut self, plain: &[u8]) -> Result<usize, Broken> {
        let mut taken = 0;
        while taken < plain.len() && self.sealed_bytes < SEALED_BYTES_MAX {
            let record = &plain[taken..plain.len().min(taken + RECORD_BYTES)];
            match self.tls.writer().write(record) {
                Ok(0) => break,
                Ok(count) => {
                    taken += count;
                    self.sealed_bytes += count + RECORD_OVERHEAD;
                }
                Err(error) => {
                    let broken = Broken::from(error);
                    self.broken = Some(broken.clone());
                    return Err(broken);
                }
            }
        }
        Ok(taken)
    }

    /// Makes a record of what was gathered. Whether nothing is left.
    fn seal_gathered(&mut self) -> Result<bool, Broken> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let taken = self.seal(&gathered);
        gathered.drain(..*taken.as_ref().unwrap_or(&0));
        self.gathered = gathered;
        taken?;
        Ok(self.gathered.is_empty())
    }

    /// Has the kernel send records. Whether nothing is left.
    fn send(&mut self) -> Result<bool, Broken> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Quiet(&self.stream)) {
                Ok(count) => self.sealed_bytes = self.sealed_bytes.saturating_sub(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    let broken = Broken::from(error);
                    self.unwritable = Some(broken.clone());
                    return Err(broken);
                }
            }
        }
        self.sealed_bytes = 0;
        Ok(true)
    }

    /// Gives what the library has decrypted. 0 if there is nothing.
    fn take_plaintext(&mut self, into: &mut [u8]) -> usize {
        // Its errors say that there is nothing, and whether the connection has ended is known
        // from elsewhere.
        self.tls.reader().read(into).unwrap_or(0)
    }

    /// The other side has said that nothing more comes, and everything was given.
    fn is_at_end(&self) -> bool {
        // While the library holds no plaintext, this says that the end was received.
        !self.tls.wants_read()
    }

    fn stop(&mut self, error: Error) -> Broken {
        // The alert that tells the other side. If it cannot be sent, nothing is different here.
        let _ = self.send();
        let broken = Broken::Protocol {
            reason: match error {
                Error::DecryptError => "a record was changed on the way, or made up".to_owned(),
                Error::AlertReceived(alert) => format!("it broke off: {alert:?}"),
                other => other.to_string(),
            },
        };
        self.broken = Some(broken.clone());
        broken
    }

    /// Receives, decrypts and gives. The count of bytes given; 0 if there are none now.
    fn pull(&mut self, into: &mut [u8]) -> Result<usize, (usize, Broken)> {
        let mut count = self.take_plaintext(into);
        let (mut receives, mut records) = (0, 0);
        self.has_more = true;
        while count < into.len() && receives < RECEIVES_MAX && records < RECORDS_MAX {
            if self.is_at_end() {
                self.has_more = false;
                break;
            }
            if self.inbox.can_feed() {
                let fed = self.inbox.feed(&mut self.tls);
                fed.map_err(|error| (count, self.stop(error)))?;
                records += 1;
                count += self.take_plaintext(&mut into[count..]);
                continue;
            }
            if count > 0 {
                // What is here goes first; whether there is more, the descriptor says.
                self.has_more = false;
                break;
            }
            receives += 1;
            match self.inbox.receive(&mut self.stream, usize::MAX) {
                Ok((Received::Some, _)) => {}
                Ok((Received::Nothing, _)) => {
                    self.has_more = false;
                    break;
                }
                Ok((Received::End, _)) => {
                    let reason = "it ended without a farewell: the other program is gone, or \
                                  somebody on the way cut it";
                    let broken = Broken::Failed {
                        reason: reason.to_owned(),
                    };
                    self.broken = Some(broken.clone());
                    return Err((count, broken));
                }
                Err(error) => {
                    let broken = Broken::from(error);
                    self.broken = Some(broken.clone());
                    return Err((count, broken));
                }
            }
        }
        Ok(count)
    }
}

impl Carrier for TlsCarrier {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.check_writable()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.is_finishing {
            return Err(Broken::Failed {
                reason: "nothing can be written after `finish`".to_owned(),
            });
        }
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            let count = if self.gathered.is_empty() && rest.len() >= RECORD_BYTES {
                // Whole records, without another copy.
                self.seal(&rest[..rest.len() - rest.len() % RECORD_BYTES])?
            } else {
                let count = rest.len().min(RECORD_BYTES - self.gathered.len());
                self.gathered.extend_from_slice(&rest[..count]);
                count
            };
            taken += count;
            let is_full = self.gathered.len() == RECORD_BYTES && !self.seal_gathered()?;
            if is_full || count == 0 {
                self.send()?;
                if self.sealed_bytes >= SEALED_BYTES_MAX {
                    break;
                }
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<bool, Broken> {
        self.check_writable()?;
        loop {
            let is_sealed = self.seal_gathered()?;
            if is_sealed && self.is_finishing && !self.is_end_sealed {
                self.tls.send_close_notify();
                self.is_end_sealed = true;
            }
            if !self.send()? {
                return Ok(false);
            }
            if is_sealed {
                return Ok(true);
            }
        }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        if into.is_empty() {
            return Ok(Arrival::Nothing);
        }
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        match self.pull(into) {
            Ok(0) if self.is_at_end() => Ok(Arrival::End),
            Ok(0) => Ok(Arrival::Nothing),
            Ok(count) => Ok(Arrival::Bytes(count)),
            Err((0, broken)) => Err(broken),
            // What had arrived goes first. The next call gives the error.
            Err((count, _)) => Ok(Arrival::Bytes(count)),
        }
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.is_finishing = true;
        self.flush()?;
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn before_sleep(&mut self) -> Sleep {
        if self.has_more || self.broken.is_some() {
            return Sleep::NotYet;
        }
        let has_unsent = !self.gathered.is_empty()
            || self.tls.wants_write()
            || (self.is_finishing && !self.is_end_sealed);
        match has_unsent && self.unwritable.is_none() {
            true => Sleep::UntilReadableOrWritable,
            false => Sleep::UntilReadable,
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            transport: "tls".to_owned(),
            is_encrypted: true,
            own_address: self.own_address.clone(),
            peer_address: self.peer_address.clone(),
        }
    }
}
