//! The Collapsed LAN: a card whose stores travel, and what stands beside it.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | program's memory | regions that peers store into; windows of the live network's traits | [`Memory`], [`Stores`], [`Loads`] |
//! | processor | posts stores into a write buffer, waits when it is full or at a barrier | [`Interface`] |
//! | I/O bus | one burst at a time: stores going out, packets coming in, DMA | [`Interface`] |
//! | card | packs bursts that follow each other into packets, sends, receives | [`Interface`] |
//! | tripwires | an associative memory; a packet that touches an entry fires it | [`Cam`] |
//! | event queue | a doorbell page of `barewire-fabric`, which the card rings | [`Words`] |
//! | switches | two of them, joined, with cut-through; five ports each were built | [`Cluster`] |
//! | endpoints' state | what of it the processor's cache holds | [`StateCache`] |
//! | rivals | what a message costs over a socket or a VIA card | [`Rival`] |
//! | VIA | a message that finds no receive descriptor | [`ViaReceiver`], [`Credits`] |
//!
//! A store goes to the peer in order and is seen there after bus, link and bus; a load is
//! local. The queues that run over the windows are those of the live network.
//! Source: clan02; what it leaves open is marked in the parameter file.

mod cache;
mod costs;
mod interface;
mod memory;
mod rival;
mod switch;
mod tripwire;
mod via;

pub use cache::StateCache;
pub use costs::{BusConfig, CardConfig, HostCosts, LinkConfig};
pub use interface::{Answer, Cargo, Done, Interface, InterfaceConfig, Packet, Transfer};
pub use memory::{Loads, Memory, Operation, Store, Stores, Words};
pub use rival::{Rival, RivalConfig, Task};
pub use switch::{Cluster, Hop, PORTS_MAX, PORTS_MIN};
pub use tripwire::{Cam, CamError, EntryId, Place};
pub use via::{Credits, Fate, Reliability, ViaReceiver};
