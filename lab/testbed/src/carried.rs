//! How tests drive an emulated network.

use barewire_units::{Duration, Instant};

use crate::emulation::{Departure, Emulated, HostEra, Wanted};
use crate::error::SystemError;
use crate::experiment::{Progress, Setting};
use crate::system::System;

/// Two stations, as slow as they were; nothing is lost or recorded.
pub(crate) const WANTED: Wanted = Wanted {
    stations: 2,
    host_era: HostEra::Plan,
    mtu_bytes: None,
    lose: 0.0,
    packets_per_link: 0,
};

/// The network of an experiment with these parameters and inputs.
pub(crate) fn emulate(
    system: &dyn System,
    experiment: &str,
    (parameters, inputs): (&str, &str),
    seed: u64,
    wanted: &Wanted,
) -> Result<Box<dyn Emulated>, SystemError> {
    let setting = Setting {
        parameters,
        inputs,
        seed,
        packets_per_link: 0,
        progress: &Progress::default(),
    };
    system.emulate(experiment, &setting, wanted)
}

/// So long after the beginning.
pub(crate) fn at_us(us: u64) -> Instant {
    Instant::ORIGIN + Duration::from_us(us)
}

/// Runs until a packet leaves.
pub(crate) fn departure(network: &mut dyn Emulated) -> Departure {
    loop {
        if let Some(departure) = network.poll() {
            return departure;
        }
        let next = network.next_at().expect("a packet is under way");
        network.run_to(next);
    }
}
