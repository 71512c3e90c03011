//! Memory copies by size: the benchmark with which KEK compared its hosts before anything went
//! over a network.
//!
//! The paper prints no figures, only that the PC733 copies fastest. `barewire bench copy`
//! measures the same curve on the machine that it runs on.

use barewire_units::ByteSize;

use super::common::{LIST, read};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::figures::us;
use crate::refuse::{inputs, up_to};

pub(in crate::workbench) const COPY: Experiment = Experiment {
    name: "copy",
    question: "How fast does the host copy memory, by size?",
    inputs: include_str!("../../../plans/workbench-copy.toml"),
    check: |setting| read::<Inputs>(setting).map(drop),
    run,
};

inputs! {
    struct Inputs {
        sizes: Vec<ByteSize> => (LIST, up_to(ByteSize::from_gib(1))),
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters): (Inputs, _) = read(setting)?;
    setting.progress.announce(1);
    let memory = parameters.host.memory;
    let mut table = Table::named("copies of memory");
    let mut outcome = Outcome::default();
    for size in &inputs.sizes {
        let bytes = size.as_bytes();
        let time = memory.copy(bytes, bytes);
        outcome.add_run(time.as_ps(), []);
        // Bits a microsecond are Mbit/s.
        let rate_mbps = bytes as f64 * 8.0 / us(time);
        table.row([
            ("size", "B", bytes.into()),
            ("time", "us", us(time).into()),
            ("rate", "Mbit/s", rate_mbps.into()),
        ]);
    }
    setting.progress.step();
    Ok(outcome.with([table]))
}
