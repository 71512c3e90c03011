//! What a plan can ask of KEK's event builder: see the table in the parent.

pub mod admission;
pub mod bursts;
pub mod emulated;
pub mod full_rate;
pub mod stream;

use crate::experiment::Experiment;

/// Every experiment.
pub const ALL: [Experiment; 5] = [
    admission::ADMISSION,
    bursts::BURSTS,
    bursts::delayed::DELAYED_ACK,
    full_rate::FULL_RATE,
    stream::STREAM,
];
