//! What a carrier must promise.

use std::io;
use std::os::fd::BorrowedFd;

/// What [`Carrier::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The other side has closed the carrier, and everything that it sent was read.
    End,
}

/// Whether whoever drives a carrier may sleep on its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// No: something can be done at once.
    NotYet,
    /// Until the descriptor is readable.
    UntilReadable,
    /// Until the descriptor is readable or writable: bytes wait to be sent.
    UntilReadableOrWritable,
}

/// Why a carrier can not be used any more. It stays so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The kernel, or the provider of the transport, reports a failure: a reset, a time-out, no route.
    #[error("the connection to the other host failed: {reason}")]
    Failed {
        /// What was reported.
        reason: String,
    },
    /// What arrived is not what the transport's protocol allows.
    #[error("the other host broke the protocol of the transport: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: String,
    },
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Failed {
            reason: error.to_string(),
        }
    }
}

/// What a carrier is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Transport and provider, such as `tcp` or `ofi:verbs`.
    pub transport: String,
    /// Whether what it carries is encrypted and can not be changed on the way.
    pub is_encrypted: bool,
    /// Our address.
    pub own_address: String,
    /// The other side's address.
    pub peer_address: String,
}

/// What takes bytes to one node on another host, in order and both ways.
///
/// Contract:
/// - No call blocks.
/// - Bytes arrive once, in the order written, and only those. Boundaries of writes are not kept.
/// - Memory is bounded: a carrier takes no more bytes than its own buffer of a fixed size holds, however long the
///   other side does not read.
/// - What was taken by [`Carrier::write`] is sent without further calls, or by calls of [`Carrier::flush`] and
///   [`Carrier::read`]: [`Carrier::before_sleep`] says what has to be waited for until then.
/// - After an error every call gives an error. What had arrived before is given first where the transport allows it.
/// - Dropping it closes it. What was flushed before is delivered if the other side goes on reading.
pub trait Carrier: Send {
    /// Takes bytes to send, as many as there is room for; 0 if there is none.
    ///
    /// # Errors
    /// Why the carrier can not be used any more.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken>;

    /// As [`Carrier::write`], of bytes that lie in several places. Whoever can takes them all in one call of the kernel.
    ///
    /// # Errors
    /// As [`Carrier::write`].
    fn write_parts(&mut self, parts: &[&[u8]]) -> Result<usize, Broken> {
        let mut taken_bytes = 0;
        for part in parts {
            let taken = self.write(part)?;
            taken_bytes += taken;
            if taken < part.len() {
                break;
            }
        }
        Ok(taken_bytes)
    }

    /// Sends what was taken, as far as that is possible now. `true` if nothing is left.
    ///
    /// # Errors
    /// As [`Carrier::write`].
    fn flush(&mut self) -> Result<bool, Broken>;

    /// Copies out what has arrived, at most `into.len()` bytes.
    ///
    /// # Errors
    /// As [`Carrier::write`].
    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken>;

    /// As [`Carrier::read`], into three places, one after the other. Whoever can has the kernel copy into all of them in one
    /// call.
    ///
    /// # Errors
    /// As [`Carrier::write`].
    fn read_parts(&mut self, parts: [&mut [u8]; 3]) -> Result<Arrival, Broken> {
        let mut count = 0;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            match self.read(part) {
                Ok(Arrival::Bytes(more)) => {
                    count += more;
                    if more < part.len() {
                        break;
                    }
                }
                // What came before it is told first; this is told again.
                _ if count > 0 => break,
                other => return other,
            }
        }
        Ok(match count {
            0 => Arrival::Nothing,
            count => Arrival::Bytes(count),
        })
    }

    /// Says that nothing more will be written; what was taken is still sent, and the other side then reads
    /// [`Arrival::End`].
    ///
    /// # Errors
    /// As [`Carrier::write`].
    fn finish(&mut self) -> Result<(), Broken>;

    /// The descriptor to wait on. It stays the same.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// To be called before sleeping on the descriptor, and after that nothing but sleeping.
    fn before_sleep(&mut self) -> Sleep;

    /// What it is, for people.
    fn properties(&self) -> Properties;
}
