//! What a run has found.

use barewire_proto::evb::Ledger;
use barewire_units::Duration;

use crate::experiment::LinkCapture;

/// What a run has found.
pub struct Found {
    /// From the first trigger to the last, or to the last event that was built.
    pub measured: Duration,
    /// Events built in that time, and what they took of the wire.
    pub built: u64,
    pub built_wire_bytes: u64,
    pub bottleneck_bps: f64,
    /// From trigger to built, in ps, in ascending order; of events after the first quarter.
    pub building_ps: Vec<u64>,
    /// Frames lost at each port.
    pub port_lost: Vec<u64>,
    pub port_highest_bytes: u64,
    pub source_highest_bytes: u64,
    /// Fragments that the switch has lost a frame of, and that were not repeated.
    pub fragments_lost: u64,
    pub segments_repeated: u64,
    /// The accounts of all parts; they balance.
    pub ledger: Ledger,
    pub links: Vec<LinkCapture>,
    pub hash: u64,
}

impl Found {
    pub fn frames_lost(&self) -> u64 {
        self.port_lost.iter().sum()
    }

    fn seconds(&self) -> Option<f64> {
        (!self.measured.is_zero()).then(|| self.measured.as_ps() as f64 * 1e-12)
    }

    pub fn events_per_s(&self) -> Option<f64> {
        Some(self.built as f64 / self.seconds()?)
    }

    pub fn share_per_cent(&self) -> Option<f64> {
        let bps = self.built_wire_bytes as f64 * 8.0 / self.seconds()?;
        Some(bps * 100.0 / self.bottleneck_bps)
    }

    /// The mean time from trigger to built, in ms.
    pub fn building_mean_ms(&self) -> Option<f64> {
        let sum: f64 = self.building_ps.iter().map(|&ps| ps as f64).sum();
        let count = self.building_ps.len();
        (count > 0).then(|| sum * 1e-9 / count as f64)
    }

    /// The time that so many of 1000 events do not exceed, in ms.
    pub fn building_ms(&self, per_mille: usize) -> Option<f64> {
        let last = self.building_ps.len().checked_sub(1)?;
        let at = (self.building_ps.len() * per_mille).div_ceil(1_000);
        let at = at.saturating_sub(1).min(last);
        Some(self.building_ps[at] as f64 * 1e-9)
    }

    pub fn incomplete_per_cent(&self) -> f64 {
        let events = &self.ledger.events;
        events.incomplete as f64 * 100.0 / events.triggered as f64
    }
}
