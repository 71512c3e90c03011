//! What the operations of a host take.

use barewire_units::{ByteSize, Duration};

/// The way of the data between program and card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// One copy, checksum on the way.
    SingleCopy,
    /// A copy to or from the kernel's buffers, a pass to sum, a copy to or from the card.
    Conventional,
}

crate::parameters! {
    /// Times of a host's operations. A unit is what the block mover moves in one operation,
    /// and a line of the cache.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Costs {
        /// Into the kernel and back.
        pub system_call: Duration,
        /// From asleep to running.
        pub context_switch: Duration,
        /// Taking an interrupt.
        pub interrupt: Duration,
        /// TCP, IP and driver for a segment to send.
        pub segment_output: Duration,
        /// Driver, IP and TCP for a segment that came in.
        pub segment_input: Duration,
        /// The same for an acknowledgement to send.
        pub acknowledgement_output: Duration,
        /// The same for an acknowledgement that came in.
        pub acknowledgement_input: Duration,
        /// Size of a unit.
        pub unit: ByteSize,
        /// A unit from the cache to the card, summed.
        pub store: Duration,
        /// A unit from the card to memory: the block mover.
        pub move_in: Duration,
        /// Taking a unit's line out of the cache, which the block mover goes past.
        pub purge: Duration,
        /// A unit from memory to memory.
        pub copy: Duration,
        /// Reading a unit from memory to sum it.
        pub sum: Duration,
    }
}

impl Costs {
    /// The socket layer takes data from the program.
    #[must_use]
    pub fn copy_from_program(&self, stack: Stack, bytes: u64) -> Duration {
        match stack {
            Stack::SingleCopy => self.units(bytes, self.store),
            Stack::Conventional => self.units(bytes, self.copy),
        }
    }

    /// TCP, IP and driver send a segment.
    #[must_use]
    pub fn output(&self, stack: Stack, bytes: u64) -> Duration {
        self.segment_output.saturating_add(match stack {
            Stack::SingleCopy => Duration::ZERO,
            Stack::Conventional => self.units(bytes, self.sum.saturating_add(self.store)),
        })
    }

    /// Driver, IP and TCP take in a segment.
    #[must_use]
    pub fn input(&self, stack: Stack, bytes: u64) -> Duration {
        self.segment_input.saturating_add(match stack {
            Stack::SingleCopy => Duration::ZERO,
            Stack::Conventional => self.units(bytes, self.card_unit().saturating_add(self.sum)),
        })
    }

    /// The socket layer gives data to the program.
    #[must_use]
    pub fn copy_to_program(&self, stack: Stack, bytes: u64) -> Duration {
        match stack {
            Stack::SingleCopy => self.units(bytes, self.card_unit()),
            Stack::Conventional => self.units(bytes, self.copy),
        }
    }

    fn card_unit(&self) -> Duration {
        self.move_in.saturating_add(self.purge)
    }

    fn units(&self, bytes: u64, each: Duration) -> Duration {
        let units = bytes.div_ceil(self.unit.as_bytes().max(1));
        each.checked_mul(units).unwrap_or(Duration::MAX)
    }
}
