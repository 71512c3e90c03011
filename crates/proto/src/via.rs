//! The Virtual Interface Architecture: states of a VI, descriptors, work queues, protection, flow control.
//!
//! | file | what |
//! |---|---|
//! | `state` | what each call and event does in each state of a VI |
//! | `descriptor` | the layout of a descriptor, and what makes one wrong |
//! | `queue` | a work queue: descriptors are done in the order in which they were posted |
//! | `protection` | registered memory, protection tags, permission for remote access |
//! | `credit` | a send waits until a receive is posted at the other end |
//!
//! What holds memory, connections and threads is in `crates/vipl`. Nothing here trusts the peer.
//!
//! Source: Virtual Interface Architecture Specification 1.0, December 1997; names and values: the header `vipl.h` of
//! Intel's VI Provider Library 1.0. The rule of `credit` is CLAN's: `docs/decisions/0038-via-flow-control.md`.

pub mod credit;
pub mod descriptor;
pub mod protection;
pub mod queue;
pub mod state;

#[cfg(test)]
mod tests;
