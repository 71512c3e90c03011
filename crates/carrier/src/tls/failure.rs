//! Why a handshake failed, in words that say what to do.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::fingerprint::Fingerprint;
use super::identity::Identity;
use super::verify::NotTrusted;
use crate::peer::How;

/// Why two hosts do not come together. It stays so; another connection has to be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The kernel reports a failure.
    #[error("the connection to the other host failed: {reason}")]
    Connection {
        /// What it reports.
        reason: String,
    },
    /// The other side went away in the middle.
    #[error(
        "the other side closed the connection during the handshake and did not say why: it may \
         have been stopped, or it does not speak Barewire"
    )]
    Ended,
    /// The other side does not speak TLS.
    #[error("what came is not TLS but {what}: it is no node of Barewire with the same settings")]
    NotTls {
        /// What it looks like.
        what: String,
    },
    /// The other side speaks TLS, but is no node of Barewire.
    #[error("the other side speaks TLS, but is no node of Barewire")]
    NotBarewire,
    /// The other side has no TLS 1.3.
    #[error(
        "the other side has no TLS 1.3, and nothing older is safe enough: it needs a newer program"
    )]
    OldTls,
    /// The other side has no cipher in common with this one.
    #[error("the other side's TLS has nothing in common with this host's: {reason}")]
    Incompatible {
        /// What is missing.
        reason: String,
    },
    /// One side proves itself by a certificate, the other by a secret.
    #[error(
        "this host proves itself by {}, and the other one does not, or is of another version: \
         both need a pair of `barewire node keygen`, or both the same file `secret`",
        match own { How::Secret => "a secret", _ => "a certificate" }
    )]
    OtherWay {
        /// How this host proves itself.
        own: How,
    },
    /// This host does not trust the other one.
    #[error(
        "the other host's certificate is not in trusted/ (SHA-256 {fingerprint}): if that is the \
         right host, copy its certificate.pem here and run `barewire node trust FILE --as NAME`"
    )]
    NotTrusted {
        /// Of the other host's certificate.
        fingerprint: Fingerprint,
    },
    /// The other host does not trust this one.
    #[error(
        "the other host does not trust this host's certificate (SHA-256 {own}): copy certificate.pem \
         there and run `barewire node trust FILE --as NAME` there"
    )]
    NotTrustedThere {
        /// Of this host's certificate.
        own: Fingerprint,
    },
    /// The other side shows a certificate and does not hold its key.
    #[error(
        "the other side shows a certificate whose key it does not hold: somebody pretends to be \
         that host, or its key.pem was replaced and its certificate.pem was not"
    )]
    WrongKey,
    /// The other host says so of this one.
    #[error(
        "the other host says that this host does not hold the key of its certificate: run \
         `barewire node keygen --force`, and trust the new certificate there"
    )]
    WrongKeyHere,
    /// The other side shows a certificate that cannot be used.
    #[error("the other side's certificate cannot be used: {reason}")]
    BadCertificate {
        /// Why.
        reason: String,
    },
    /// No certificate has the name of the host that is to be reached.
    #[error("no certificate in trusted/ has the name {expected}: `barewire node keys` lists them")]
    UnknownName {
        /// That name.
        expected: String,
    },
    /// A trusted host answers, but not the one that was to be reached.
    #[error("{expected} was to be reached, and {found} answered: is the address right?")]
    OtherName {
        /// Who was to be reached.
        expected: String,
        /// Who answered.
        found: String,
    },
    /// The other host wanted to reach another one.
    #[error("the other host wanted to reach a host with another name than it trusts this one by")]
    OtherNameHere,
    /// The other side does not have this host's secret.
    #[error(
        "the other side does not have this host's secret, or somebody is in the middle: the file \
         `secret` must be the same on all hosts"
    )]
    OtherSecret,
    /// The other side has sent more than a handshake takes.
    #[error("the other side sent {bytes_max} bytes without proving who it is")]
    TooMuch {
        /// So many are taken.
        bytes_max: usize,
    },
    /// The other side has broken off with an alert of TLS.
    #[error("the other side broke off: {reason}")]
    Refused {
        /// The name of the alert.
        reason: String,
    },
    /// What came is TLS, but not right, or was changed on the way.
    #[error("the other side broke the protocol of the handshake: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: String,
    },
    /// This host cannot take part.
    #[error("this host cannot take part in the handshake: {reason}")]
    Own {
        /// Why.
        reason: String,
    },
    /// The handshake is over, and its outcome was given before.
    #[error("the handshake is over: its outcome was given before")]
    Over,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        HandshakeError::Connection {
            reason: error.to_string(),
        }
    }
}

fn incompatible(why: &PeerIncompatible) -> HandshakeError {
    match why {
        PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => HandshakeError::OldTls,
        other => HandshakeError::Incompatible {
            reason: format!("{other:?}"),
        },
    }
}

fn bad_certificate(why: &CertificateError) -> HandshakeError {
    let stranger = match why {
        CertificateError::Other(other) => other.0.downcast_ref::<NotTrusted>(),
        _ => None,
    };
    match (stranger, why) {
        (Some(NotTrusted(fingerprint)), _) => HandshakeError::NotTrusted {
            fingerprint: *fingerprint,
        },
        (None, CertificateError::BadSignature) => HandshakeError::WrongKey,
        _ => HandshakeError::BadCertificate {
            reason: why.to_string(),
        },
    }
}

fn alert(description: AlertDescription, identity: &Identity) -> HandshakeError {
    match (description, identity.fingerprint()) {
        (AlertDescription::CertificateUnknown, Some(own)) => {
            HandshakeError::NotTrustedThere { own }
        }
        (AlertDescription::DecryptError, Some(_)) => HandshakeError::WrongKeyHere,
        (AlertDescription::ProtocolVersion, _) => HandshakeError::OldTls,
        (AlertDescription::NoApplicationProtocol, _) => HandshakeError::OtherWay {
            own: identity.how(),
        },
        _ => HandshakeError::Refused {
            reason: format!("{description:?}"),
        },
    }
}

/// What an error of the library means for a host with this identity.
pub(super) fn explain(error: Error, identity: &Identity) -> HandshakeError {
    match error {
        Error::InvalidCertificate(why) => bad_certificate(&why),
        Error::AlertReceived(description) => alert(description, identity),
        Error::NoApplicationProtocol => HandshakeError::OtherWay {
            own: identity.how(),
        },
        Error::PeerIncompatible(why) => incompatible(&why),
        Error::NoCertificatesPresented => HandshakeError::NotBarewire,
        Error::DecryptError => HandshakeError::Protocol {
            reason: "a record was changed on the way, or made up".to_owned(),
        },
        Error::FailedToGetCurrentTime
        | Error::FailedToGetRandomBytes
        | Error::EncryptError
        | Error::General(_) => HandshakeError::Own {
            reason: error.to_string(),
        },
        other => HandshakeError::Protocol {
            reason: other.to_string(),
        },
    }
}
