//! Memory copies by size: the benchmark with which KEK compared its hosts before anything went
//! over a network.
//!
//! The paper prints no figures, only that the PC733 copies fastest. `barewire bench copy`
//! measures the same curve on the machine that it runs on.

use barewire_units::ByteSize;
use serde::Deserialize;

use super::common::{check_list, check_size, join_hashes, us};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::workbench::parameters::Parameters;

pub(in crate::workbench) const COPY: Experiment = Experiment {
    name: "copy",
    question: "How fast does the host copy memory, by size?",
    inputs: include_str!("../../../plans/workbench-copy.toml"),
    check: |setting| Inputs::of(setting).map(|_| ()),
    run,
};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    sizes: Vec<ByteSize>,
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let inputs: Self = setting.read_inputs()?;
        let parameters = Parameters::parse(setting.parameters)?;
        check_list("sizes", &inputs.sizes)?;
        for &size in &inputs.sizes {
            check_size("sizes", size, ByteSize::from_gib(1))?;
        }
        Ok((inputs, parameters))
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Inputs::of(setting)?;
    setting.progress.announce(1);
    let memory = parameters.host.memory;
    let mut table = Table::new(
        "copies of memory",
        &[("size", "B"), ("time", "us"), ("rate", "Mbit/s")],
    );
    let mut times_ps = Vec::new();
    for size in &inputs.sizes {
        let bytes = size.as_bytes();
        let time = memory.copy(bytes, bytes);
        times_ps.push(time.as_ps());
        // Bits a microsecond are Mbit/s.
        let rate_mbps = bytes as f64 * 8.0 / us(time);
        table.push([bytes.into(), us(time).into(), rate_mbps.into()]);
    }
    setting.progress.step();
    Ok(Outcome {
        tables: vec![table],
        trace_hash: join_hashes(times_ps.into_iter()),
        links: Vec::new(),
    })
}
