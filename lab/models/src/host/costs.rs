//! What the operations of a processor cost that are not copies and not the bus.

use barewire_units::Duration;

crate::parameters! {
    /// Costs of a processor with its system and driver.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Costs {
        /// A call to send, until the driver begins.
        pub send_call: Duration,
        /// From the driver's end back into the program.
        pub send_return: Duration,
        /// A call to receive, until it has the message or sleeps.
        pub receive_call: Duration,
        /// From there back into the program.
        pub receive_return: Duration,
        /// From an interrupt to where the handler looks at the card.
        pub interrupt: Duration,
        /// A processor without work wakes up: it takes the time but is not busy.
        pub wake_up: Duration,
        /// From the handler to the program that slept, registers and tables changed.
        pub context_switch: Duration,
        /// A look at a place in memory by a program that polls.
        pub poll: Duration,
        /// The driver, for each packet to send.
        pub send_packet: Duration,
        /// The driver, for each KiB to send.
        pub send_kib: Duration,
        /// The driver, for each packet received.
        pub receive_packet: Duration,
        /// The driver, for each KiB received.
        pub receive_kib: Duration,
        /// A sum over one KiB.
        pub checksum_kib: Duration,
    }
}

impl Costs {
    /// The driver's work on a packet of `bytes` to send.
    #[must_use]
    pub fn send(&self, bytes: u64) -> Duration {
        self.send_packet + per_kib(self.send_kib, bytes)
    }

    /// The driver's work on a packet of `bytes` received.
    #[must_use]
    pub fn receive(&self, bytes: u64) -> Duration {
        self.receive_packet + per_kib(self.receive_kib, bytes)
    }

    /// A sum over `bytes`.
    #[must_use]
    pub fn checksum(&self, bytes: u64) -> Duration {
        per_kib(self.checksum_kib, bytes)
    }
}

/// What `bytes` take at `time` for each KiB.
#[must_use]
pub fn per_kib(time: Duration, bytes: u64) -> Duration {
    let ps = u128::from(time.as_ps()) * u128::from(bytes) / 1024;
    Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_costs_by_itself_and_by_its_length() {
        let us = Duration::from_us;
        let costs = Costs {
            send_call: us(1),
            send_return: us(1),
            receive_call: us(1),
            receive_return: us(1),
            interrupt: us(1),
            wake_up: us(1),
            context_switch: us(1),
            poll: us(1),
            send_packet: us(10),
            send_kib: us(4),
            receive_packet: us(20),
            receive_kib: us(8),
            checksum_kib: us(2),
        };
        assert_eq!(costs.send(2048), us(18));
        assert_eq!(costs.receive(512), us(24));
        assert_eq!(costs.checksum(0), us(0));
        assert_eq!(per_kib(Duration::MAX, u64::MAX), Duration::MAX);
    }
}
