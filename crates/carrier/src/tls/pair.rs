//! A new key and its certificate.

use rcgen::{
    Certificate, CertificateParams, DistinguishedName, DnType, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, date_time_ymd,
};

use super::files::IdentityError;

/// An Ed25519 key and a certificate that it signs itself. `name` is for people only. The
/// certificate does not expire (RFC 5280, 4.1.2.5): it ends when others no longer trust it.
pub(super) fn make(name: &str) -> Result<(Certificate, KeyPair), IdentityError> {
    let failed = |error: rcgen::Error| IdentityError::Generate {
        reason: error.to_string(),
    };
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate, key))
}
