//! Carriers: what takes bytes to a node on another host, in order and both ways.
//!
//! A node that talks to another host hands the bytes of its records to a [`Carrier`]. There is one
//! carrier for each pair of nodes. A carrier never blocks: it takes what there is room for, gives
//! what has arrived, and names a descriptor to wait on. [`tcp`] is the one that is always there.
//! `tls` (a feature, on by default) encrypts, and proves first who the other host is.
//!
//! Nothing here knows what the bytes mean.
//!
//! ```layers
//! carrier: what a carrier must promise
//! peer: who is at the other end
//! socket: a TCP connection, without signals
//! tcp: over a TCP connection, not encrypted
//! tls: over a TCP connection, authenticated and encrypted, and the keys for that
//! ```

#![forbid(unsafe_code)]

mod carrier;
mod peer;
mod socket;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;

pub use carrier::{Arrival, Broken, Carrier, Properties, Sleep};
pub use peer::{How, PeerIdentity};
