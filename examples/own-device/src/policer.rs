//! The device: two ports, and a bucket for each direction that fills at a rate. A frame for which
//! the bucket holds enough goes on at once, or as soon as the line is free; any other is lost.

use std::collections::VecDeque;

use barewire_testbed::network::{Desk, Device, Frame, Wrong};
use barewire_units::{ByteSize, Instant, Rate};
use toml::Table;

/// Frames that wait for a busy line, in each direction.
const WAITING_MAX: usize = 64;

/// A bucket that fills at a rate.
struct Bucket {
    rate: Rate,
    burst_bytes: u64,
    held_bytes: u64,
    since: Instant,
}

impl Bucket {
    /// Takes so many bytes out, if they are there.
    fn take(&mut self, now: Instant, bytes: u64) -> bool {
        let time = now.saturating_duration_since(self.since);
        let filled = self.rate.bytes_in(time).as_bytes();
        if filled > 0 {
            // Below a byte, time is kept and not rounded away.
            self.held_bytes = self.burst_bytes.min(self.held_bytes.saturating_add(filled));
            self.since = now;
        }
        if bytes > self.held_bytes {
            return false;
        }
        self.held_bytes -= bytes;
        true
    }
}

/// The device.
pub struct Policer {
    buckets: [Bucket; 2],
    waiting: [VecDeque<Frame>; 2],
    passed: u64,
    refused: u64,
}

impl Policer {
    /// A policer from the keys of its table: `rate` and `burst`.
    ///
    /// # Errors
    ///
    /// A key that is missing, unknown or no such quantity, or another number of ports than two.
    pub fn new(ports: usize, keys: &Table) -> Result<Self, Wrong> {
        let wrong = |key: &str, problem: &str| Wrong {
            key: key.to_owned(),
            problem: problem.to_owned(),
        };
        if ports != 2 {
            return Err(wrong("ports", "a policer has two ports"));
        }
        if let Some(other) = keys
            .keys()
            .find(|key| !["rate", "burst"].contains(&key.as_str()))
        {
            return Err(wrong(other, "no such key; expected `rate` and `burst`"));
        }
        let rate = keys.get("rate").and_then(|value| value.as_str());
        let rate: Option<Rate> = rate.and_then(|text| text.parse().ok());
        let rate = rate.ok_or_else(|| wrong("rate", "expected a rate, as in \"100 Mbit/s\""))?;
        let burst = keys.get("burst").and_then(|value| value.as_str());
        let burst: Option<ByteSize> = burst.and_then(|text| text.parse().ok());
        let burst = burst.ok_or_else(|| wrong("burst", "expected a size, as in \"16 KiB\""))?;
        let bucket = || Bucket {
            rate,
            burst_bytes: burst.as_bytes(),
            held_bytes: burst.as_bytes(),
            since: Instant::ORIGIN,
        };
        Ok(Self {
            buckets: [bucket(), bucket()],
            waiting: [VecDeque::new(), VecDeque::new()],
            passed: 0,
            refused: 0,
        })
    }
}

impl Device for Policer {
    fn frame(&mut self, port: usize, frame: Frame, desk: &mut Desk<'_>) {
        let to = 1 - port;
        let bytes = desk.bytes(to, &frame);
        let room = self.waiting[to].len() < WAITING_MAX;
        if !room || !self.buckets[port].take(desk.now(), bytes) {
            self.refused += 1;
            desk.lose(frame);
            return;
        }
        self.passed += 1;
        if desk.is_free(to) {
            desk.send(to, frame);
        } else {
            self.waiting[to].push_back(frame);
        }
    }

    fn sent(&mut self, port: usize, desk: &mut Desk<'_>) {
        if let Some(frame) = self.waiting[port].pop_front() {
            desk.send(port, frame);
        }
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("frames passed", self.passed as f64),
            ("frames refused", self.refused as f64),
        ]
    }
}
