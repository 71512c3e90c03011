//! Carriers over libfabric: bytes to a node on another host, by RDMA where there are cards.
//!
//! libfabric is opened at run time, when a [`Fabric`] is opened: a program with this crate runs
//! without it, too, and [`Fabric::open`] then says what to install. Two hosts first have some
//! connection over which they trust each other. Over it, one sends the bytes of an [`Offer`],
//! and the other answers it:
//!
//! ```no_run
//! # fn main() -> Result<(), barewire_ofi::OfiError> {
//! # let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 1]];
//! // On one host:
//! let fabric = barewire_ofi::Fabric::open(None, one.into())?;
//! let (mut offer, bytes) = fabric.offer()?;
//! // On the other host, with the bytes:
//! let fabric = barewire_ofi::Fabric::open(Some(offer.provider()), other.into())?;
//! let mut pending = fabric.answer(&bytes)?;
//! // On both, until there is a carrier:
//! let carrier = offer.poll()?;
//! # let _ = (carrier, pending.poll()?);
//! # Ok(())
//! # }
//! ```
//!
//! A carrier sends messages between two connected endpoints (`FI_EP_MSG`). What it carries is
//! not encrypted. Why libfabric is used in this way: `docs/decisions/0036-libfabric.md`.
//!
//! ```layers
//! error: what can go wrong
//! raw: libfabric's interface, declared by hand
//! library: libfabric itself, and its descriptions
//! objects: libfabric's objects, and who closes them
//! flow: credits, and the header of a message
//! memory: slots of memory, ours or lent
//! wait_set: the descriptor to wait on
//! connection: an endpoint with its queues and memory
//! strangers: who connects and says nothing
//! link: bytes over an endpoint
//! linger: what is left to send when a carrier is dropped
//! carrier: the carrier
//! introduction: the bytes of an offer and of its answer
//! fabric: a fabric, offers and answers
//! ```

mod carrier;
mod connection;
mod error;
mod fabric;
mod flow;
mod introduction;
mod library;
mod linger;
mod link;
mod memory;
mod objects;
mod raw;
mod strangers;
#[cfg(test)]
mod test_help;
mod wait_set;

pub use carrier::OfiCarrier;
pub use error::OfiError;
pub use fabric::{Fabric, Offer, Pending};
pub use linger::wait_until_sent;
