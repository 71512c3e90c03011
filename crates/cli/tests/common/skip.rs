//! A test that can not run here says why, and counts as skipped.

use std::io::Write;

/// Tells why the test `name` does not run here.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        writeln!(log.unwrap(), "{line}").unwrap();
    }
}
