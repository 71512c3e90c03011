//! What one process measures by itself: system calls, copies, sums.

use std::hint::black_box;
use std::time::Instant;

use barewire_bench::copy::copy_ns;

use super::figures::{Figure, SAMPLES};

/// Nanoseconds that `operations` calls of `what` take, for each of them, in several samples.
fn each_ns(operations: u32, mut what: impl FnMut()) -> Vec<f64> {
    let mut sample = || {
        let began = Instant::now();
        for _ in 0..operations {
            what();
        }
        began.elapsed().as_nanos() as f64 / f64::from(operations)
    };
    // The first fills caches and faults pages in.
    sample();
    (0..SAMPLES).map(|_| sample()).collect()
}

/// A system call that does next to nothing, in nanoseconds.
pub(super) fn system_call() -> Vec<f64> {
    each_ns(50_000, || {
        black_box(rustix::process::getppid());
    })
}

/// The sum over a KiB that is in the cache, in nanoseconds.
pub(super) fn checksum() -> Vec<f64> {
    let bytes = vec![0x5a_u8; 16 << 10];
    let sums = each_ns(5_000, || {
        black_box(barewire_wire::checksum::checksum(black_box(&bytes)));
    });
    sums.iter().map(|ns| ns / 16.0).collect()
}

/// A copy of a line, in nanoseconds: the least that a copy takes.
pub(super) fn short_copy() -> Vec<f64> {
    let from = [0x5a_u8; 64];
    let mut to = [0_u8; 64];
    each_ns(200_000, || {
        let length = black_box(from.len());
        to[..length].copy_from_slice(&black_box(&from)[..length]);
        black_box(&mut to);
    })
}

/// Rates of copies.
#[derive(Debug)]
pub(super) struct Copies {
    pub cached: Option<Figure>,
    pub beyond: Option<Figure>,
    /// The longest message that is copied nearer to the first rate than to the second.
    pub cache_bytes: Option<u64>,
}

/// Sizes that are tried, and of them those that are surely within and beyond a cache.
const WITHIN: usize = 64 << 10;
const BEYOND: usize = 128 << 20;

/// Copies of messages of 64 KiB, of twice that, and so on.
pub(super) fn copies() -> Copies {
    let from = vec![0x5a_u8; BEYOND];
    let mut to = vec![0_u8; BEYOND];
    let mut rates = |size: usize| -> Vec<f64> {
        let ns = copy_ns(&from[..size], &mut to[..size], SAMPLES);
        ns.iter().map(|ns| size as f64 * 8e9 / ns).collect()
    };
    let cached = Figure::of(&rates(WITHIN));
    let beyond = Figure::of(&rates(BEYOND));
    let (Some(fast), Some(slow)) = (cached, beyond) else {
        return Copies {
            cached,
            beyond,
            cache_bytes: None,
        };
    };
    let between = (fast.median * slow.median).sqrt();
    let sizes = std::iter::successors(Some(WITHIN * 2), |size| Some(size * 2));
    let tried = sizes.take_while(|&size| size < BEYOND);
    let mut fits = WITHIN;
    for size in tried {
        let rate = Figure::of(&rates(size)).map_or(0.0, |rate| rate.median);
        if rate < between {
            break;
        }
        fits = size;
    }
    Copies {
        cached,
        beyond,
        cache_bytes: Some(fits as u64),
    }
}
