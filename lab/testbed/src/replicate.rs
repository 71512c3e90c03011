//! Independent replications and sweeps, on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs `run(index)` for every index below `count` on all processors, and gives
/// the results in the order of the indices. Each run must be a function of its
/// index alone (a seed forked by it, a point of a sweep), and then the results do
/// not depend on how many processors there are or on who was faster.
///
/// A panic in a run ends the others and goes on in the caller.
pub fn replicate<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let workers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(count);
    let next = AtomicUsize::new(0);
    let results = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    // Relaxed: the index is all that is shared; results go through the lock.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = run(index);
                    if let Ok(mut results) = results.lock() {
                        results[index] = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_faster() {
        let results = replicate(100, |index| {
            let spins = (100 - index) * 200;
            (0..spins).fold(index, |sum, _| std::hint::black_box(sum))
        });
        assert_eq!(results, (0..100).collect::<Vec<_>>());
        assert!(replicate(0, |index| index).is_empty());
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_not_swallowed() {
        replicate(10, |index| assert!(index != 5));
    }
}
