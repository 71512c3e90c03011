//! How it is measured.

use std::time::Duration;

/// How it is measured.
#[derive(Debug)]
pub struct Measurement {
    /// How TCP controls congestion.
    pub congestion: String,
    /// Of streams.
    pub time: Duration,
    /// Of events.
    pub run_time: Duration,
    /// Of all lines to builders.
    pub together_mbps: u64,
    /// Of what is compared for its processor time.
    pub alternations: usize,
}

impl Measurement {
    /// Tells what is being measured.
    pub fn say(&self, what: &str) {
        eprintln!("{what}");
    }
}
