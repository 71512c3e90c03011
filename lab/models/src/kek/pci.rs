//! The PCI bus: one transfer at a time, in bursts with an overhead each.

use barewire_units::{Duration, Instant};

/// A PCI bus and what a master can do on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciConfig {
    /// A clock cycle.
    pub cycle: Duration,
    /// Bytes in a data phase: 4 or 8.
    pub width_bytes: u64,
    /// Bytes in a burst.
    pub burst_bytes: u64,
    /// Cycles of a burst without data: arbitration, address, the bridge's first word.
    pub overhead_cycles: u64,
}

impl PciConfig {
    /// Time on the bus for `bytes`.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Duration {
        let bursts = bytes.div_ceil(self.burst_bytes.max(1));
        let words = bytes.div_ceil(self.width_bytes.max(1));
        self.cycle * (words + bursts * self.overhead_cycles)
    }
}

/// The bus.
#[derive(Clone, Debug)]
pub struct Pci {
    config: PciConfig,
    free_at: Instant,
}

impl Pci {
    /// An idle bus.
    #[must_use]
    pub const fn new(config: PciConfig) -> Self {
        Self {
            config,
            free_at: Instant::ORIGIN,
        }
    }

    /// Moves `bytes` as soon as the bus is free, and says when they will be there.
    pub fn begin(&mut self, now: Instant, bytes: u64) -> Instant {
        self.free_at = self
            .free_at
            .max(now)
            .saturating_add(self.config.time(bytes));
        self.free_at
    }
}
