//! The ring of any experiment, to carry packets from outside.

use barewire_units::{Duration, Rng};
use serde::Deserialize;

use super::super::emulation::{CardBlocks, Made};
use super::super::parameters::Parameters;
use super::common::Rings;
use crate::emulation::Wanted;
use crate::error::SystemError;
use crate::experiment::Setting;

/// What the inputs of the experiments say of the ring.
#[derive(Deserialize)]
struct Inputs {
    length_m: Option<u64>,
    ttrt: Option<Duration>,
    errors_per_gigabit: Option<u64>,
}

/// One ring, with as many stations as are wanted.
pub(in crate::jetstream) fn emulated(
    setting: &Setting<'_>,
    wanted: &Wanted,
) -> Result<Made, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.read_inputs()?;
    let stations = usize::from(wanted.stations);
    let mut rings = Rings::one(&parameters, stations);
    rings.length_m = inputs.length_m.unwrap_or(rings.length_m);
    rings.ttrt = inputs.ttrt.unwrap_or(rings.ttrt);
    rings.errors_per_gigabit = inputs.errors_per_gigabit.unwrap_or(0);
    rings.packets_per_link = wanted.packets_per_link;
    rings.check()?;
    let network = rings.build(&Rng::from_seed(setting.seed))?;
    Ok(Made {
        network,
        stations,
        queue_frames: parameters.ring.queue_frames,
        card: CardBlocks::of(&parameters),
        costs: parameters.host,
        has_one_ring: true,
        description: format!(
            "Jetstream: {stations} stations on {} m of fibre at {}, IP behind LLC/SNAP in AAL5",
            rings.length_m, parameters.ring.rate
        ),
    })
}
