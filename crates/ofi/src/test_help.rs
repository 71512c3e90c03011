//! What tests need: to say that they are skipped.

use std::io::Write as _;

/// Says that a test can not run here.
pub(crate) fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new();
        let log = log.append(true).create(true).open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
