//! What a plan can ask of the ring over RDMA.

mod all;
mod common;
mod incast;
mod two;

use crate::experiment::Experiment;

/// Every experiment.
pub(super) const ALL: [Experiment; 6] = [
    two::PING,
    two::STREAM,
    two::SLOW_RECEIVER,
    incast::INCAST,
    incast::BYSTANDER,
    all::ALL_TO_ALL,
];
