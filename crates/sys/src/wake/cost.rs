//! How long it takes to wake a sleeping thread on this machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::EventFd;

/// Assumed where it cannot be measured.
const TYPICAL: Duration = Duration::from_micros(10);

/// How long measuring may take.
const BUDGET: Duration = Duration::from_micros(1500);

/// Round trips at most, the first of which only warms up.
const ROUNDS: usize = 32;

/// The median time from signalling an eventfd to the thread that slept on it
/// running again. Measured once per process, in at most 2 ms or so of round
/// trips between two threads; where that fails, 10 µs.
pub fn wake_cost() -> Duration {
    static COST: OnceLock<Duration> = OnceLock::new();
    *COST.get_or_init(|| measure().unwrap_or(TYPICAL))
}

fn measure() -> Option<Duration> {
    let there = Arc::new(EventFd::new().ok()?);
    let back = Arc::new(EventFd::new().ok()?);
    let stop = Arc::new(AtomicBool::new(false));
    let echo = {
        let (there, back, stop) = (there.clone(), back.clone(), stop.clone());
        let body = move || {
            // Pairs with the Release store below.
            while sleep_on(&there, Duration::from_secs(1)) && !stop.load(Ordering::Acquire) {
                let _ = back.signal();
            }
        };
        std::thread::Builder::new()
            .name("barewire-wake".into())
            .spawn(body)
            .ok()?
    };
    let mut samples = round_trips(&there, &back);
    // Pairs with the Acquire load above: what wakes it from now on is the end.
    stop.store(true, Ordering::Release);
    let _ = there.signal();
    let _ = echo.join();
    if samples.len() > 1 {
        samples.remove(0);
    }
    samples.sort_unstable();
    samples.get(samples.len() / 2).map(|round| *round / 2)
}

fn round_trips(there: &EventFd, back: &EventFd) -> Vec<Duration> {
    let mut samples = Vec::with_capacity(ROUNDS);
    let end = Instant::now() + BUDGET;
    while samples.len() < ROUNDS {
        let start = Instant::now();
        if start >= end || there.signal().is_err() || !sleep_on(back, end - start) {
            break;
        }
        samples.push(start.elapsed());
    }
    samples
}

/// Sleeps until signalled; false if that takes longer than `longest`.
fn sleep_on(event: &EventFd, longest: Duration) -> bool {
    let mut fds = [PollFd::new(event, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    };
    let ready = rustix::event::poll(&mut fds, Some(&timeout));
    ready.is_ok_and(|n| n > 0) && event.drain().is_ok_and(|n| n > 0)
}
