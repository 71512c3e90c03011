//! The PCI bus: one transfer at a time, in bursts with an overhead each.

use barewire_units::{ByteSize, Duration, Instant};

use crate::parameters::Cycles;

crate::parameters! {
    /// A PCI bus and what a master can do on it.
    #[derive(Copy, PartialEq, Eq)]
    pub struct PciConfig {
        /// A clock cycle.
        pub cycle: Duration,
        /// The longest burst.
        pub burst: ByteSize,
        /// A burst without data: arbitration, address, the bridge's first word.
        pub overhead_cycles: Cycles,
    }
}

impl PciConfig {
    /// Time for `bytes` on a bus with `width_bytes` in a data phase.
    #[must_use]
    pub fn time(&self, width_bytes: u64, bytes: u64) -> Duration {
        let bursts = bytes.div_ceil(self.burst.as_bytes().max(1));
        let words = bytes.div_ceil(width_bytes.max(1));
        self.cycle * (words + bursts * self.overhead_cycles.0)
    }
}

/// The bus.
#[derive(Clone, Debug)]
pub struct Pci {
    config: PciConfig,
    width_bytes: u64,
    free_at: Instant,
}

impl Pci {
    /// An idle bus with `width_bytes` in a data phase: 4 or 8.
    #[must_use]
    pub const fn new(config: PciConfig, width_bytes: u64) -> Self {
        Self {
            config,
            width_bytes,
            free_at: Instant::ORIGIN,
        }
    }

    /// Moves `bytes` as soon as the bus is free, and says when they will be there.
    pub fn begin(&mut self, now: Instant, bytes: u64) -> Instant {
        let time = self.config.time(self.width_bytes, bytes);
        self.free_at = self.free_at.max(now).saturating_add(time);
        self.free_at
    }
}
