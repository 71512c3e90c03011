//! Between hosts: who is at the other end, and that nobody else reads or changes what is carried.
//!
//! Over one TCP connection, a [`Handshake`] by TLS 1.3 comes before anything else. It gives a
//! [`TlsCarrier`] and says who the peer is. A host proves itself in one of two ways, which its
//! [`Identity`] holds:
//!
//! - *Certificates.* Each host has a key, and a certificate that it signed itself. Each host has the
//!   certificates of those whom it trusts in its folder `trusted/`, byte for byte. There is no
//!   authority, no chain, no date and no host name that could be got wrong: a certificate is
//!   trusted if it is there, until it is removed.
//! - *A secret.* All hosts have the same file. Whoever has it is trusted by all, and can pass for
//!   any of them.
//!
//! # Why this is sound
//!
//! 1. *Certificates.* TLS 1.3 has each side sign the handshake with the key of its certificate. We
//!    replace only the question whether the certificate is trusted: by comparing bytes, for
//!    clients and servers alike. The signature is checked by the library (`tls/verify.rs`). So the
//!    peer holds a key that this host trusts, and the session is with it, since the signature
//!    covers the key agreement.
//! 2. *Secret.* The server's certificate is made on the fly and proves nothing, so TLS alone would let
//!    a man in the middle have a session with each side. Then both sides prove that they have the
//!    secret, by an HMAC over the exporter of *their* session (`tls/proof.rs`). Two sessions have
//!    different exporters, whoever sits between them, and only the two ends of a session know its
//!    exporter. So a proof fits only a session one end of which computed it. The roles of client and
//!    server are in it, so it cannot be sent back to where it came from.
//! 3. A proof gives a stranger who sits at the other end something to try secrets on. So a secret has
//!    at least 32 random bytes. It is no password.
//! 4. Nothing but the handshake is read before the proof of the peer: at most
//!    [`STRANGER_BYTES_MAX`] bytes.
//! 5. There is no older version, no resumption, no early data, and no ticket. Each session agrees on new
//!    keys (X25519), so keys that are stolen later do not open it (forward secrecy).
//! 6. A connection that is cut is an error and not an end ([`TlsCarrier`]).
//!
//! What is not protected is in `docs/security.md`, "Between hosts".

mod carrier;
mod exchange;
mod failure;
mod files;
mod fingerprint;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod identity;
mod inbox;
mod keygen;
mod pair;
mod proof;
#[cfg(test)]
mod tests;
mod verify;

pub use carrier::TlsCarrier;
pub use exchange::STRANGER_BYTES_MAX;
pub use failure::HandshakeError;
pub use files::IdentityError;
pub use fingerprint::Fingerprint;
pub use handshake::{Handshake, Step};
pub use identity::{Identity, SECRET_BYTES_MIN};
pub use keygen::{GenerateOptions, Generated, generate, trust};
pub use verify::Trusted;
