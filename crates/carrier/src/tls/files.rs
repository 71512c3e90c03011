//! The files of an identity: read only if nobody else could have read or written what must not
//! be, and written so that they are whole or not there, and never readable by others.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// Larger files are none of ours.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Bits of a mode: group or others may read, write or search.
const OTHERS_ANYTHING: u32 = 0o077;
/// Bits of a mode: group or others may write.
const OTHERS_WRITE: u32 = 0o022;

/// Why keys cannot be used, or not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// There are no keys.
    #[error("{} holds no keys: run `barewire node keygen` (or `barewire node keygen --secret`)", folder.display())]
    Missing {
        /// Where they were looked for.
        folder: PathBuf,
    },
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    #[error("where the keys are is not known, since HOME is not set: name the folder (`--dir`)")]
    NoHome,
    /// There are a key and a secret, and only one of them could count.
    #[error(
        "{} holds both key.pem and secret: move away the one that is not to be used", folder.display()
    )]
    TwoWays {
        /// Where they are.
        folder: PathBuf,
    },
    /// The system refuses a call.
    #[error("{}: {reason}", path.display())]
    Io {
        /// Of which file or folder.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
    /// Others may read a private file, or write what decides who is trusted.
    #[error(
        "{} has mode {mode:04o}, so others can {}: run `chmod {remedy} {}`{}",
        path.display(),
        if *is_private { "read it" } else { "change it" },
        path.display(),
        if *is_private { ", and make a new one if somebody may have read it" } else { "" }
    )]
    TooOpen {
        /// Which file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What to give to `chmod`.
        remedy: &'static str,
        /// Whether nobody else may even read it.
        is_private: bool,
    },
    /// It belongs to another user, who could change it.
    #[error("{} belongs to user {uid}: it must belong to you or root (`chown`)", path.display())]
    ForeignOwner {
        /// Which file or folder.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// What is in a file is not what must be there.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A name under which a certificate cannot be trusted.
    #[error(
        "`{name}` cannot name a host: up to 64 letters, digits, `.`, `-` and `_`, the first a letter or \
         digit, and neither `secret` nor `nobody`"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// One certificate is trusted under two names, so nobody could say which one counts.
    #[error("the certificates of {first} and {second} in {} are the same: remove one", folder.display())]
    TrustedTwice {
        /// The folder `trusted`.
        folder: PathBuf,
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// The file is there, and was not to be replaced.
    #[error("{} exists: it is replaced only with `--force`", path.display())]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// A key, certificate or random number could not be made.
    #[error("making keys failed: {reason}")]
    Generate {
        /// What the library says.
        reason: String,
    },
}

impl IdentityError {
    pub(super) fn io(path: &Path, error: &io::Error) -> IdentityError {
        IdentityError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }

    pub(super) fn content(path: &Path, what: impl Into<String>) -> IdentityError {
        IdentityError::Content {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// Whether something is there, of whatever kind.
pub(super) fn exists(path: &Path) -> Result<bool, IdentityError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IdentityError::io(path, &error)),
    }
}

/// Checks who may use what is at `path`, as `metadata` of the opened file says.
fn check(path: &Path, metadata: &fs::Metadata, is_private: bool) -> Result<(), IdentityError> {
    let uid = metadata.uid();
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        let path = path.to_owned();
        return Err(IdentityError::ForeignOwner { path, uid });
    }
    let mode = metadata.mode() & 0o7777;
    let forbidden = if is_private {
        OTHERS_ANYTHING
    } else {
        OTHERS_WRITE
    };
    if mode & forbidden != 0 {
        return Err(IdentityError::TooOpen {
            path: path.to_owned(),
            mode,
            remedy: if is_private { "600" } else { "go-w" },
            is_private,
        });
    }
    Ok(())
}

/// Checks that nobody else may put files into a folder.
pub(super) fn check_folder(path: &Path) -> Result<(), IdentityError> {
    let metadata = fs::metadata(path).map_err(|error| IdentityError::io(path, &error))?;
    if !metadata.is_dir() {
        return Err(IdentityError::content(path, "is no folder"));
    }
    check(path, &metadata, false)
}

/// Reads a whole file of bounded size. The opened file is what is checked, so nobody can put
/// another in its place in between; opening it does not wait, whatever it is.
fn read(path: &Path, is_private: Option<bool>) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |error: io::Error| IdentityError::io(path, &error);
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(IdentityError::content(path, "is no regular file"));
    }
    if let Some(is_private) = is_private {
        check(path, &metadata, is_private)?;
    }
    // With room from the start, no copy of a key is left behind by growing.
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(IdentityError::content(path, "is larger than 64 KiB"));
    }
    Ok(bytes)
}

/// Reads a file that only its owner may read.
pub(super) fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    read(path, Some(true))
}

/// Reads a file that everybody may read, and only its owner write.
pub(super) fn read_public(path: &Path) -> Result<Vec<u8>, IdentityError> {
    Ok(std::mem::take(&mut *read(path, Some(false))?))
}

/// Reads a file that the user names, whosever it is.
pub(super) fn read_any(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    read(path, None)
}

/// Makes a folder that only its owner may enter, and those above it. One that is there is
/// checked, and stays as it is.
pub(super) fn make_folder(path: &Path) -> Result<(), IdentityError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(path);
    made.map_err(|error| IdentityError::io(path, &error))?;
    check_folder(path)
}

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfThere {
    Fail,
    Replace,
}

/// Writes a whole file, readable by its owner alone from its first moment. Whoever opens it sees
/// the old one, none, or the whole new one, also after a crash.
pub(super) fn write(path: &Path, bytes: &[u8], if_there: IfThere) -> Result<(), IdentityError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let suffix = u64::from_ne_bytes(random()?);
    let temporary = folder.join(format!(".{name}.{suffix:016x}"));
    let written = write_temporary(&temporary, bytes).and_then(|()| match if_there {
        IfThere::Replace => fs::rename(&temporary, path),
        // Unlike a rename, this fails if it is there.
        IfThere::Fail => fs::hard_link(&temporary, path).and_then(|()| fs::remove_file(&temporary)),
    });
    let written = written.and_then(|()| File::open(folder)?.sync_all());
    written.map_err(|error| {
        // Nothing secret is left behind. If this fails, too, the first error is what counts.
        let _ = fs::remove_file(&temporary);
        match error.kind() {
            io::ErrorKind::AlreadyExists => IdentityError::Exists {
                path: path.to_owned(),
            },
            _ => IdentityError::io(path, &error),
        }
    })
}

fn write_temporary(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Random bytes of the kernel.
pub(super) fn random<const N: usize>() -> Result<[u8; N], IdentityError> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(IdentityError::Generate {
            reason: "the system gives no random numbers".to_owned(),
        }),
    }
}
