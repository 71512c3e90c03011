//! What can be asked of the model: the basic measurements with inputs of one's own, and the
//! questions that the source left open.

mod basic;
mod common;
mod endpoints;
mod memory;
#[cfg(test)]
mod tests;

use crate::experiment::Experiment;

/// All of them.
pub const ALL: [Experiment; 8] = [
    basic::PING,
    basic::QUEUE,
    basic::SERVER,
    basic::CLUSTER,
    endpoints::ENDPOINTS,
    endpoints::CAM,
    memory::BUFFERS,
    memory::VIA,
];
