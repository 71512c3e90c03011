//! Switches of five ports, one or two of them, with cut-through.
//!
//! A packet goes on as soon as its head has been read and its output is free; the tail
//! follows at the line's rate. Nothing is dropped: a packet whose output is busy waits,
//! and the credit of the queues above bounds how many do.
//! Source: clan02, parts; the latency is a parameter.

use barewire_units::{Duration, Instant};

/// Ports of a switch.
pub const PORTS: usize = 5;
/// The port that joins the two switches.
const JOIN: usize = PORTS - 1;
/// Hosts of a switch in a cluster of two.
const HOSTS: usize = PORTS - 1;

/// Where the head of a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To the other switch.
    Switch(u8),
    /// To the host it is for.
    Host(u8),
}

/// Two switches, joined, with four hosts each: 0 to 3 and 4 to 7.
#[derive(Clone, Debug)]
pub struct Cluster {
    latency: Duration,
    busy_until: [[Instant; PORTS]; 2],
}

impl Cluster {
    /// Most hosts that two switches have ports for when they are joined.
    pub const HOSTS_MAX: usize = 2 * HOSTS;

    /// Idle switches.
    #[must_use]
    pub const fn new(latency: Duration) -> Self {
        Self {
            latency,
            busy_until: [[Instant::ORIGIN; PORTS]; 2],
        }
    }

    /// The switch that a host is connected to.
    #[must_use]
    pub const fn switch_of(host: u8) -> u8 {
        (host as usize / HOSTS % 2) as u8
    }

    /// The head of a packet for host `to` is at `switch`; the packet takes `time` on a
    /// line. Says where it goes and when its head leaves.
    pub fn handle_head(
        &mut self,
        now: Instant,
        switch: u8,
        to: u8,
        time: Duration,
    ) -> (Hop, Instant) {
        let (hop, port) = if Self::switch_of(to) == switch {
            (Hop::Host(to), to as usize % HOSTS)
        } else {
            (Hop::Switch(1 - switch % 2), JOIN)
        };
        let output = &mut self.busy_until[switch as usize % 2][port];
        let leaves = (now + self.latency).max(*output);
        *output = leaves + time;
        (hop, leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_taken_in_turn_and_others_are_free() {
        let mut cluster = Cluster::new(Duration::from_ns(100));
        let at = |ns| Instant::ORIGIN + Duration::from_ns(ns);
        let time = Duration::from_ns(500);
        assert_eq!(
            cluster.handle_head(at(0), 0, 3, time),
            (Hop::Host(3), at(100))
        );
        assert_eq!(
            cluster.handle_head(at(50), 0, 3, time),
            (Hop::Host(3), at(600))
        );
        assert_eq!(
            cluster.handle_head(at(50), 0, 2, time),
            (Hop::Host(2), at(150))
        );
        assert_eq!(
            cluster.handle_head(at(50), 0, 7, time),
            (Hop::Switch(1), at(150))
        );
        assert_eq!(
            cluster.handle_head(at(150), 1, 7, time),
            (Hop::Host(7), at(250))
        );
        assert_eq!((Cluster::switch_of(3), Cluster::switch_of(4)), (0, 1));
    }
}
