//! One suite per fabric trait, run unchanged for every fabric.
//!
//! A fabric says what it has by implementing the traits of this page: how to make two
//! sides that are connected. [`check`] then runs a suite over it, case by case, and panics
//! with the names of the cases that failed. How a new fabric joins:
//! `docs/conformance.md`.
//!
//! | suite | for | of crate `barewire-fabric` |
//! |---|---|---|
//! | [`window::cases`] | [`Windows`] | `memory::{Outgoing, Incoming, Fences}` |
//! | [`queue::cases`] | [`Windows`] | the message queue and byte stream over its windows |
//! | [`doorbell::cases`] | [`Doorbells`] | `memory::SharedWords` |
//! | [`memory::cases`] | [`Apertures`] | `aperture::Memory` |
//! | [`tripwire::cases`] | [`Apertures`] | `aperture::{TripwireSet, Trap}` |
//! | [`waiting::cases`] | [`Apertures`] with [`OwnerTripwires`](barewire_fabric::aperture::OwnerTripwires) | `aperture::OwnerTripwires` |
//! | [`events::cases`] | [`Apertures`] | `aperture::EventSource` |
//! | [`transport::cases`] | [`Connections`] | `aperture::{Transport, EventSource}` |
//! | [`transport::stream_cases`] | [`Connections`] | `aperture::ByteStream` |
//!
//! One more is for what lies between hosts:
//!
//! | suite | for | of crate `barewire-carrier` |
//! |---|---|---|
//! | [`carrier::cases`] | [`Carriers`] | `Carrier` |
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! fabric: what a fabric under test has
//! suite: suites, and how they are run
//! help: waits, results that must be good, bytes
//! firing: tripwires that fire into an event queue
//! window: one-way windows and fences
//! queue: the message queue and the byte stream over windows
//! doorbell: memory in which several sides set bits
//! memory: an aperture's memory
//! tripwire: tripwires at both ends of an aperture
//! waiting: tripwires on what the owner stores
//! events: event queues
//! transport: connections from end to end
//! carrier: bytes to another host
//! fabrics: the fabrics that there are, and broken ones
//! ```
#![forbid(unsafe_code)]

mod fabric;
mod firing;
mod help;
mod suite;

pub mod carrier;
pub mod doorbell;
pub mod events;
pub mod fabrics;
pub mod memory;
pub mod queue;
pub mod transport;
pub mod tripwire;
pub mod waiting;
pub mod window;

pub use fabric::{
    ApertureEnd, ApertureEnds, Apertures, Carriers, Connections, Doorbells, FabricUnderTest, Side,
    WatchedOwners, Windows,
};
pub use help::pattern;
pub use suite::{Case, check, failures, must_fail};
