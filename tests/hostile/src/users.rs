//! Whether attackers of other users can be had here, and how a test says that they can not.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use barewire_sys::process::{SpawnOpts, own_credentials, spawn_with};

/// A user that is nobody in particular.
pub const OTHER: u32 = 60_001;

/// A name under which other users can run `program` too. The folder in which it was built
/// may be closed to them (below `/root`, for instance); a descriptor of the file is not.
/// It stays open as long as this process runs, and is not handed on to what is run.
///
/// # Panics
/// The program is not there.
#[must_use]
pub fn program(program: &str) -> PathBuf {
    static OPEN: Mutex<Vec<(String, File)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = open.iter().position(|(name, _)| name == program);
    let at = known.unwrap_or_else(|| {
        let file = File::open(program).unwrap_or_else(|error| panic!("{program}: {error}"));
        open.push((program.to_owned(), file));
        open.len() - 1
    });
    format!("/proc/self/fd/{}", open[at].1.as_raw_fd()).into()
}

/// Why `program` can not be run as another user, if so.
#[must_use]
pub fn why_not(program: &str) -> Option<&'static str> {
    if own_credentials().uid != 0 {
        return Some("needs root, to become another user");
    }
    let mut command = Command::new(self::program(program));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let opts = SpawnOpts {
        uid_gid: Some((OTHER, OTHER)),
        ..SpawnOpts::default()
    };
    match spawn_with(&mut command, opts) {
        Ok(mut child) => {
            let _ = child.wait();
            None
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Some("other users can not run what was built here: its mode is private")
        }
        Err(_) => Some("no process of another user can be started here"),
    }
}

/// Notes that a test did not do what it is for, where `scripts/test.sh` looks.
pub fn skip(test: &str, reason: &str) {
    println!("SKIPPED: {test}: {reason}");
    let Ok(log) = std::env::var("BAREWIRE_SKIP_LOG") else {
        return;
    };
    let mut options = std::fs::OpenOptions::new();
    if let Ok(mut file) = options.append(true).create(true).open(log) {
        // A log that can not be written to is no reason to fail.
        let _ = writeln!(file, "SKIPPED: {test}: {reason}");
    }
}
