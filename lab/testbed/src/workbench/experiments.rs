//! What a plan can ask of the workbench: what the programs on the hosts do, and what is
//! measured.

pub(super) mod common;
mod copy;
mod events;
mod incast;
mod ping;
mod request;
mod stream;

pub(super) use ping::{Pings, ping};
pub(super) use stream::{Streams, stream};

use crate::experiment::Experiment;

/// Every experiment.
pub(super) const ALL: [Experiment; 6] = [
    copy::COPY,
    ping::PING,
    stream::STREAM,
    request::REQUEST,
    incast::INCAST,
    events::EVENTS,
];
