//! Where the program is that is to be run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why there is no program to run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such program.
    #[error("{}: no such program", .0.display())]
    Missing(PathBuf),
    /// It cannot be executed.
    #[error("{}: cannot be executed: {}", .0.display(), .1)]
    NotExecutable(PathBuf, io::Error),
}

/// The file that the C library's `execvp` would run.
pub fn find_program(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let given = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        check(given)?;
        return Ok(given.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = None;
    for folder in std::env::split_paths(&path).filter(|_| !name.is_empty()) {
        let candidate = match folder.as_os_str().is_empty() {
            true => Path::new(".").join(given),
            false => folder.join(given),
        };
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(ProgramError::Missing(_)) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| ProgramError::Missing(given.to_owned())))
}

fn check(path: &Path) -> Result<(), ProgramError> {
    let refused = |error: io::Error| ProgramError::NotExecutable(path.to_owned(), error);
    let about = match path.metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(refused(error));
        }
        Err(_) => return Err(ProgramError::Missing(path.to_owned())),
    };
    if about.is_dir() {
        return Err(refused(io::Error::other("it is a directory")));
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err(refused(io::ErrorKind::PermissionDenied.into()));
    }
    Ok(())
}
