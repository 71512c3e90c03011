//! What the tests share: waits with a deadline, and children that live until they are killed.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::time::{Duration, Instant};

use barewire_sys::process::{ForkedChild, fork_child};

/// Long enough for anything that is not stuck.
pub const LONG: Duration = Duration::from_secs(20);

/// Whether a condition holds before [`LONG`] has passed.
pub fn holds_soon(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < LONG {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Waits until a condition holds.
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_soon(holds), "not so after {LONG:?}: {what}");
}

/// Lives for longer than any test, unless it is killed.
pub fn sleep_long() -> i32 {
    std::thread::sleep(3 * LONG);
    0
}

/// A child that does nothing.
pub fn fork_sleeper() -> ForkedChild {
    fork_child(sleep_long).unwrap()
}
