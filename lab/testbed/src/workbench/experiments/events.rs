//! The processes of an event builder on one host: sources, builders and the manager, each a loop
//! around a core of [`barewire_proto::evb`], the same code as in the live event builder.
//!
//! | what | how it is taken |
//! |---|---|
//! | processors | as many as the inputs say; a process runs until it has nothing to do, or for a slice if others wait |
//! | a process that slept | the system call of who wakes it, the wake-up where a processor idles, a context switch, the call it returns from |
//! | bytes of a fragment | made and summed, copied into the way, copied out, summed and verified |
//! | the way | holds so many bytes; in shared memory room comes back by quarters |
//! | a message over TCP | a call and the kernel's work at each end, for each 64 KiB, and two more copies |
//! | the cores | run as they are; their time is an input |
//!
//! *Not there*: that processes disturb each other's caches and share the bandwidth of memory; that
//! a copy from another processor's cache is slower than one from the own; anything else that runs;
//! interrupts; what the system's scheduler does beside slices; limits of processor groups; the
//! parts' reports, 20 in a second; files.

mod inputs;
mod shape;
#[cfg(test)]
mod tests;
mod work;
mod world;

use barewire_proto::evb::{Source, SourceId};
use barewire_units::ByteSize;

use super::common::{contradiction, read};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::refuse::{within, wrong};
use crate::sweep::try_sweep;
use crate::workbench::parameters::Parameters;
use inputs::{Inputs, Triggers};
use shape::Shape;

/// The experiment as a plan names it.
pub(super) const EVENTS: Experiment = Experiment {
    name: "events",
    question: "how fast do the processes of an event builder build events on one host, and where does their time go?",
    inputs: include_str!("../../../plans/workbench-events.toml"),
    check: |setting| Inputs::of(setting).map(drop),
    run,
};

/// Pieces of a whole run, beyond which it would take too long.
const PIECES_MAX: u64 = 20_000_000;

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Vec<Shape>), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        inputs.check()?;
        let shape = |&fragment: &ByteSize| Shape::new(&parameters, &inputs, fragment);
        let shapes: Vec<_> = inputs.fragments.iter().map(shape).collect();
        if let Some(Err(error)) = shapes.first().map(|it| Source::new(it.source(SourceId(0)))) {
            return contradiction(error.to_string());
        }
        Ok((inputs, shapes))
    }

    fn check(&self) -> Result<(), SystemError> {
        for &fragment in &self.fragments {
            let pieces = fragment.as_bytes().div_ceil(self.piece.as_bytes());
            let all = pieces * self.events * u64::from(self.sources);
            within("pieces of all fragments", all, 1..=PIECES_MAX)?;
        }
        // A quarter holds a message, or room would never come back.
        let least = 4 * (self.piece.as_bytes() + shape::MESSAGE_ROOM_BYTES);
        within("room", self.room.as_bytes(), least..=1 << 40)?;
        if self.triggers != Triggers::Full && self.period.is_zero() {
            return Err(wrong("period", self.period, "a time above it"));
        }
        Ok(())
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, shapes) = Inputs::of(setting)?;
    let runs = try_sweep(setting, &shapes, |shape, _| world::run(shape, setting.seed))?;
    let mut rates = Table::named("rates");
    let mut shares = Table::named("busy");
    for (fragment, found) in inputs.fragments.iter().zip(&runs) {
        let bytes = fragment.as_bytes();
        let per_s = |count: u64| count as f64 / found.seconds().max(1e-12);
        let us = |permille| found.building_ps(permille).map(|ps| ps as f64 / 1e6);
        rates.row([
            ("fragment", "B", bytes.into()),
            ("built", "MB/s", (per_s(found.built_bytes) / 1e6).into()),
            ("events", "1/s", per_s(found.built).into()),
            (
                "processor time",
                "processors",
                found.share(0..found.busy_ps.len()).into(),
            ),
            ("building time, median", "us", us(500).into()),
            ("building time, 99.9 %", "us", us(999).into()),
            ("events not built", "", (inputs.events - found.built).into()),
        ]);
        let builders = 1..1 + usize::from(inputs.builders);
        let sources = builders.end..found.busy_ps.len();
        let mean = |of: std::ops::Range<usize>| {
            let count = of.len().max(1) as f64;
            Cell::from(100.0 * found.share(of) / count)
        };
        let all = found.share(0..found.busy_ps.len()) / f64::from(inputs.processors);
        shares.row([
            ("fragment", "B", bytes.into()),
            ("manager", "%", mean(0..1)),
            ("a source", "%", mean(sources)),
            ("a builder", "%", mean(builders)),
            ("processors", "%", (100.0 * all).into()),
        ]);
    }
    let mut outcome = Outcome::default();
    for run in &runs {
        outcome.add_run(run.hash, []);
    }
    Ok(outcome.with([rates, shares]))
}
