//! The handshake as a state machine over anything that reads and writes without blocking: TLS,
//! then one proof from each side ([`super::proof`]).

use std::io::{self, ErrorKind, Read, Write};

use rustls::Connection;

use super::failure::{HandshakeError, explain};
use super::identity::Identity;
use super::inbox::{Inbox, Received};
use super::proof::{self, PROOF_BYTES, Refusal, Role};
use crate::peer::{How, PeerIdentity};

/// So many bytes of a stranger are received before it has proved who it is. A handshake with
/// keys of `barewire node keygen` takes less than 1 KiB each way; RSA certificates take more.
pub const STRANGER_BYTES_MAX: usize = 16 << 10;

/// The first byte of a record of TLS that can come first: a handshake message or an alert.
const RECORD_TYPES: [u8; 2] = [22, 21];
/// The second byte of every record of TLS.
const RECORD_VERSION: u8 = 3;

/// What a step of the exchange gave.
#[derive(Debug)]
pub(super) enum Progress {
    /// Bytes of the other side are needed; and room to write if bytes wait to be sent.
    Wait { has_unsent: bool },
    /// The other side has proved who it is.
    Done(PeerIdentity),
}

/// A handshake.
pub(super) struct Exchange {
    identity: Identity,
    expected: Option<String>,
    role: Role,
    tls: Connection,
    inbox: Inbox,
    /// So many bytes were received.
    received: usize,
    /// Who the other side is, once TLS is done.
    peer: Option<PeerIdentity>,
    /// The other side's proof, as far as it has come.
    proof: [u8; PROOF_BYTES],
    proof_bytes: usize,
}

impl Exchange {
    pub(super) fn connect(
        identity: &Identity,
        expected: Option<&str>,
    ) -> Result<Exchange, HandshakeError> {
        if let Some(expected) = expected {
            let is_known = match identity.how() {
                How::Secret => expected == PeerIdentity::secret().name,
                _ => identity.trusted().iter().any(|it| it.name == expected),
            };
            if !is_known {
                let expected = expected.to_owned();
                return Err(HandshakeError::UnknownName { expected });
            }
        }
        let tls = identity
            .client()
            .map_err(|error| explain(error, identity))?;
        Ok(Exchange::new(identity, expected, Role::Client, tls.into()))
    }

    pub(super) fn accept(identity: &Identity) -> Result<Exchange, HandshakeError> {
        let tls = identity
            .server()
            .map_err(|error| explain(error, identity))?;
        Ok(Exchange::new(identity, None, Role::Server, tls.into()))
    }

    fn new(identity: &Identity, expected: Option<&str>, role: Role, tls: Connection) -> Exchange {
        Exchange {
            identity: identity.clone(),
            expected: expected.map(str::to_owned),
            role,
            tls,
            inbox: Inbox::new(STRANGER_BYTES_MAX),
            received: 0,
            peer: None,
            proof: [0; PROOF_BYTES],
            proof_bytes: 0,
        }
    }

    /// Does what can be done now.
    pub(super) fn step(
        &mut self,
        stream: &mut (impl Read + Write),
    ) -> Result<Progress, HandshakeError> {
        let outcome = self.advance(stream);
        if outcome.is_err() {
            // The alert or refusal that says why. If it cannot be sent, the error stays the same.
            let _ = self.send(stream);
        }
        outcome
    }

    fn advance(&mut self, stream: &mut (impl Read + Write)) -> Result<Progress, HandshakeError> {
        // Ends, since each round but the last receives something, up to a limit.
        loop {
            while self.inbox.can_feed() && self.proof_bytes < PROOF_BYTES {
                self.check_first_bytes()?;
                let fed = self.inbox.feed(&mut self.tls);
                let fed = fed.map_err(|error| explain(error, &self.identity))?;
                self.meet()?;
                self.take_proof()?;
                if !fed {
                    break;
                }
            }
            let unsent = self.send(stream);
            if self.proof_bytes == PROOF_BYTES {
                // What could not be sent yet, the carrier sends.
                unsent?;
                let peer = self.peer.clone();
                return peer.map(Progress::Done).ok_or(HandshakeError::Over);
            }
            let left = STRANGER_BYTES_MAX - self.received;
            if left == 0 {
                let bytes_max = STRANGER_BYTES_MAX;
                return Err(HandshakeError::TooMuch { bytes_max });
            }
            let (what, count) = self.inbox.receive(stream, left)?;
            self.received += count;
            match what {
                Received::Some => {}
                // If nothing can be sent, and nothing came that says why, that is the reason.
                Received::Nothing => {
                    let has_unsent = unsent?;
                    return Ok(Progress::Wait { has_unsent });
                }
                Received::End => {
                    self.check_first_bytes()?;
                    return Err(HandshakeError::Ended);
                }
            }
        }
    }

    /// Sends what can be sent. Whether something is left.
    fn send(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Says what it is if the first bytes are not those of TLS.
    fn check_first_bytes(&self) -> Result<(), HandshakeError> {
        let first = self.inbox.waiting();
        if self.received != first.len() {
            // Not the first ones.
            return Ok(());
        }
        let is_tls = match first {
            [] => true,
            [kind] => RECORD_TYPES.contains(kind),
            [kind, version, ..] => RECORD_TYPES.contains(kind) && *version == RECORD_VERSION,
        };
        if is_tls {
            return Ok(());
        }
        Err(HandshakeError::NotTls {
            what: describe(first),
        })
    }

    /// Once TLS is done: finds out who the other side is; a client then sends its proof.
    fn meet(&mut self) -> Result<(), HandshakeError> {
        if self.peer.is_some() || self.tls.is_handshaking() {
            return Ok(());
        }
        if self.tls.alpn_protocol() != Some(self.identity.protocol()) {
            return Err(HandshakeError::NotBarewire);
        }
        let peer = match self.identity.how() {
            How::Secret => PeerIdentity::secret(),
            _ => self.trusted_peer()?,
        };
        if let Some(expected) = &self.expected {
            if *expected != peer.name {
                let (expected, found) = (expected.clone(), peer.name);
                self.say(Refusal::Name.bytes())?;
                return Err(HandshakeError::OtherName { expected, found });
            }
        }
        self.peer = Some(peer);
        if self.role == Role::Client {
            self.prove()?;
        }
        Ok(())
    }

    /// Who has proved to hold the key of a certificate that this host trusts.
    fn trusted_peer(&self) -> Result<PeerIdentity, HandshakeError> {
        let shown = self.tls.peer_certificates().and_then(|all| all.first());
        let shown = shown.ok_or(HandshakeError::NotBarewire)?;
        let trusted = self.identity.trusted();
        match trusted.iter().find(|it| it.certificate == *shown) {
            Some(trusted) => Ok(PeerIdentity {
                name: trusted.name.clone(),
                how: How::Certificate,
            }),
            // The verifier has the same list, so this is a mistake of ours; it admits nobody.
            None => Err(HandshakeError::NotTrusted {
                fingerprint: super::fingerprint::Fingerprint::of(shown),
            }),
        }
    }

    /// Takes the other side's proof; a server then sends its own.
    fn take_proof(&mut self) -> Result<(), HandshakeError> {
        while self.peer.is_some() && self.proof_bytes < PROOF_BYTES {
            match self.tls.reader().read(&mut self.proof[self.proof_bytes..]) {
                Ok(0) => return Err(HandshakeError::Ended),
                Ok(count) => self.proof_bytes += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.proof_bytes == PROOF_BYTES {
                self.check_proof()?;
                if self.role == Role::Server {
                    self.prove()?;
                }
            }
        }
        Ok(())
    }

    fn check_proof(&mut self) -> Result<(), HandshakeError> {
        let (key, how) = (self.identity.key(), self.identity.how());
        let is_right = proof::is_right(key, &self.tls, how, self.role.other(), &self.proof);
        if is_right.map_err(|error| explain(error, &self.identity))? {
            return Ok(());
        }
        match (Refusal::of(&self.proof), how) {
            (Some(Refusal::Name), _) => Err(HandshakeError::OtherNameHere),
            (Some(Refusal::Secret), _) => Err(HandshakeError::OtherSecret),
            (None, How::Secret) => {
                self.say(Refusal::Secret.bytes())?;
                Err(HandshakeError::OtherSecret)
            }
            (None, _) => Err(HandshakeError::Protocol {
                reason: "it does not end as it must".to_owned(),
            }),
        }
    }

    fn prove(&mut self) -> Result<(), HandshakeError> {
        let (key, how) = (self.identity.key(), self.identity.how());
        let proof = proof::make(key, &self.tls, how, self.role);
        let proof = proof.map_err(|error| explain(error, &self.identity))?;
        self.say(&proof)
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        Ok(self.tls.writer().write_all(bytes)?)
    }

    /// The session, and what came behind the other side's proof.
    pub(super) fn into_parts(self) -> (Connection, Inbox) {
        (self.tls, self.inbox)
    }
}

/// What bytes that are not TLS look like, for people. Nothing of a stranger's choice is shown but
/// two bytes as numbers.
fn describe(bytes: &[u8]) -> String {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"GET ", "an HTTP request"),
        (b"HEAD", "an HTTP request"),
        (b"POST", "an HTTP request"),
        (b"PUT ", "an HTTP request"),
        (b"OPTI", "an HTTP request"),
        (b"CONN", "an HTTP request"),
        (b"PRI ", "an HTTP request"),
        (b"HTTP", "an HTTP answer"),
        (b"SSH-", "SSH"),
    ];
    let known = KNOWN.iter().find(|(start, _)| bytes.starts_with(start));
    if let Some((_, what)) = known {
        return (*what).to_owned();
    }
    let first: Vec<String> = bytes.iter().take(2).map(|it| format!("{it:02x}")).collect();
    format!("something that begins with the bytes {}", first.join(" "))
}
