//! Programs that are installed here.

use std::path::PathBuf;

/// What a scenario needs: a program, or the path of a file; and the Debian package that brings it.
pub type Need = (&'static str, &'static str);

/// The file of a program: in the path, or in a folder for administrators.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(Into::into))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Why a scenario with these needs cannot run here: it names the first package that is missing.
#[must_use]
pub fn missing(needs: &[Need]) -> Option<String> {
    let (what, package) = needs.iter().find(|(what, _)| find(what).is_none())?;
    Some(format!("package {package} is not installed (no {what})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_that_is_missing_is_named() {
        let needs = [("sh", "dash"), ("/etc/no-such-file", "no-such-package")];
        assert_eq!(missing(&needs[..1]), None);
        let said = missing(&needs).unwrap();
        assert!(
            said.contains("package no-such-package is not installed"),
            "{said}"
        );
    }
}
