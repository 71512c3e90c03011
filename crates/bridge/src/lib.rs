//! A bridge between ordinary hosts and user-level queues.
//!
//! One process has addresses of its own on a network: behind a TAP device, or at an interface. Programs on Barewire lease
//! ports there, each over a connection of its own, and exchange IP packets over it (`barewire_proto::edge::message`). So
//! each has its own queues in shared memory, and sees nobody else's packets. What is where to go decides the core,
//! `barewire_proto::edge::bridge`; here is what it needs of the system.
//!
//! Nobody is waited for: a packet for a client whose queue is full is dropped and counted, and of each client at most
//! some messages are taken before it is the next one's turn.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! error: what can go wrong, and what to do about it
//! config: what a bridge is to be
//! attach: the device, the rights that it takes, and the network behind it
//! pause: what it does between two polls that find nothing
//! clients: connections and their leases
//! serve: the loop
//! ```
#![forbid(unsafe_code)]

mod attach;
mod clients;
mod config;
mod error;
mod pause;
mod serve;

pub use barewire_proto::edge::counters::Counters;
pub use barewire_proto::edge::leases::Limits;
pub use barewire_proto::edge::message::NAME_DEFAULT;
pub use config::{BridgeConfig, Device, Prefixed};
pub use error::BridgeError;
pub use serve::{Bridge, Summary};
