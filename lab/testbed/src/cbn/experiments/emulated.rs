//! The ring of any experiment, to carry packets from outside: of each list of inputs the first value.

use serde::Deserialize;

use super::inputs::{Condition, FullFifo, Length, run_on, stage};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::Run;
use crate::emulation::Wanted;
use crate::error::SystemError;
use crate::experiment::Setting;

/// What the inputs of the experiments say of ring and stations.
#[derive(Deserialize)]
struct Inputs {
    #[serde(default)]
    lengths: Vec<Length>,
    #[serde(default)]
    stages: Vec<usize>,
    #[serde(default)]
    conditions: Vec<Condition>,
    condition: Option<Condition>,
    full_fifo: Option<FullFifo>,
}

/// The run that is emulated.
pub(in crate::cbn) fn emulated(setting: &Setting<'_>, wanted: &Wanted) -> Result<Run, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.read_inputs()?;
    let length = inputs.lengths.first().unwrap_or(&Length::Measured);
    let mut run = run_on(&parameters, length, wanted.stations)?;
    if let Some(&number) = inputs.stages.first() {
        run.stage = stage(number)?;
    }
    if let Some(condition) = inputs.condition.or(inputs.conditions.first().copied()) {
        run.interrupt_on = condition.interrupt_on();
    }
    run.waits_for_room = inputs.full_fifo == Some(FullFifo::Wait);
    Ok(run)
}
