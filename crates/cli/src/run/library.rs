//! Where the library is that is preloaded.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::elf;

/// The library's file.
pub const LIBRARY: &str = "libbarewire_sockets.so";
/// The variable that says where it is.
const VARIABLE: &str = "BAREWIRE_SOCKETS_LIB";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// It is nowhere.
    #[error(
        "{LIBRARY} was not found; looked at: {}. Build it (cargo build --release \
         -p barewire-sockets), or say where it is: {VARIABLE}=PATH", looked_at(.0)
    )]
    Missing(Vec<String>),
    /// It is none.
    #[error(
        "{}: {}, so it cannot be preloaded; build it: cargo build --release -p \
         barewire-sockets", .0.display(), .1
    )]
    Form(PathBuf, String),
    /// The dynamic loader could not be told where it is.
    #[error("{}: the dynamic loader takes no path with a space or a colon", .0.display())]
    Name(PathBuf),
}

/// The library: as the environment says, else beside this program, or where `make` and
/// packages put it.
pub fn library() -> Result<PathBuf, LibraryError> {
    let candidates = candidates();
    let Some(found) = candidates.iter().find(|path| path.is_file()) else {
        let looked = candidates.iter().map(|path| path.display().to_string());
        return Err(LibraryError::Missing(looked.collect()));
    };
    let found = std::path::absolute(found).unwrap_or_else(|_| found.clone());
    if let Some(wrong) = elf::no_library(&found) {
        return Err(LibraryError::Form(found, wrong));
    }
    let bytes = found.as_os_str().as_bytes();
    if bytes
        .iter()
        .any(|byte| *byte == b':' || byte.is_ascii_whitespace())
    {
        return Err(LibraryError::Name(found));
    }
    Ok(found)
}

fn looked_at(places: &[String]) -> String {
    match places {
        [] => "nothing, as this command does not know its own place without /proc".to_owned(),
        _ => places.join(", "),
    }
}

fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let Ok(own) = std::env::current_exe() else {
        return Vec::new();
    };
    let Some(folder) = own.parent() else {
        return Vec::new();
    };
    let beside = ["lib", "lib/barewire", "release", "debug"];
    let above = folder.parent().unwrap_or(folder);
    let places = beside.iter().map(|place| above.join(place));
    [folder.to_owned()]
        .into_iter()
        .chain(places)
        .map(|place| place.join(LIBRARY))
        .collect()
}
