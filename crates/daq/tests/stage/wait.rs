//! Waits with a deadline.

use std::time::{Duration, Instant};

/// Waits until a condition holds.
pub fn eventually(mut what: impl FnMut() -> String, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}
