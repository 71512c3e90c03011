//! Where the programs of rivals are, which version each is, and how to get those that are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use barewire_sys::process::exe_path;

use crate::rivals::list::{Program, Rival};
use crate::rivals::output::version_in;

/// Names the folder with the programs that `make rivals` built.
const FOLDER: &str = "BAREWIRE_RIVALS";

/// The folder with the programs that `make rivals` built: the one that is named, or `rivals` beside the folder of this
/// executable.
pub fn folder() -> PathBuf {
    if let Some(named) = std::env::var_os(FOLDER) {
        return PathBuf::from(named);
    }
    let own = exe_path().unwrap_or_default();
    let target = own.parent().and_then(Path::parent);
    target.unwrap_or(Path::new(".")).join("rivals")
}

/// A program that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What to start.
    pub path: PathBuf,
    /// Name and version.
    pub version: String,
}

/// Looks for the program of a rival; why it cannot be used.
pub fn find(rival: &Rival, folder: &Path) -> Result<Found, String> {
    let (path, version) = match rival.program {
        Program::Packaged {
            name,
            package,
            version: (teller, arguments),
        } => {
            if say(Path::new(name), &["-h"]).is_none() {
                return Err(format!("{name}: not installed (apt-get install {package})"));
            }
            let text = say(Path::new(teller), arguments);
            let version = text.and_then(|text| version_in(&text));
            let version = version.unwrap_or_else(|| "of unknown version".to_owned());
            (PathBuf::from(name), version)
        }
        Program::Built { name, how } => {
            let path = folder.join(name);
            if !path.exists() {
                return Err(format!("{name}: not built ({how})"));
            }
            let text = say(&path, &["--version"]).unwrap_or_default();
            // Whoever cannot say that cannot run either: Java or MPI may have gone since it was built.
            let version =
                version_in(&text).ok_or_else(|| format!("{name}: does not start ({how})"))?;
            (path, version)
        }
    };
    Ok(Found {
        path,
        version: format!("{} {version}", rival.transport),
    })
}

/// What a program prints, whether it fails or not; nothing if there is no such program.
fn say(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::list::RIVALS;
    use crate::rivals::tests::Folder;

    fn rival(name: &str) -> &'static Rival {
        let mut all = RIVALS.iter();
        all.find(|it| it.program.name() == name).unwrap()
    }

    #[test]
    fn a_missing_program_is_noticed() {
        assert_eq!(say(Path::new("no-such-program-anywhere"), &["-h"]), None);
    }

    #[test]
    fn it_is_said_how_to_get_what_was_not_built() {
        let empty = Folder::new("empty");
        for (name, how) in [
            ("iceoryx2", "1.89"),
            ("aeron", "maven"),
            ("openmpi", "libopenmpi-dev"),
        ] {
            let why = find(rival(name), &empty.0).unwrap_err();
            assert!(
                why.starts_with(name) && why.contains("make rivals"),
                "{why}"
            );
            assert!(why.contains(how) && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn a_built_program_says_its_version() {
        let folder = Folder::new("version");
        folder.script("iceoryx2", "echo iceoryx2 0.10.0");
        folder.script("aeron", "exit 127");
        let found = find(rival("iceoryx2"), &folder.0).unwrap();
        assert_eq!(found.version, "iceoryx2 0.10.0");
        assert_eq!(found.path, folder.0.join("iceoryx2"));
        let why = find(rival("aeron"), &folder.0).unwrap_err();
        assert!(why.contains("does not start"), "{why}");
    }
}
