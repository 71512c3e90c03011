//! A harness that runs programs which we did not write, with and without the preload
//! library, and compares.
//!
//! A [`Scenario`] is run once for each [`Mode`], on a fresh [`Stage`]: a folder, free ports,
//! processes that are stopped and counted. What a scenario observed must be the same in
//! every mode. The scenarios stand in `tests/`; the C programs among them in
//! `torture/`, `soak/`, `lockstep/`, `firewall/` and `warm/`.
//!
//! Settings by environment:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `BAREWIRE_PRELOAD_LIB` | the library; else it is looked for beside the tests |
//! | `BAREWIRE_PROGRAMS_MODES` | only these modes: `plain,preloaded,server-only,client-only` |
//! | `BAREWIRE_PROGRAMS_LONG` | `1`: larger amounts and all modules |
//! | `BAREWIRE_PROGRAMS_KEEP` | `1`: keep the folders of what passed too |
//! | `BAREWIRE_PROGRAMS_CASES` | only these cases of the torture pair, by name |
#![forbid(unsafe_code)]

mod leftovers;
mod library;
mod ports;
mod process;
mod report;
mod scenario;
mod stage;

pub use process::{Output, Program, Running};
pub use report::Report;
pub use scenario::{Mode, Observed, Scenario, is_long, skip};
pub use stage::Stage;

/// The file of a program: in the path, or in a folder for administrators.
#[must_use]
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(Into::into))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Builds the C program of the folder `name` beside this crate's sources, into the folder `into`.
///
/// # Panics
/// If `cc` is not there or finds an error.
#[must_use]
pub fn built(name: &str, into: &str) -> std::path::PathBuf {
    compiled(name, into, &[])
}

/// As [`built`], of a library that can be preloaded.
///
/// # Panics
/// As [`built`].
#[must_use]
pub fn built_shared(name: &str, into: &str) -> std::path::PathBuf {
    compiled(name, into, &["-shared", "-fPIC"])
}

fn compiled(name: &str, into: &str, flags: &[&str]) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let files = std::fs::read_dir(folder).unwrap();
    let sources = files
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension() == Some(std::ffi::OsStr::new("c")));
    let program = std::path::Path::new(into).join(name);
    // In place of a program that may be running, by its name only.
    let fresh = program.with_extension("new");
    let output = std::process::Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .args(sources)
        .output()
        .expect("cc is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
    std::fs::rename(fresh, &program).unwrap();
    program
}
