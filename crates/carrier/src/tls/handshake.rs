//! A handshake over a TCP connection, step by step.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use super::carrier::TlsCarrier;
use super::exchange::{Exchange, Progress};
use super::failure::HandshakeError;
use super::identity::Identity;
use crate::carrier::{Broken, Sleep};
use crate::peer::PeerIdentity;
use crate::socket::Quiet;

/// After a failure so many bytes of the other side are thrown away, so that the kernel does not
/// reset the connection before the reason has arrived there.
const DRAINED_BYTES_MAX: usize = 64 << 10;

/// What [`Handshake::step`] gave.
#[derive(Debug)]
pub enum Step {
    /// Call again when the descriptor is ready. Never [`Sleep::NotYet`].
    Wait(Sleep),
    /// The other side has proved who it is. The carrier carries what comes next.
    Done(Box<TlsCarrier>, PeerIdentity),
}

/// Two hosts prove to each other who they are, by TLS 1.3, before anything else is exchanged.
///
/// No call blocks. The caller keeps the deadline: a handshake with a silent peer waits forever.
/// It also bounds how many handshakes go on at a time: each holds at most
/// [`STRANGER_BYTES_MAX`](super::STRANGER_BYTES_MAX) bytes of the peer twice (here and in the TLS library), and
/// a few KiB of its own. Dropping it closes the connection.
pub struct Handshake {
    /// Nothing once it is over.
    running: Option<(Exchange, TcpStream)>,
    failure: Option<HandshakeError>,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("is_running", &self.running.is_some())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Handshake {
    /// Of the side that has connected. The connection becomes non-blocking; it may still be on its
    /// way. With `expected`, the other side must be the host that is trusted under this name.
    ///
    /// # Errors
    /// [`HandshakeError::UnknownName`]; [`HandshakeError::Connection`], if the connection is down.
    pub fn connect(
        stream: TcpStream,
        identity: &Identity,
        expected: Option<&str>,
    ) -> Result<Handshake, HandshakeError> {
        Handshake::over(stream, Exchange::connect(identity, expected)?)
    }

    /// Of the side that has accepted. The connection becomes non-blocking.
    ///
    /// # Errors
    /// [`HandshakeError::Connection`], if the connection is down.
    pub fn accept(stream: TcpStream, identity: &Identity) -> Result<Handshake, HandshakeError> {
        Handshake::over(stream, Exchange::accept(identity)?)
    }

    fn over(stream: TcpStream, exchange: Exchange) -> Result<Handshake, HandshakeError> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Handshake {
            running: Some((exchange, stream)),
            failure: None,
        })
    }

    /// The descriptor to wait on. It stays the same, also in the carrier. Nothing once the
    /// handshake is over.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let running = self.running.as_ref();
        running.map(|(_, stream)| stream.as_fd())
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// Why the two hosts do not come together. It stays so. The other side is told as far as
    /// that gives nothing away, and the connection is closed.
    pub fn step(&mut self) -> Result<Step, HandshakeError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some((mut exchange, stream)) = self.running.take() else {
            return Err(HandshakeError::Over);
        };
        match exchange.step(&mut Quiet(&stream)) {
            Ok(Progress::Wait { has_unsent }) => {
                self.running = Some((exchange, stream));
                Ok(Step::Wait(match has_unsent {
                    true => Sleep::UntilReadableOrWritable,
                    false => Sleep::UntilReadable,
                }))
            }
            Ok(Progress::Done(peer)) => {
                let (tls, inbox) = exchange.into_parts();
                match TlsCarrier::new(stream, tls, inbox) {
                    Ok(carrier) => Ok(Step::Done(Box::new(carrier), peer)),
                    Err(error) => Err(self.fail(broken(error))),
                }
            }
            Err(error) => {
                close(stream);
                Err(self.fail(error))
            }
        }
    }

    fn fail(&mut self, error: HandshakeError) -> HandshakeError {
        self.failure = Some(error.clone());
        error
    }
}

fn broken(error: Broken) -> HandshakeError {
    match error {
        Broken::Failed { reason } => HandshakeError::Connection { reason },
        Broken::Protocol { reason } => HandshakeError::Protocol { reason },
    }
}

/// Closes after a failure: says that nothing more comes, and takes what is there, so that the
/// kernel has no reason for a reset that could overtake the alert.
fn close(mut stream: TcpStream) {
    // It may be down already.
    let _ = stream.shutdown(Shutdown::Write);
    let mut buffer = [0; 4096];
    let mut drained = 0;
    while drained < DRAINED_BYTES_MAX {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => drained += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
