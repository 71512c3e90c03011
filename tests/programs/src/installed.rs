//! Programs that are installed here.

use std::path::PathBuf;

/// The file of a program: in the path, or in a folder for administrators.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(Into::into))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
