//! The PCs of an experiment, to carry packets from outside.

use super::{admission, bursts, full_rate, stream};
use crate::error::SystemError;
use crate::experiment::Setting;
use crate::kek::parameters::Parameters;
use crate::kek::plan::Plan;

/// The PCs, their shaping and what is between them, as in the first run of the experiment.
pub fn emulated(
    experiment: &str,
    setting: &Setting<'_>,
) -> Result<(Parameters, Plan), SystemError> {
    const BUILDERS: [&str; 2] = [bursts::BURSTS.name, bursts::delayed::DELAYED_ACK.name];
    match experiment {
        _ if BUILDERS.contains(&experiment) => Err(SystemError::NoPackets(
            "kek-bursts and kek-delayed-ack, which is made of parts of the event builder,",
        )),
        _ if experiment == full_rate::FULL_RATE.name => full_rate::first(setting),
        _ if experiment == admission::ADMISSION.name => admission::first(setting),
        _ => stream::prepare(setting),
    }
}
