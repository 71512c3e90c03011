//! What is counted at a bridge.

/// Declares the counters once: as fields, and as a list for people and machines.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Numbers since the bridge was started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Each counter with its name and what it counts.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),*), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames that came from the network.
    frames_in,
    /// Frames that went to the network.
    frames_out,
    /// Bytes of those that came.
    bytes_in,
    /// Bytes of those that went.
    bytes_out,
    /// Packets given to clients.
    delivered,
    /// Packets that clients have sent.
    from_clients,
    /// Packets dropped because the queue of their client was full.
    queue_full,
    /// Frames dropped because the device had no room.
    device_full,
    /// Frames that the device did not take.
    device_refused,
    /// Packets from the network for nobody: no lease, another address, another protocol.
    unclaimed,
    /// Packets from the network that were broken.
    malformed,
    /// Fragments from the network.
    fragments,
    /// Packets of clients that were no packets, or had a length or header that cannot be.
    client_malformed,
    /// Packets of clients with a false source address or port.
    client_source,
    /// Packets of clients to an end that is not theirs, or that cannot be reached.
    client_target,
    /// Packets of clients of a protocol, or with flags, that their lease does not allow.
    client_protocol,
    /// Packets of clients that left open what cannot be left open so, or were too long.
    client_offload,
    /// Packets of clients dropped because the Ethernet address of the next host is not known.
    unresolved,
    /// Leases granted.
    granted,
    /// Leases refused.
    refused,
    /// Leases that ended.
    ended,
    /// RST segments sent for clients that went.
    resets_sent,
    /// Answers to strangers: RST, ICMP.
    answers_sent,
    /// Answers to strangers left out, since there were too many.
    answers_suppressed,
    /// Questions for Ethernet addresses that were answered.
    neighbour_answers,
    /// Answers about Ethernet addresses that nobody had asked for.
    neighbour_unasked,
    /// Large packets that were cut here.
    packets_cut,
    /// Checksums that were completed here.
    checksums_completed,
    /// Ports in TIME-WAIT that had to go early, since there were too many.
    waits_cut_short,
}
