//! The clock of the hot loops: a cheap counter, and what one of its steps is worth.

use std::time::{Duration, Instant};

/// The counter of [`barewire_sys::clock::cycles`] with its measured rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    picoseconds_per_cycle: f64,
    granularity: u64,
}

impl Clock {
    /// Measures the counter against the monotonic clock for a few milliseconds.
    pub fn calibrate() -> Clock {
        let mut rates: Vec<f64> = (0..3)
            .map(|_| {
                let (start, cycles) = (Instant::now(), Clock::cycles());
                while start.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                let (cycles, time) = (Clock::cycles().wrapping_sub(cycles), start.elapsed());
                time.as_nanos() as f64 * 1000.0 / (cycles.max(1) as f64)
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        Clock {
            picoseconds_per_cycle: rates[1],
            granularity: granularity(),
        }
    }

    /// The step in which the counter advances: on some processors it is tens of cycles,
    /// a tenth of the shortest round trips.
    pub fn granularity(&self) -> u64 {
        self.granularity
    }

    /// The counter.
    #[inline(always)]
    pub fn cycles() -> u64 {
        barewire_sys::clock::cycles()
    }

    /// Cycles in nanoseconds.
    pub fn nanoseconds(&self, cycles: u64) -> f64 {
        cycles as f64 * self.picoseconds_per_cycle / 1000.0
    }

    /// Cycles and parts of one in nanoseconds.
    pub fn fractional_nanoseconds(&self, cycles: f64) -> f64 {
        cycles * self.picoseconds_per_cycle / 1000.0
    }

    /// Cycles in whole picoseconds.
    pub fn picoseconds(&self, cycles: u64) -> u64 {
        (cycles as f64 * self.picoseconds_per_cycle) as u64
    }

    /// Nanoseconds in cycles.
    pub fn of_nanoseconds(&self, nanoseconds: u64) -> u64 {
        (nanoseconds as f64 * 1000.0 / self.picoseconds_per_cycle) as u64
    }
}

fn granularity() -> u64 {
    let reads: Vec<u64> = (0..4096).map(|_| Clock::cycles()).collect();
    let mut steps: Vec<u64> = reads
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .filter(|&step| step > 0)
        .collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibrated_clock_measures_time() {
        let clock = Clock::calibrate();
        let (start, cycles) = (Instant::now(), Clock::cycles());
        std::thread::sleep(Duration::from_millis(20));
        let by_cycles = clock.nanoseconds(Clock::cycles() - cycles);
        let by_clock = start.elapsed().as_nanos() as f64;
        assert!(
            (by_cycles / by_clock - 1.0).abs() < 0.1,
            "{by_cycles} {by_clock}"
        );
        let there_and_back = clock.nanoseconds(clock.of_nanoseconds(1_000_000));
        assert!((there_and_back - 1e6).abs() < 1e3);
    }
}
