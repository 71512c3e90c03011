//! The edge: connections between user-level queues and ordinary hosts, through a bridge.
//!
//! The bridge has addresses of its own on an ordinary network. A client, which is a program on Barewire, leases a port
//! there, for one connection or for all that comes to it. From then on the bridge hands it the IP packets of that lease
//! and sends those that the client makes, after it has checked that they are the client's to send.
//!
//! What a file imports, from the lowest layer up:
//!
//! - [`message`]: what a client and the bridge say to each other
//! - [`program`]: what an unmodified program's sockets and their gateway say to each other
//! - [`packet`]: IP packets, read
//! - [`offload`]: checksums and segments that somebody left open
//! - [`flow`]: what tells connections apart
//! - [`track`]: how far a TCP connection is, seen from the bridge
//! - [`waiting`]: connections in TIME-WAIT
//! - [`leases`]: who has which port
//! - [`check`]: whether a client may send a packet
//! - [`neighbours`]: Ethernet addresses of the hosts near the bridge
//! - [`network`]: where a packet goes next
//! - [`answers`]: frames that the bridge makes by itself
//! - [`counters`]: what is counted
//! - [`bridge`]: all of it together

pub mod answers;
pub mod bridge;
pub mod check;
pub mod counters;
pub mod flow;
pub mod leases;
pub mod message;
pub mod neighbours;
pub mod network;
pub mod offload;
pub mod packet;
pub mod program;
pub mod track;
pub mod waiting;
