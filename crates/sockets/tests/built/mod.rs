//! The preload library, built from the present sources: for the tests of any crate that run programs with it.
//!
//! It is no dependency of those tests, so cargo does not build it with them, and what lies in the target folder may be of
//! any age. So it is asked to, once for each process of tests. Where nothing has changed that takes a fraction of a
//! second. Cargo's own lock keeps such processes apart; while tests run, the cargo that has started them does not hold it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Its file.
pub const LIBRARY: &str = "libbarewire_sockets.so";

/// Builds it into the folder of a profile (`<target>/debug`), in which the tests are, too.
///
/// # Errors
/// Why it cannot be built, and what to do.
pub fn build(profile_folder: &Path) -> Result<PathBuf, String> {
    let target = profile_folder.parent().unwrap_or(Path::new("."));
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "-p", "barewire-sockets"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let advice =
        "build it by `cargo build -p barewire-sockets`, and set BAREWIRE_PRELOAD_LIB to its path";
    let output = cargo
        .output()
        .map_err(|error| format!("{cargo:?}: {error}; {advice}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{LIBRARY} is not built; {advice}: {said}"));
    }
    let library = target.join(profile_folder.file_name().unwrap_or_default());
    let library = library.join(LIBRARY);
    match library.is_file() {
        true => Ok(library),
        false => Err(format!("{cargo:?} has not made {}", library.display())),
    }
}
