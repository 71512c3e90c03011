//! The edge: connections between user-level queues and ordinary hosts, through a bridge.
//!
//! The bridge has addresses of its own on an ordinary network. A client, which is a program on Barewire, leases a port
//! there, for one connection or for all that comes to it. From then on the bridge hands it the IP packets of that lease
//! and sends those that the client makes, after it has checked that they are the client's to send.
//!
//! What a file imports, from the lowest layer up:
//!
//! - [`message`]: what a client and the bridge say to each other

pub mod message;
