//! What a node knows, under its one lock: peers, connections, listeners, doorbells, events.

mod closing;
mod connections;
mod delivery;
pub(crate) mod doorbells;
pub(crate) mod entries;
pub(crate) mod events;
mod exports;
mod granting;
mod greeting;
pub(crate) mod hot;
mod listening;
mod opening;
pub(crate) mod peer;
mod reading;
mod sending;
pub(crate) mod state;
pub(crate) mod token;
