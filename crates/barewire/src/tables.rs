//! What a node knows, under its one lock: peers, connections, listeners, events.

pub(crate) mod delivery;
pub(crate) mod exports;
pub(crate) mod greeting;
pub(crate) mod opening;
pub(crate) mod peer;
pub(crate) mod state;
