//! Carriers: what takes bytes to a node on another host, in order and both ways.
//!
//! A node that talks to another host hands the bytes of its records to a [`Carrier`]. There is one
//! carrier for each pair of nodes. A carrier never blocks: it takes what there is room for, gives
//! what has arrived, and names a descriptor to wait on. [`tcp`] is the one that is always there.
//!
//! Nothing here knows what the bytes mean.
//!
//! ```layers
//! carrier: what a carrier must promise
//! tcp: over a TCP connection, not encrypted
//! ```

#![forbid(unsafe_code)]

mod carrier;
pub mod tcp;

pub use carrier::{Arrival, Broken, Carrier, Properties, Sleep};
