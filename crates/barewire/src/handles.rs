//! The public face: nodes, connections, streams, apertures, tripwires and their events.

pub(crate) mod aperture;
mod conform;
pub(crate) mod connection;
pub(crate) mod event;
mod half;
pub(crate) mod id;
mod import;
pub(crate) mod listener;
pub(crate) mod node;
pub(crate) mod port;
pub(crate) mod receiver;
pub(crate) mod remote;
pub(crate) mod request;
pub(crate) mod sender;
pub(crate) mod stream;
pub(crate) mod tripwire;
pub(crate) mod typed;
