//! Where the preload library is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[path = "../../../crates/sockets/tests/built/mod.rs"]
mod built;

const VARIABLE: &str = "BAREWIRE_PRELOAD_LIB";

/// The library, from the environment, or built from the present sources.
///
/// # Errors
/// Why there is none.
pub(crate) fn find() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(file) = std::env::var_os(VARIABLE) {
        let file = PathBuf::from(file);
        return file
            .is_file()
            .then_some(file.clone())
            .ok_or_else(|| format!("{VARIABLE}={}: no such file", file.display()));
    }
    let test = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = profile_folder(&test).ok_or("this test is not where cargo puts tests")?;
    let built = BUILT.get_or_init(|| built::build(folder));
    let plain = |error| format!("{error} (or run only `BAREWIRE_PROGRAMS_MODES=plain`)");
    built.clone().map_err(plain)
}

/// The folder of the profile of a test at `<target>/<profile>/deps/<test>`.
fn profile_folder(test: &Path) -> Option<&Path> {
    test.parent().and_then(Path::parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_of_the_profile_of_the_test() {
        let folder = profile_folder(Path::new("/t/debug/deps/programs-0"));
        assert_eq!(folder, Some(Path::new("/t/debug")));
    }
}
