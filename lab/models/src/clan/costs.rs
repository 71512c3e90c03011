//! What a host, its bus, its card and its link cost, and how large they are: the tables of
//! the parameter file.

use barewire_fabric::frame::{lines_for, payload_offset};
use barewire_units::{ByteSize, Duration, Rate};

crate::parameters! {
    /// A processor.
    #[derive(Copy, PartialEq, Eq)]
    pub struct HostCosts {
        /// An entry of the write buffer: the longest burst of stores.
        pub write_entry: ByteSize,
        /// Entries of the write buffer.
        pub write_entries: usize,
        /// One look at memory that has not changed.
        pub poll: Duration,
        /// Send a message, beside its stores.
        pub send: Duration,
        /// Receive a message, beside its lines.
        pub receive: Duration,
        /// Load a line that the card has stored.
        pub line: Duration,
        /// Take an event from the queue and call back.
        pub dispatch: Duration,
        /// How long an idle server polls before it sleeps.
        pub poll_window: Duration,
        /// From the card's interrupt to the program that slept.
        pub wake: Duration,
    }
}

impl HostCosts {
    /// Receives a message with so much payload.
    #[must_use]
    pub fn receive(&self, payload_bytes: usize) -> Duration {
        let lines = lines_for(payload_offset(payload_bytes), payload_bytes);
        self.receive + self.line * lines
    }
}

crate::parameters! {
    /// An I/O bus.
    #[derive(Copy, PartialEq, Eq)]
    pub struct BusConfig {
        /// Its clock.
        pub clock: Duration,
        /// What it moves in a clock.
        pub word: ByteSize,
        /// What a burst of the processor costs beside its words.
        pub processor_burst: Duration,
        /// What a burst of the card costs beside its words.
        pub card_burst: Duration,
    }
}

crate::parameters! {
    /// A card.
    #[derive(Copy, PartialEq, Eq)]
    pub struct CardConfig {
        /// A packet through the card, each way.
        pub latency: Duration,
        /// What waits for the link before bursts have to wait.
        pub fifo: ByteSize,
        /// Entries of the associative memory.
        pub cam_entries: usize,
    }
}

crate::parameters! {
    /// The link of a card.
    #[derive(Copy, PartialEq, Eq)]
    pub struct LinkConfig {
        /// Its rate.
        pub rate: Rate,
        /// Most payload of a packet.
        pub payload_max: ByteSize,
        /// What a packet has on the link beside its payload.
        pub overhead: ByteSize,
    }
}
