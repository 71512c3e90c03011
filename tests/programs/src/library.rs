//! Where the preload library is.

use std::path::{Path, PathBuf};

const NAME: &str = "libbarewire_sockets.so";
const VARIABLE: &str = "BAREWIRE_PRELOAD_LIB";

/// The library, from the environment or from where cargo builds.
///
/// # Errors
/// Says where it was looked for.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(file) = std::env::var_os(VARIABLE) {
        let file = PathBuf::from(file);
        return file
            .is_file()
            .then_some(file.clone())
            .ok_or_else(|| format!("{VARIABLE}={}: no such file", file.display()));
    }
    let test = std::env::current_exe().map_err(|e| e.to_string())?;
    let places = beside(&test);
    let found = places.iter().find(|file| file.is_file()).cloned();
    found.ok_or_else(|| {
        let places: Vec<_> = places
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        format!(
            "no {NAME} at {}: build it with `cargo build -p barewire-sockets`, set {VARIABLE}, \
             or run only `BAREWIRE_PROGRAMS_MODES=plain`",
            places.join(" or ")
        )
    })
}

/// Where the library is for a test at `<target>/<profile>/deps/<test>`: of the same profile
/// if there is one, else of another.
fn beside(test: &Path) -> Vec<PathBuf> {
    let Some(profile) = test.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    let mut places = vec![profile.join(NAME)];
    if let Some(target) = profile.parent() {
        places.extend(["release", "debug"].map(|other| target.join(other).join(NAME)));
    }
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_profile_comes_first() {
        let places = beside(Path::new("/t/debug/deps/programs-0"));
        assert_eq!(places[0], Path::new("/t/debug/libbarewire_sockets.so"));
        assert!(places.contains(&PathBuf::from("/t/release/libbarewire_sockets.so")));
    }
}
