//! What cases of all suites need: waits with a deadline, results that must be good, bytes.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::fabric::FabricUnderTest;

/// Waits for a condition.
///
/// # Panics
/// If it does not come true within the fabric's patience.
#[track_caller]
pub(crate) fn eventually<F: FabricUnderTest>(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < F::PATIENCE, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// The value of a result that must be good.
#[track_caller]
pub(crate) fn good<T, E: Debug>(result: Result<T, E>) -> T {
    result.expect("the fabric refused what it must allow")
}

/// Tells the threads of a case that it is over, however it ended, when it is dropped.
pub(crate) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for a condition in a thread beside the case; `false` if the case is over.
pub(crate) fn unless_over(over: &AtomicBool, mut condition: impl FnMut() -> bool) -> bool {
    while !condition() {
        if over.load(Ordering::SeqCst) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Whether a call panics.
pub(crate) fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Bytes that differ from place to place and from seed to seed.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = barewire_units::Rng::from_seed(seed);
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        let word = rng.next_u64().to_ne_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}
