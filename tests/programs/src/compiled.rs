//! The C and C++ programs of this crate, compiled.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Builds the C program of the folder `name` beside this crate's sources, into the folder `into`.
///
/// # Panics
/// If `cc` is not there or finds an error.
#[must_use]
pub fn built(name: &str, into: &str) -> PathBuf {
    built_of_folder(name, into, &[])
}

/// As [`built`], of a library that can be preloaded.
///
/// # Panics
/// As [`built`].
#[must_use]
pub fn built_shared(name: &str, into: &str) -> PathBuf {
    built_of_folder(name, into, &["-shared", "-fPIC"])
}

fn built_of_folder(name: &str, into: &str, flags: &[&str]) -> PathBuf {
    let files = fs::read_dir(source(name)).unwrap();
    let sources: Vec<_> = files
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension() == Some(OsStr::new("c")))
        .collect();
    let program = Path::new(into).join(name);
    compile("cc", &sources, &program, flags);
    program
}

/// A file or folder beside this crate's sources.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compiles these sources with `compiler` into one program; `options` stand behind the sources, so that
/// libraries may be among them.
///
/// # Panics
/// If the compiler is not there or finds an error.
pub fn compile(compiler: &str, sources: &[PathBuf], program: &Path, options: &[&str]) {
    // In place of a program that may be running, by its name only.
    let fresh = program.with_extension("new");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-Wall", "-pthread", "-o"]);
    run(command.arg(&fresh).args(sources).args(options));
    fs::rename(fresh, program).unwrap();
}

/// A program that `make` makes of `sources`, some of which a generator turns into code: only if the program
/// is older than one of them, since that takes long.
///
/// # Panics
/// If a source is not there, or `make` panics.
pub fn made(program: PathBuf, sources: &[PathBuf], make: impl FnOnce(&Path)) -> PathBuf {
    let changed = |file: &PathBuf| fs::metadata(file).and_then(|data| data.modified());
    let newest = sources.iter().map(|file| changed(file).unwrap()).max();
    let is_fresh = changed(&program).is_ok_and(|time: SystemTime| Some(time) > newest);
    if !is_fresh {
        make(&program);
    }
    program
}

/// Runs a compiler or a generator of code, and gives what it printed.
///
/// # Panics
/// If it is not there or fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
