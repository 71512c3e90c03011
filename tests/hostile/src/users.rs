//! Whether attackers of other users can be had here, and how a test says that they can not.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use barewire_sys::process::{SpawnOpts, own_credentials, spawn_with};

/// A user that is nobody in particular.
pub const OTHER: u32 = 60_001;

/// Why `program` can not be run as another user, if so.
#[must_use]
pub fn why_not(program: &str) -> Option<&'static str> {
    if own_credentials().uid != 0 {
        return Some("needs root, to become another user");
    }
    let mut command = Command::new(program);
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
            Some("other users can not run what was built here: the folder is private")
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
