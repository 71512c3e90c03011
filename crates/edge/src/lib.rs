//! Connections of a program to ordinary hosts: the client of `barewire bridge`.
//!
//! A program leases a port of the bridge, for one connection or for all that comes to it ([`lease`]). It gets and sends
//! IP packets over queues of its own in shared memory, without the kernel.
#![forbid(unsafe_code)]

pub mod lease;

pub use barewire_proto::edge::message::{
    Ask, Checksum, Granted, NAME_DEFAULT, PacketHeader, Protocol, Refusal, Takes,
};
pub use lease::{Lease, LeaseError, LeaseOptions};
