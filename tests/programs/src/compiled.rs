//! The C programs of this crate, compiled.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the C program of the folder `name` beside this crate's sources, into the folder `into`.
///
/// # Panics
/// If `cc` is not there or finds an error.
#[must_use]
pub fn built(name: &str, into: &str) -> PathBuf {
    compiled(name, into, &[])
}

/// As [`built`], of a library that can be preloaded.
///
/// # Panics
/// As [`built`].
#[must_use]
pub fn built_shared(name: &str, into: &str) -> PathBuf {
    compiled(name, into, &["-shared", "-fPIC"])
}

fn compiled(name: &str, into: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let files = fs::read_dir(folder).unwrap();
    let sources = files
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension() == Some(OsStr::new("c")));
    let program = Path::new(into).join(name);
    // In place of a program that may be running, by its name only.
    let fresh = program.with_extension("new");
    let output = Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .args(sources)
        .output()
        .expect("cc is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
    fs::rename(fresh, &program).unwrap();
    program
}
