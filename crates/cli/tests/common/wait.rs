//! Waits with a deadline, for what other processes do.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::fmt::Display;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Asks for something until it is there, or no longer than `patience`; gives the last answer.
fn poll<T, E>(patience: Duration, mut ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if answer.is_ok() || begun.elapsed() > patience {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for something until it is there. An error says what is there in its place.
#[track_caller]
pub fn until<T, E: Display>(patience: Duration, ask: impl FnMut() -> Result<T, E>) -> T {
    match poll(patience, ask) {
        Ok(found) => found,
        Err(error) => panic!("after {patience:?}: {error}"),
    }
}

/// The end of a process, which is killed if it takes longer.
#[track_caller]
pub fn ended(child: &mut Child, patience: Duration) -> ExitStatus {
    let ended = poll(patience, || child.try_wait().expect("a child").ok_or(()));
    ended.unwrap_or_else(|()| {
        let _ = child.kill();
        panic!("it does not end within {patience:?}");
    })
}
