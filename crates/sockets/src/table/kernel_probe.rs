//! Occasional sends over the kernel connection although the byte ring has room.
//!
//! Firewall rules, and an interface that is set down, act on what the kernel carries. So while a direction
//! is busy in the byte ring, one send in each [`EVERY_NS`] goes over the kernel connection. The receiver
//! reads nothing behind it until the kernel has delivered it. Where the kernel drops packets, the stream
//! stops, in order, and goes on when the kernel's retransmission gets through. Where a rule answers with a
//! reset, the connection ends.
//!
//! This is not done for Unix sockets, which no rule concerns. Nor is it needed while the receiver sleeps:
//! what wakes it goes over the kernel connection.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::process::clock;
use crate::process::words::Guarded;

/// The longest time that a busy direction stays in the ring.
const EVERY_NS: u64 = 500_000_000;
/// A send in answer to something looks at the clock once in so many: that costs about as much as the rest
/// of what it does beside its copy.
const SENDS: u32 = 16;

/// When a direction last used the kernel connection, under its send lock.
#[repr(C)]
pub struct Probe {
    /// The last send over the kernel connection, by [`clock::tick_ns`].
    kernel_ns: Guarded<AtomicU64>,
    /// Sends since the last look at the clock.
    sends: Guarded<AtomicU32>,
}

impl Probe {
    /// As at the beginning.
    pub fn forget(&self) {
        self.kernel_ns.set(0);
        self.sends.set(0);
    }

    /// Counts a send. Whether it is to ask [`Probe::is_due`], which looks at the clock.
    #[inline]
    pub fn must_be_timed(&self) -> bool {
        let sends = self.sends.get() + 1;
        self.sends.set(sends % SENDS);
        sends == SENDS
    }

    /// Whether this send is to go over the kernel connection.
    pub fn is_due(&self) -> bool {
        let kernel_ns = self.kernel_ns.get();
        clock::tick_ns().saturating_sub(kernel_ns) >= EVERY_NS
    }

    /// Bytes went over the kernel connection.
    pub fn sent_by_kernel(&self) {
        self.kernel_ns.set(clock::tick_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_send_of_some_looks_at_the_clock() {
        let probe = Probe {
            kernel_ns: Guarded::new(AtomicU64::new(7)),
            sends: Guarded::new(AtomicU32::new(7)),
        };
        probe.forget();
        let timed: Vec<_> = (1..=40).filter(|_| probe.must_be_timed()).collect();
        assert_eq!(timed, [16, 32]);
    }
}
