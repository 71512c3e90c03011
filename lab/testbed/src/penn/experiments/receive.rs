//! `receive`: messages on many circuits, interleaved cell by cell, through the reassembler.
//!
//! The cells are real: the protocol core segments, loses and reassembles them. The model of
//! the pipeline says when a cell is stored, or that no cell manager was free. A host that
//! reads pays for each message a call, a transfer of a burst for each cell, and a copy; the
//! paper measured none of it, so the costs are those of `write()`. The other "host" takes
//! a message in no time and shows what the interface does alone.

use barewire_classic::sar::Aal;
use barewire_units::{ByteSize, Rng};
use serde::Deserialize;

use super::common::{CHOICES, POINTS_MAX};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::penn::parameters::Parameters;
use crate::penn::reception::{Fate, Load, Reception, receive};
use crate::refuse::{few_points, inputs, within};
use crate::sweep::sweep;

pub const RECEIVE: Experiment = Experiment {
    name: "receive",
    question: "Messages on many circuits at once, some cells lost: what does the reassembler \
        deliver, and what does it drop?",
    inputs: include_str!("../../../plans/penn-receive.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

/// Circuits whose numbers are not reserved.
const CIRCUITS_MAX: usize = 10_000;
/// A message holds its own number.
const MESSAGE_MIN: ByteSize = ByteSize::from_bytes(8);
const MESSAGE_MAX: ByteSize = ByteSize::from_bytes(65_535);
const VOLUME_MAX: ByteSize = ByteSize::from_mib(64);

/// Who takes the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Host {
    NoLimit,
    Workstation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Adaptation {
    Aal5,
    Class4,
}

inputs! {
    struct Inputs {
        circuits: Vec<usize> => 1..=CIRCUITS_MAX,
        losses_per_million: Vec<u64> => 0..=1_000_000,
        hosts: Vec<Host> => CHOICES,
        adaptation: Adaptation,
        message: ByteSize => MESSAGE_MIN..=MESSAGE_MAX,
        messages: usize => 1..=1_000_000,
        load_per_cent: u64 => 1..=100,
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let parameters = Parameters::parse(setting.parameters)?;
    let volume = inputs
        .message
        .as_bytes()
        .saturating_mul(inputs.messages as u64);
    within(
        "message, messages: all of them",
        ByteSize::from_bytes(volume),
        MESSAGE_MIN..=VOLUME_MAX,
    )?;
    few_points(
        &[
            inputs.circuits.len(),
            inputs.losses_per_million.len(),
            inputs.hosts.len(),
        ],
        POINTS_MAX,
    )?;
    Ok((parameters, inputs))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let root = Rng::from_seed(setting.seed);
    let mut cases = Vec::new();
    for &host in &inputs.hosts {
        for &loss in &inputs.losses_per_million {
            cases.extend(
                inputs
                    .circuits
                    .iter()
                    .map(|&circuits| (host, loss, circuits)),
            );
        }
    }
    let per_host = cases.len() / inputs.hosts.len();
    let numbered: Vec<_> = cases.iter().copied().enumerate().collect();
    let points = sweep(setting, &numbered, |&(index, case), packets| {
        let (host, losses_per_million, circuits) = case;
        let load = Load {
            circuits,
            aal: match inputs.adaptation {
                Adaptation::Aal5 => Aal::Aal5,
                Adaptation::Class4 => Aal::Aal34,
            },
            message_bytes: inputs.message.as_bytes() as usize,
            messages: inputs.messages,
            load_per_cent: inputs.load_per_cent,
            losses_per_million,
            host_counts: host == Host::Workstation,
            packets,
        };
        // The same draws for each host.
        let rng = root.fork_nth("cells", (index % per_host) as u64);
        receive(&parameters, &load, rng)
    });
    let mut tables = Vec::new();
    let rows = inputs.circuits.len();
    for (cases, points) in cases.chunks(rows).zip(points.chunks(rows)) {
        tables.extend(cases.first().map(|&(host, loss, _)| {
            let circuits = cases.iter().map(|&(_, _, circuits)| circuits);
            table(host, loss, &mut circuits.zip(points))
        }));
    }
    let mut outcome = Outcome::default();
    for point in points {
        outcome.mix_run(point.hash, point.capture);
    }
    Ok(outcome.with(tables))
}

fn table(host: Host, loss: u64, rows: &mut dyn Iterator<Item = (usize, &Reception)>) -> Table {
    let host = match host {
        Host::NoLimit => "a host without limit",
        Host::Workstation => "the workstation",
    };
    let mut table = Table::named(format!("{host}, {loss} of a million cells lost"));
    for (circuits, point) in rows {
        let count = |fate| point.fates.iter().filter(|&&found| found == fate).count();
        table.row([
            ("circuits", "", circuits.into()),
            ("offered", "Mbit/s", point.offered_mbps().into()),
            ("delivered", "Mbit/s", point.delivered_mbps().into()),
            ("messages", "", point.fates.len().into()),
            ("whole", "", count(Fate::Delivered).into()),
            ("no circuit", "", count(Fate::NoCircuit).into()),
            ("cell lost", "", count(Fate::CellLost).into()),
            ("no manager", "", count(Fate::NoManager).into()),
            ("no buffer", "", count(Fate::NoBuffer).into()),
            ("spoilt by others", "", count(Fate::Spoilt).into()),
            ("time", "us", point.times.mean_us().into()),
            ("time, p99", "us", point.times.p99_us().into()),
        ]);
    }
    table
}
