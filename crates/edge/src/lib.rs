//! Connections of a program to ordinary hosts: the client of `barewire bridge`.
//!
//! A program leases a port of the bridge, for one connection or for all that comes to it ([`lease`]). It gets and sends
//! IP packets over queues of its own in shared memory, without the kernel. TCP runs in the program itself:
//! [`EdgeNode::tcp_connect`] opens a connection, and [`Edge`] drives many of them. [`EdgeSocket`] is for UDP.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! lease: a port of the bridge, and its packets
//! error: why there is no connection
//! clock: the time
//! wheel: a timer wheel
//! packets: packets between a lease and its connection
//! datagrams: a UDP socket
//! stream: a TCP connection
//! listener: a port, and the packets with which others connect there
//! hub: many connections on one node
//! node: connections as methods of a node
//! gateway: connections of unmodified programs
//! ```
#![forbid(unsafe_code)]

mod clock;
mod datagrams;
mod error;
pub mod gateway;
mod hub;
pub mod lease;
mod listener;
mod node;
mod packets;
mod stream;
mod wheel;

pub use barewire_proto::edge::message::{
    Ask, Checksum, Granted, NAME_DEFAULT, PacketHeader, Protocol, Refusal, Takes,
};
pub use datagrams::EdgeSocket;
pub use error::EdgeError;
pub use hub::Edge;
pub use lease::{Lease, LeaseError, LeaseOptions};
pub use node::EdgeNode;
pub use stream::{EdgeStream, StreamOptions};
