//! The probe: for a few milliseconds, one cache line to and fro between the two
//! processes, to know how far apart their processors are at this moment.

use barewire_shm::region::Region;

use crate::error::Result;
use crate::measure::clock::Clock;
use crate::transport::limit::PingPong;

/// Bytes of the memory that the probe uses.
pub const PROBE_BYTES: usize = 4096;

/// Round trips between two looks at the clock.
const TURNS: u32 = 32;

/// One end of the probe.
#[derive(Debug)]
pub struct Probe(PingPong);

impl Probe {
    /// Over the region that both processes map for it.
    pub fn new(region: &Region) -> Result<Probe> {
        Ok(Probe(PingPong::new(region)?))
    }

    /// Measures for so long; the median round trip in nanoseconds.
    pub fn measure(&mut self, clock: &Clock, duration_ns: u64) -> Result<f64> {
        let duration = clock.of_nanoseconds(duration_ns);
        let warm_up = duration / 8;
        let mut turns: Vec<u64> = Vec::with_capacity(4096);
        // The server may still be on its way here: the first turn does not count.
        self.0.store(false);
        self.0.wait()?;
        let begin = Clock::cycles();
        let mut before = begin;
        loop {
            for _ in 0..TURNS {
                self.0.store(false);
                self.0.wait()?;
            }
            let now = Clock::cycles();
            let elapsed = now.wrapping_sub(begin);
            if elapsed >= warm_up || elapsed >= duration {
                turns.push(now.wrapping_sub(before));
            }
            before = now;
            if elapsed >= duration {
                break;
            }
        }
        self.0.store(true);
        self.0.wait()?;
        turns.sort_unstable();
        let median = turns.get(turns.len() / 2).copied().unwrap_or(0);
        Ok(clock.nanoseconds(median) / f64::from(TURNS))
    }

    /// Answers until the other side is done.
    pub fn serve(&mut self) -> Result<()> {
        loop {
            let done = self.0.wait()?;
            self.0.store(done);
            if done {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_probe_each_other() {
        crate::measure::spin::set_shared_processor(true);
        let region = Region::private(4096);
        let mut near = Probe::new(&region).unwrap();
        let mut far = Probe::new(&region).unwrap();
        let server = std::thread::spawn(move || far.serve());
        let took = near.measure(&Clock::calibrate(), 2_000_000).unwrap();
        server.join().unwrap().unwrap();
        assert!(took > 0.0);
    }
}
