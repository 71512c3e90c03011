//! Waits with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Asks for something until it is there; `None` if it was not before `patience` was over.
pub fn poll<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + patience;
    loop {
        let found = ask();
        if found.is_some() || Instant::now() > until {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
