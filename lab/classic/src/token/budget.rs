//! The time of one rotation, and whether the synchronous allotments fit into it:
//! Σ SA + D_max + F_max + token ≤ TTRT.
//!
//! Source: iso9314-2; jet93, T_transmit = TTRT − T_prop = T_asynch + T_synch + T_overrun.

use barewire_formats::jetstream::{CONTROL_BYTES, FRAME_BYTES_MAX, RATE_BPS};
use barewire_units::{ByteSize, Duration, Rate};
use thiserror::Error;

/// What a ring is planned for. All stations of a ring have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Target token rotation time.
    pub ttrt: Duration,
    /// Rate of the link.
    pub rate: Rate,
    /// D_max: longest time once round an idle ring, fibre and stations.
    pub ring_latency: Duration,
    /// Longest frame that a station may send.
    pub frame_bytes_max: usize,
}

/// The allotments do not fit: their sum and all else is longer than TTRT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "synchronous {synchronous} + ring {ring_latency} + overrun {overrun} + token {token} \
     is more than TTRT {ttrt}"
)]
pub struct Refused {
    /// Σ SA.
    pub synchronous: Duration,
    /// D_max.
    pub ring_latency: Duration,
    /// F_max.
    pub overrun: Duration,
    /// Time to send a token.
    pub token: Duration,
    /// What there is.
    pub ttrt: Duration,
}

impl Budget {
    /// Delay of a metre of fibre.
    pub const FIBRE_PER_METRE: Duration = Duration::from_ns(5);
    /// Delay of a station as the paper budgets it; it measured 300 ns.
    pub const STATION_LATENCY: Duration = Duration::from_us(1);

    /// The ring of the paper: 1 km, 16 stations of 1 µs, TTRT 1 ms, 960 Mbit/s, any AAL5 PDU.
    #[must_use]
    pub fn jetstream() -> Self {
        Self {
            ttrt: Duration::from_ms(1),
            rate: Rate::from_bps(RATE_BPS),
            ring_latency: Self::FIBRE_PER_METRE * 1_000 + Self::STATION_LATENCY * 16,
            frame_bytes_max: FRAME_BYTES_MAX,
        }
    }

    /// Time to send `bytes`.
    #[must_use]
    pub fn time(&self, bytes: usize) -> Duration {
        self.rate
            .checked_time_to_send(ByteSize::from_bytes(bytes as u64))
            .unwrap_or(Duration::MAX)
    }

    /// F_max: time to send the longest frame.
    #[must_use]
    pub fn overrun(&self) -> Duration {
        self.time(self.frame_bytes_max)
    }

    /// What is left of TTRT for synchronous traffic.
    #[must_use]
    pub fn synchronous_room(&self) -> Duration {
        self.ttrt
            .saturating_sub(self.ring_latency)
            .saturating_sub(self.overrun())
            .saturating_sub(self.time(CONTROL_BYTES))
    }

    /// Whether stations with these `allotments` may share a ring.
    ///
    /// # Errors
    /// [`Refused`], with every term of the sum.
    pub fn admit(&self, allotments: &[Duration]) -> Result<(), Refused> {
        let sum = |all: &[Duration]| all.iter().fold(Duration::ZERO, |a, b| a.saturating_add(*b));
        let refused = Refused {
            synchronous: sum(allotments),
            ring_latency: self.ring_latency,
            overrun: self.overrun(),
            token: self.time(CONTROL_BYTES),
            ttrt: self.ttrt,
        };
        let terms = [
            refused.synchronous,
            refused.ring_latency,
            refused.overrun,
            refused.token,
        ];
        if sum(&terms) <= self.ttrt {
            Ok(())
        } else {
            Err(refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_figures_of_the_paper() {
        let budget = Budget::jetstream();
        assert_eq!(budget.ring_latency, Duration::from_us(21));
        assert_eq!(budget.overrun().as_ns(), 546_466);
        assert!(budget.overrun() < Duration::from_us(700));
        // With the 700 µs that the paper rounds to: 300 µs, or 279 µs less the ring itself.
        let bytes_700_us = budget.rate.bytes_in(Duration::from_us(700));
        let rounded = Budget {
            frame_bytes_max: bytes_700_us.as_usize().expect("fits"),
            ..budget
        };
        let no_ring = Budget {
            ring_latency: Duration::ZERO,
            ..rounded
        };
        let token = budget.time(CONTROL_BYTES);
        assert_eq!(rounded.synchronous_room(), Duration::from_us(279) - token);
        assert_eq!(no_ring.synchronous_room(), Duration::from_us(300) - token);
        // 300 µs of each millisecond: «about 300 Mbit/s».
        let bytes_each_ms = budget.rate.bytes_in(Duration::from_us(300)).as_bytes();
        assert_eq!(bytes_each_ms * 8 * 1_000, 288_000_000);
    }

    #[test]
    fn admission_is_exact_and_says_why() {
        let budget = Budget::jetstream();
        let room = budget.synchronous_room();
        let half = room / 2;
        assert_eq!(budget.admit(&[half, room - half]), Ok(()));
        let over = half + Duration::from_ps(1);
        let refused = budget.admit(&[over, room - half]).expect_err("too much");
        assert_eq!(refused.synchronous, room + Duration::from_ps(1));
        assert_eq!(refused.overrun, budget.overrun());
        assert!(refused.to_string().ends_with("is more than TTRT 1ms"));
        assert!(budget.admit(&[Duration::MAX, Duration::MAX]).is_err());
    }
}
