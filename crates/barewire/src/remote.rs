//! Links to nodes on other hosts.
//!
//! To its node, a node on another host looks like a process on this host: a [`proxy`] plays that process's part. It says
//! hello over a socket, maps the memory that the node receives in, and owns the memory that the node stores to. What it
//! finds there it sends to the proxy on the other host, which stores it where its own node receives. So rings, queues,
//! streams and the event queue know nothing of hosts, and a node believes another host no more than it believes any peer.
//!
//! A proxy is driven by whoever has something to send or polls for something to come, within the call, and by a thread
//! of the node when nobody does.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod firings;
pub(crate) mod greeter;
pub(crate) mod greeting;
pub(crate) mod inbox;
pub(crate) mod lent;
mod libfabric;
pub(crate) mod one_worker;
pub(crate) mod outbox;
pub(crate) mod pings;
pub(crate) mod proxy;
pub(crate) mod record;
mod sync;
pub(crate) mod trust;
