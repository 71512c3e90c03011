//! Two joined switches with cut-through, each with so many ports.
//!
//! One port of each joins them; the others are hosts'. So two switches of five ports, which is
//! what was built, have eight ports for hosts, and twelve hosts take two of seven.
//!
//! A packet goes on as soon as its head has been read and its output is free; the tail
//! follows at the line's rate. Nothing is dropped: a packet whose output is busy waits,
//! and the credit of the queues above bounds how many do.
//! Source: clan02, parts; the latency is a parameter.

use barewire_units::{Duration, Instant};

/// The fewest ports of a switch: one for a host, one that joins.
pub const PORTS_MIN: usize = 2;
/// The most: then the hosts of both have numbers of a byte.
pub const PORTS_MAX: usize = 128;

/// Where the head of a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To the other switch.
    Switch(u8),
    /// To the host it is for.
    Host(u8),
}

/// Two switches, joined. The first hosts are at the one, as many as it has ports for, the next
/// ones at the other.
#[derive(Clone, Debug)]
pub struct Cluster {
    latency: Duration,
    /// Of each switch, its outputs; the last one joins.
    busy_until: [Vec<Instant>; 2],
}

impl Cluster {
    /// Idle switches of `ports` each, which are taken as the nearest number that is possible.
    #[must_use]
    pub fn new(latency: Duration, ports: usize) -> Self {
        let ports = ports.clamp(PORTS_MIN, PORTS_MAX);
        Self {
            latency,
            busy_until: [0, 1].map(|_| vec![Instant::ORIGIN; ports]),
        }
    }

    /// Most hosts that two joined switches of `ports` each have ports for.
    #[must_use]
    pub const fn hosts_max(ports: usize) -> usize {
        2 * ports.saturating_sub(1)
    }

    /// Hosts at each switch.
    fn hosts_each(&self) -> usize {
        self.busy_until[0].len() - 1
    }

    /// The switch that a host is connected to.
    #[must_use]
    pub fn switch_of(&self, host: u8) -> u8 {
        u8::from(usize::from(host) >= self.hosts_each())
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
        let join = self.hosts_each();
        let (hop, port) = if self.switch_of(to) == switch {
            (Hop::Host(to), usize::from(to) % join)
        } else {
            (Hop::Switch(1 - switch % 2), join)
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
        let mut cluster = Cluster::new(Duration::from_ns(100), 5);
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
        assert_eq!((cluster.switch_of(3), cluster.switch_of(4)), (0, 1));
    }

    #[test]
    fn twelve_hosts_take_seven_ports_at_each_of_two_switches() {
        assert_eq!((Cluster::hosts_max(5), Cluster::hosts_max(7)), (8, 12));
        let mut cluster = Cluster::new(Duration::ZERO, 7);
        let switches: Vec<u8> = (0..12).map(|host| cluster.switch_of(host)).collect();
        assert_eq!(switches, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        let time = Duration::from_ns(500);
        let at = |ns| Instant::ORIGIN + Duration::from_ns(ns);
        // Each host has an output of its own; the line between the switches is shared by all.
        for host in 0..6 {
            let leaves = cluster.handle_head(at(0), 0, host, time);
            assert_eq!(leaves, (Hop::Host(host), at(0)));
        }
        for (nth, host) in (6..12).enumerate() {
            let leaves = cluster.handle_head(at(0), 0, host, time);
            assert_eq!(leaves, (Hop::Switch(1), at(500 * nth as u64)));
        }
    }
}
