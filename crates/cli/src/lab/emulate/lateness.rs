//! How late packets left, against the model's time; and the report.

use std::fmt::Write as _;
use std::time::Duration;

use barewire_report::number::time;
use barewire_testbed::emulation::Account;
use hdrhistogram::Histogram;

use crate::lab::error::{LabError, Result};

/// The longest time that is told apart, in ns.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Times, from a nanosecond up.
pub struct Times(Option<Histogram<u64>>);

impl Times {
    pub fn new() -> Self {
        // Bounds that a histogram can have.
        Self(Histogram::new_with_max(LONGEST_NS, 3).ok())
    }

    pub fn add(&mut self, time_ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(time_ns.max(1));
        }
    }

    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    fn quantile_ns(&self, quantile: f64) -> u64 {
        let histogram = self.0.as_ref();
        histogram.map_or(0, |it| it.value_at_quantile(quantile))
    }

    /// Half of them are at most so long, 99 of 100, and all.
    pub fn summary_ns(&self) -> [u64; 3] {
        [
            self.quantile_ns(0.5),
            self.quantile_ns(0.99),
            self.quantile_ns(1.0),
        ]
    }
}

/// What is told at the end.
pub struct Report {
    /// How long it ran, by the clock.
    pub ran: Duration,
    pub account: Account,
    /// Frames of the kernel that an emulated network does not carry.
    pub not_carried: u64,
    /// Packets that left the network, and that the kernel did not take.
    pub refused: u64,
    /// Packets that left, and how late: p50, p99, max.
    pub packets: u64,
    pub lateness_ns: [u64; 3],
    /// How late the loop woke up, against the time it asked for: p50, p99, max.
    pub overslept_ns: [u64; 3],
    pub bound: Duration,
    /// Bytes of those packets.
    pub packet_bytes: u64,
    /// What the network has counted: name and number.
    pub counts: Vec<(&'static str, u64)>,
}

impl Report {
    fn is_late(&self) -> bool {
        self.packets > 0 && Duration::from_nanos(self.lateness_ns[1]) > self.bound
    }

    /// What it says.
    pub fn to_text(&self) -> String {
        let of = |times: [u64; 3]| {
            let [p50, p99, max] = times.map(|ns| time(ns as f64));
            format!("p50 {p50}, p99 {p99}, max {max}")
        };
        let account = &self.account;
        let mut text = String::new();
        let rate = self.packet_bytes as f64 * 8.0 / self.ran.as_secs_f64().max(1e-9) / 1e6;
        // Text takes everything.
        let _ = writeln!(
            text,
            "ran {}; {:.2} Mbit/s of packets given out",
            time(self.ran.as_nanos() as f64),
            rate
        );
        let _ = writeln!(
            text,
            "packets: {} taken = {} given out + {} lost (queue full {}, too long {}, under way {}) + {} inside",
            account.taken,
            account.given,
            account.lost_queue_full + account.lost_too_long + account.lost_under_way,
            account.lost_queue_full,
            account.lost_too_long,
            account.lost_under_way,
            account.inside
        );
        let _ = writeln!(
            text,
            "beside them: {} frames that are not carried, {} packets that the kernel did not take back",
            self.not_carried, self.refused
        );
        let counts = self
            .counts
            .iter()
            .map(|(name, count)| format!("{count} {name}"));
        let _ = writeln!(
            text,
            "the network: {}",
            counts.collect::<Vec<_>>().join(", ")
        );
        let verdict = match (self.packets, self.is_late()) {
            (0, _) => "no packet to judge by",
            (_, false) => "valid",
            (_, true) => "INVALID",
        };
        let _ = writeln!(
            text,
            "lateness of {} packets: {}; bound {} at p99: {verdict}",
            self.packets,
            of(self.lateness_ns),
            time(self.bound.as_nanos() as f64)
        );
        let _ = writeln!(text, "the loop woke up late by: {}", of(self.overslept_ns));
        text
    }

    /// Whether the run counts.
    pub fn verdict(&self) -> Result<()> {
        if !self.is_late() {
            return Ok(());
        }
        Err(LabError::Late {
            p99: time(self.lateness_ns[1] as f64),
            bound: time(self.bound.as_nanos() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(p99_us: u64, packets: u64) -> Report {
        Report {
            ran: Duration::from_secs(2),
            account: Account {
                taken: 10,
                given: 7,
                lost_queue_full: 1,
                lost_too_long: 1,
                lost_under_way: 1,
                inside: 0,
            },
            not_carried: 3,
            refused: 0,
            packets,
            lateness_ns: [20_000, p99_us * 1000, 900_000],
            overslept_ns: [1, 2, 3],
            bound: Duration::from_micros(250),
            packet_bytes: 1_000_000,
            counts: vec![("cells sent", 12), ("cells lost on the line", 1)],
        }
    }

    #[test]
    fn a_late_run_is_invalid() {
        let good = report(250, 7);
        assert!(good.verdict().is_ok());
        let text = good.to_text();
        assert!(
            text.contains("10 taken = 7 given out + 3 lost") && text.contains(": valid"),
            "{text}"
        );
        assert!(text.contains("4.00 Mbit/s"), "{text}");
        assert!(
            text.contains("the network: 12 cells sent, 1 cells lost on the line"),
            "{text}"
        );
        let late = report(251, 7);
        assert!(late.to_text().contains("INVALID"));
        let error = late.verdict().expect_err("too late").to_string();
        assert!(error.contains("the run is invalid"), "{error}");
        assert!(report(251, 0).verdict().is_ok());
    }

    #[test]
    fn times_have_their_percentiles() {
        let mut times = Times::new();
        for us in 1..=100 {
            times.add(us * 1000);
        }
        let [p50, p99, max] = times.summary_ns();
        assert_eq!(times.count(), 100);
        assert!((50_000..=50_100).contains(&p50) && (99_000..=99_100).contains(&p99));
        assert!((100_000..=100_100).contains(&max));
    }
}
