//! Which certificates are accepted in a handshake.
//!
//! The name, the dates and the issuer of a certificate count for nothing. A certificate is
//! accepted because the very same bytes lie in `trusted/`, or, between hosts that share a secret, for the
//! time until the secret is proved. In both cases the other side must sign the handshake with
//! the certificate's key, and the cryptographic library checks that.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};

use super::fingerprint::Fingerprint;

/// TLS 1.3 with AES-128-GCM, or ChaCha20-Poly1305 where a processor has no instructions for
/// AES, and keys agreed by X25519. Nothing else is offered or taken.
pub(super) fn crypto() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![provider::kx_group::X25519],
        ..provider::default_provider()
    }
}

/// A certificate that this host trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// Its name in policies: that of its file, without `.pem`.
    pub name: String,
    /// The SHA-256 of the certificate.
    pub fingerprint: Fingerprint,
    pub(super) certificate: CertificateDer<'static>,
}

/// Says within an error of the library which certificate is not trusted.
#[derive(Debug)]
pub(super) struct NotTrusted(pub(super) Fingerprint);

impl fmt::Display for NotTrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the certificate {} is not trusted", self.0)
    }
}

impl std::error::Error for NotTrusted {}

/// Which certificates are accepted.
#[derive(Debug)]
pub(super) enum Accepted {
    /// Exactly these.
    These(Arc<[Trusted]>),
    /// Any whose key signs the handshake, since the secret is proved afterwards.
    Any,
}

/// Accepts certificates of clients and servers alike.
#[derive(Debug)]
pub(super) struct Verifier {
    accepted: Accepted,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(accepted: Accepted) -> Verifier {
        Verifier {
            accepted,
            algorithms: crypto().signature_verification_algorithms,
        }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let is_accepted = match &self.accepted {
            Accepted::These(trusted) => trusted.iter().any(|it| it.certificate == *certificate),
            Accepted::Any => true,
        };
        if is_accepted {
            return Ok(());
        }
        let stranger = NotTrusted(Fingerprint::of(certificate));
        let reason = OtherError(Arc::new(stranger));
        Err(CertificateError::Other(reason).into())
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// What every signature of TLS 1.2 gets. It is not even built in.
fn too_old() -> Error {
    PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Whom this host trusts is nobody's business.
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
