//! Waits with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Asks every `step` for something; `None` if it was not there at `deadline`.
pub(crate) fn poll_until<T>(
    deadline: Instant,
    step: Duration,
    mut poll: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        let found = poll();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(step);
    }
}

/// Waits until something is so; `what` is for the message.
///
/// # Panics
/// If it is not within `limit_s` seconds.
#[track_caller]
pub(crate) fn until(limit_s: u64, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(limit_s);
    let came = poll_until(deadline, Duration::from_millis(10), || {
        is_so().then_some(())
    });
    assert!(came.is_some(), "waited {limit_s} s for {what}");
}
