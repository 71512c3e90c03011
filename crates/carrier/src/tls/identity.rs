//! What a host proves itself with, and whom it trusts: the keys of one folder, loaded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::hmac;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, version};
use zeroize::Zeroizing;

use super::files::{self, IdentityError};
use super::fingerprint::Fingerprint;
use super::proof::{self, PROOF_BYTES};
use super::verify::{Accepted, Trusted, Verifier, crypto};
use crate::peer::How;

/// The private key of a host, in PEM.
pub(super) const KEY_FILE: &str = "key.pem";
/// The certificate of a host, in PEM.
pub(super) const CERTIFICATE_FILE: &str = "certificate.pem";
/// The certificates of others, in PEM.
pub(super) const TRUSTED_FOLDER: &str = "trusted";
/// The secret that hosts share, in hexadecimal digits.
pub(super) const SECRET_FILE: &str = "secret";
/// What the names of files in [`TRUSTED_FOLDER`] end with.
pub(super) const CERTIFICATE_SUFFIX: &str = ".pem";

/// A shorter secret could be guessed.
pub const SECRET_BYTES_MIN: usize = 32;
const NAME_BYTES_MAX: usize = 64;

/// Both sides name the way in which they prove themselves, and the version of what follows the
/// TLS handshake.
const PROTOCOL_OF_CERTIFICATES: &[u8] = b"barewire-certificate/1";
const PROTOCOL_OF_SECRETS: &[u8] = b"barewire-secret/1";

/// What a host proves itself with, and whom it trusts. Cheap to clone. Neither shows a secret in
/// its `Debug` form nor gives one away.
///
/// Later changes of the files have no effect on it: load it again.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

struct Inner {
    how: How,
    fingerprint: Option<Fingerprint>,
    trusted: Arc<[Trusted]>,
    key: hmac::Key,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("how", &self.how())
            .field("fingerprint", &self.fingerprint())
            .field("trusted", &self.trusted())
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Where the keys of this user are unless a folder is named: `barewire` in
    /// `XDG_CONFIG_HOME`, or else in `HOME/.config`.
    ///
    /// # Errors
    /// [`IdentityError::NoHome`].
    pub fn default_folder() -> Result<PathBuf, IdentityError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.filter(|path| path.is_absolute());
        let config = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
        Ok(config.ok_or(IdentityError::NoHome)?.join("barewire"))
    }

    /// Reads the keys in `folder`: `key.pem`, `certificate.pem` and `trusted/`, or else `secret`.
    ///
    /// # Errors
    /// What is missing, faulty, or open to others, and what to do about it.
    pub fn load(folder: &Path) -> Result<Identity, IdentityError> {
        let key_file = folder.join(KEY_FILE);
        let secret_file = folder.join(SECRET_FILE);
        match (files::exists(&key_file)?, files::exists(&secret_file)?) {
            (true, true) => Err(IdentityError::TwoWays {
                folder: folder.to_owned(),
            }),
            (false, false) => Err(IdentityError::Missing {
                folder: folder.to_owned(),
            }),
            (true, false) => {
                files::check_folder(folder)?;
                load_certificates(folder, &key_file)
            }
            (false, true) => {
                files::check_folder(folder)?;
                let secret = files::read_private(&secret_file)?;
                let secret = parse_secret(&secret_file, &secret)?;
                Identity::of_secret(&secret)
            }
        }
    }

    /// Of a host that has this secret, and trusts all that have it.
    fn of_secret(secret: &[u8]) -> Result<Identity, IdentityError> {
        let (certificate, key) = super::pair::make("barewire")?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let verifier = Arc::new(Verifier::new(Accepted::Any));
        let client = client_builder(verifier).with_no_client_auth();
        let server = server_builder()?.with_no_client_auth();
        let server = server.with_single_cert(vec![certificate.der().clone()], key);
        let server = server.map_err(|error| generate_failed(&error))?;
        let key = proof::key(secret);
        Ok(Identity::new(
            How::Secret,
            None,
            [].into(),
            key,
            client,
            server,
        ))
    }

    fn new(
        how: How,
        fingerprint: Option<Fingerprint>,
        trusted: Arc<[Trusted]>,
        key: hmac::Key,
        mut client: ClientConfig,
        mut server: ServerConfig,
    ) -> Identity {
        let protocol = match how {
            How::Secret => PROTOCOL_OF_SECRETS,
            How::Certificate | How::Nobody => PROTOCOL_OF_CERTIFICATES,
        };
        client.alpn_protocols = vec![protocol.to_vec()];
        // Each link proves everything anew.
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        server.alpn_protocols = vec![protocol.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let inner = Arc::new(Inner {
            how,
            fingerprint,
            trusted,
            key,
            client: Arc::new(client),
            server: Arc::new(server),
        });
        Identity { inner }
    }

    /// How this host proves itself: by a certificate or a secret.
    pub fn how(&self) -> How {
        self.inner.how
    }

    /// The SHA-256 of this host's certificate; nothing with a secret.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.inner.fingerprint
    }

    /// The certificates that this host trusts, by name; none with a secret.
    pub fn trusted(&self) -> &[Trusted] {
        &self.inner.trusted
    }

    pub(super) fn key(&self) -> &hmac::Key {
        &self.inner.key
    }

    /// The protocol that both sides must name in the handshake.
    pub(super) fn protocol(&self) -> &[u8] {
        &self.inner.client.alpn_protocols[0]
    }

    pub(super) fn client(&self) -> Result<ClientConnection, rustls::Error> {
        // The name is neither sent nor looked at.
        let name = ServerName::try_from("barewire").expect("a valid name");
        ClientConnection::new(self.inner.client.clone(), name)
    }

    pub(super) fn server(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.inner.server.clone())
    }

    /// The same, but signing with whatever key the caller likes.
    #[cfg(test)]
    pub(super) fn with_resolver(&self, resolver: Arc<rustls::sign::SingleCertAndKey>) -> Identity {
        let inner = &self.inner;
        let mut client = (*inner.client).clone();
        client.client_auth_cert_resolver = resolver.clone();
        let mut server = (*inner.server).clone();
        server.cert_resolver = resolver;
        let (how, fingerprint, key) = (inner.how, inner.fingerprint, inner.key.clone());
        Identity::new(how, fingerprint, inner.trusted.clone(), key, client, server)
    }
}

fn generate_failed(error: &rustls::Error) -> IdentityError {
    IdentityError::Generate {
        reason: error.to_string(),
    }
}

type ClientBuilder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;
type ServerBuilder = rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>;

fn client_builder(verifier: Arc<Verifier>) -> ClientBuilder {
    ClientConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&version::TLS13])
        .expect("the suites are those of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
}

fn server_builder() -> Result<ServerBuilder, IdentityError> {
    ServerConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| generate_failed(&error))
}

fn load_certificates(folder: &Path, key_file: &Path) -> Result<Identity, IdentityError> {
    let pem = files::read_private(key_file)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| IdentityError::content(key_file, "holds no private key in PEM"))?;
    let certificate_file = folder.join(CERTIFICATE_FILE);
    if !files::exists(&certificate_file)? {
        let what = "is missing beside key.pem: run `barewire node keygen --force` for a new pair";
        return Err(IdentityError::content(&certificate_file, what));
    }
    let pem = files::read_public(&certificate_file)?;
    let certificate = parse_certificate(&certificate_file, &pem)?;
    let trusted: Arc<[Trusted]> = load_trusted(&folder.join(TRUSTED_FOLDER))?.into();
    let fingerprint = Fingerprint::of(&certificate);
    let does_not_fit = |error: rustls::Error| {
        let what = format!("cannot be used with {CERTIFICATE_FILE}: {error}");
        IdentityError::content(key_file, what)
    };
    let verifier = Arc::new(Verifier::new(Accepted::These(trusted.clone())));
    let client = client_builder(verifier.clone())
        .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
        .map_err(does_not_fit)?;
    let server = server_builder()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(does_not_fit)?;
    // There is nothing to prove by it.
    let key = proof::key(&[0; PROOF_BYTES]);
    let fingerprint = Some(fingerprint);
    Ok(Identity::new(
        How::Certificate,
        fingerprint,
        trusted,
        key,
        client,
        server,
    ))
}

/// The certificates in `trusted/`, by name. Files that begin with a dot do not count.
pub(super) fn load_trusted(folder: &Path) -> Result<Vec<Trusted>, IdentityError> {
    if !files::exists(folder)? {
        return Ok(Vec::new());
    }
    files::check_folder(folder)?;
    let failed = |error: std::io::Error| IdentityError::io(folder, &error);
    let mut found: Vec<Trusted> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file_name = entry.file_name();
        let file_name = file_name.to_string_lossy();
        if file_name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        let Some(name) = file_name.strip_suffix(CERTIFICATE_SUFFIX) else {
            let what = "is no certificate: only files NAME.pem belong here";
            return Err(IdentityError::content(&path, what));
        };
        check_name(name)?;
        let certificate = parse_certificate(&path, &files::read_public(&path)?)?;
        if let Some(other) = found.iter().find(|it| it.certificate == certificate) {
            return Err(IdentityError::TrustedTwice {
                folder: folder.to_owned(),
                first: other.name.clone(),
                second: name.to_owned(),
            });
        }
        found.push(Trusted {
            name: name.to_owned(),
            fingerprint: Fingerprint::of(&certificate),
            certificate,
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Whether a certificate can be trusted under this name.
pub(super) fn check_name(name: &str) -> Result<(), IdentityError> {
    let is_reserved = [How::Secret, How::Nobody]
        .iter()
        .any(|how| how.to_string() == name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_fine = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain);
    if is_reserved || !is_fine {
        return Err(IdentityError::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// The one certificate in a PEM file.
pub(super) fn parse_certificate(
    path: &Path,
    pem: &[u8],
) -> Result<CertificateDer<'static>, IdentityError> {
    if PrivateKeyDer::from_pem_slice(pem).is_ok() {
        let what = "holds a private key, which must never leave its host: take certificate.pem";
        return Err(IdentityError::content(path, what));
    }
    let mut found = CertificateDer::pem_slice_iter(pem);
    let (Some(Ok(certificate)), None) = (found.next(), found.next()) else {
        let what = "is not one certificate in PEM";
        return Err(IdentityError::content(path, what));
    };
    match ParsedCertificate::try_from(&certificate) {
        Ok(_) => Ok(certificate),
        Err(error) => {
            let what = format!("is not a certificate that TLS can use: {error}");
            Err(IdentityError::content(path, what))
        }
    }
}

/// The bytes of a secret file: hexadecimal digits, white space around them.
fn parse_secret(path: &Path, text: &[u8]) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let digits = text.trim_ascii();
    let digit = |byte: u8| (byte as char).to_digit(16);
    let mut secret = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks(2) {
        let &[high, low] = pair else {
            let what = "has an odd number of hexadecimal digits";
            return Err(IdentityError::content(path, what));
        };
        let (Some(high), Some(low)) = (digit(high), digit(low)) else {
            let what = "holds something other than hexadecimal digits";
            return Err(IdentityError::content(path, what));
        };
        secret.push((high << 4 | low) as u8);
    }
    if secret.len() < SECRET_BYTES_MIN {
        let what = format!(
            "holds {} bytes: a secret has at least {SECRET_BYTES_MIN}, from a random source; \
             `barewire node keygen --secret` makes one",
            secret.len()
        );
        return Err(IdentityError::content(path, what));
    }
    Ok(secret)
}
