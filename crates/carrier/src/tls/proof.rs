//! What both sides send right after the TLS handshake, and before anything else: 32 bytes.
//!
//! Between hosts that share a secret these bytes prove it. Between hosts with certificates, TLS
//! has proved everything, and they only say "accepted", which a client cannot know otherwise: TLS 1.3
//! lets it send before the server has looked at its certificate.
//!
//! | side | sends |
//! |---|---|
//! | client, first | its proof, or a refusal |
//! | server, then | its proof, or a refusal |
//!
//! A proof is HMAC-SHA256(key, LABEL, way, role, exporter). The key is the secret (or 32 zeros with
//! certificates). The exporter is the channel binding of RFC 9266: both ends of one TLS session
//! compute it, and two sessions never have the same. So a man in the middle, who has a session
//! with each side, can use the proof of one side neither for the other session nor, because of
//! the role, in the same one backwards.

use ring::hmac;
use rustls::{Connection, Error};

use crate::peer::How;

/// The length of a proof and of a refusal, in bytes.
pub(super) const PROOF_BYTES: usize = 32;

const LABEL: &[u8] = b"barewire proof 1";
/// RFC 9266, section 2.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Why one side refuses the other after the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its proof is of another secret.
    Secret,
    /// It is trusted, but is not the host that was to be reached.
    Name,
}

impl Refusal {
    /// What is sent. A proof has these bytes with a chance of 1 in 2 to the power of 256.
    pub(super) fn bytes(self) -> &'static [u8; PROOF_BYTES] {
        match self {
            Refusal::Secret => b"barewire refuses: other secret  ",
            Refusal::Name => b"barewire refuses: other name    ",
        }
    }

    pub(super) fn of(bytes: &[u8]) -> Option<Refusal> {
        let all = [Refusal::Secret, Refusal::Name];
        all.into_iter().find(|refusal| refusal.bytes() == bytes)
    }
}

/// Which side a proof is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

impl Role {
    pub(super) fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

/// The key that proofs of a secret are made with.
pub(super) fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

/// What a proof of `role` in this session is computed over.
fn message(tls: &Connection, how: How, role: Role) -> Result<Vec<u8>, Error> {
    let exporter = tls.export_keying_material([0; 32], EXPORTER_LABEL, Some(&[]))?;
    let how = match how {
        How::Certificate => 1,
        How::Secret => 2,
        How::Nobody => 3,
    };
    let role = match role {
        Role::Client => 1,
        Role::Server => 2,
    };
    Ok([LABEL, &[how, role], &exporter].concat())
}

/// The proof that `role` sends in this session.
pub(super) fn make(
    key: &hmac::Key,
    tls: &Connection,
    how: How,
    role: Role,
) -> Result<[u8; PROOF_BYTES], Error> {
    let tag = hmac::sign(key, &message(tls, how, role)?);
    let mut proof = [0; PROOF_BYTES];
    proof.copy_from_slice(tag.as_ref());
    Ok(proof)
}

/// Whether `proof` is that of `role` in this session. Takes the same time wherever it differs.
pub(super) fn is_right(
    key: &hmac::Key,
    tls: &Connection,
    how: How,
    role: Role,
    proof: &[u8],
) -> Result<bool, Error> {
    Ok(hmac::verify(key, &message(tls, how, role)?, proof).is_ok())
}
