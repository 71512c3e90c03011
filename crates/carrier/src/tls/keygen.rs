//! Makes keys, and trusts those of others: what `barewire node keygen` and `trust` do.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::files::{self, IdentityError, IfThere};
use super::fingerprint::Fingerprint;
use super::identity::{
    CERTIFICATE_FILE, CERTIFICATE_SUFFIX, KEY_FILE, SECRET_BYTES_MIN, SECRET_FILE, TRUSTED_FOLDER,
    check_name, load_trusted, parse_certificate,
};
use super::pair;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What [`generate`] is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// A secret in place of a key and a certificate.
    pub is_secret: bool,
    /// The name in the certificate, for people only: what counts is the name of the file under which
    /// others trust it. It follows the same rule. Of no meaning for a secret.
    pub name: String,
    /// Whether a file of this kind that is there is replaced.
    pub replace: bool,
}

/// What [`generate`] has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generated {
    /// A key and its certificate.
    Certificate {
        /// What others need.
        certificate: PathBuf,
        /// The SHA-256 of the certificate.
        fingerprint: Fingerprint,
    },
    /// A secret.
    Secret {
        /// What others need, and nobody else may see.
        secret: PathBuf,
    },
}

/// Makes a key and its certificate, or a secret, in `folder`, which is made if need be.
///
/// # Errors
/// Among others [`IdentityError::Exists`], if there is one and it was not to be replaced, and
/// [`IdentityError::TwoWays`], if there is one of the other kind.
pub fn generate(folder: &Path, options: &GenerateOptions) -> Result<Generated, IdentityError> {
    if !options.is_secret {
        check_name(&options.name)?;
    }
    files::make_folder(folder)?;
    let (own, other): (&[&str], &str) = match options.is_secret {
        true => (&[SECRET_FILE], KEY_FILE),
        false => (&[KEY_FILE, CERTIFICATE_FILE], SECRET_FILE),
    };
    if files::exists(&folder.join(other))? {
        return Err(IdentityError::TwoWays {
            folder: folder.to_owned(),
        });
    }
    for path in own.iter().map(|name| folder.join(name)) {
        if !options.replace && files::exists(&path)? {
            return Err(IdentityError::Exists { path });
        }
    }
    let if_there = if_there(options.replace);
    if options.is_secret {
        let bytes = Zeroizing::new(files::random::<SECRET_BYTES_MIN>()?);
        let mut text = Zeroizing::new(String::with_capacity(2 * SECRET_BYTES_MIN + 1));
        for byte in bytes.iter() {
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
        }
        text.push('\n');
        let secret = folder.join(SECRET_FILE);
        files::write(&secret, text.as_bytes(), if_there)?;
        return Ok(Generated::Secret { secret });
    }
    files::make_folder(&folder.join(TRUSTED_FOLDER))?;
    let (certificate, key) = pair::make(&options.name)?;
    let pem = Zeroizing::new(key.serialize_pem());
    files::write(&folder.join(KEY_FILE), pem.as_bytes(), if_there)?;
    let path = folder.join(CERTIFICATE_FILE);
    files::write(&path, certificate.pem().as_bytes(), if_there)?;
    Ok(Generated::Certificate {
        certificate: path,
        fingerprint: Fingerprint::of(certificate.der()),
    })
}

/// Trusts the certificate in `file` under `name`, by a copy in `folder/trusted/`.
///
/// # Errors
/// If it is no certificate, the name is not allowed, or, unless `replace` is set, taken. Also if the
/// certificate is trusted under another name already.
pub fn trust(
    folder: &Path,
    file: &Path,
    name: &str,
    replace: bool,
) -> Result<Fingerprint, IdentityError> {
    check_name(name)?;
    let pem = files::read_any(file)?;
    let certificate = parse_certificate(file, &pem)?;
    files::make_folder(folder)?;
    let trusted = folder.join(TRUSTED_FOLDER);
    files::make_folder(&trusted)?;
    for other in load_trusted(&trusted)? {
        if other.certificate == certificate && other.name != name {
            return Err(IdentityError::TrustedTwice {
                folder: trusted,
                first: other.name,
                second: name.to_owned(),
            });
        }
    }
    let path = trusted.join(format!("{name}{CERTIFICATE_SUFFIX}"));
    files::write(&path, &pem, if_there(replace))?;
    Ok(Fingerprint::of(&certificate))
}

fn if_there(replace: bool) -> IfThere {
    match replace {
        true => IfThere::Replace,
        false => IfThere::Fail,
    }
}
