//! Coherent bursts: N sources send their fragments of an event to one of M builders at the same
//! moment, through a switch with finite output buffers.
//!
//! What runs: the sources, builders and the manager of [`barewire_proto::evb`], the same code
//! as in the live event builder, over full-duplex links and a switch.
//!
//! *Exact*: every frame on the link of its source, its arrival at its output port, what the port
//! holds then, what is lost, when it leaves; each TCP segment, acknowledgement and time-out; the order
//! of messages on the link of who sends them. *Not there*: the hosts, which take no time (the
//! experiment `stream` has them); limits inside the switch; queues of control messages on the link of
//! who receives them. Captures have true headers and a payload of zeros.

use barewire_proto::evb::{ConfigError, SourceId, WhenFull};
use barewire_units::ByteSize;

use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting};
use crate::kek::parameters::Parameters;
use crate::refuse::{within, wrong};
use crate::sweep::try_sweep;

pub mod delayed;
mod inputs;
mod shape;
mod tcp;
#[cfg(test)]
mod tests;
mod world;

use inputs::{Full, Inputs, Point};
use shape::Shape;
use world::Found;

/// The experiment as a plan names it.
pub const BURSTS: Experiment = Experiment {
    name: "bursts",
    question: "which flow control brings all fragments of an event through a switch with finite buffers?",
    inputs: include_str!("../../../plans/kek-bursts.toml"),
    check: |setting| prepare(setting).map(drop),
    run: answer,
};

const PARTS_MAX: u16 = 2_000;
const FRAGMENTS_MAX: u64 = 40_000_000;

/// `4x4` as numbers.
fn parse_size(text: &str) -> Result<(u16, u16), SystemError> {
    let number = |part: &str| part.trim().parse().ok();
    let numbers = text
        .split_once('x')
        .and_then(|(sources, builders)| Some((number(sources)?, number(builders)?)));
    let good = numbers.filter(|&(sources, builders): &(u16, u16)| {
        (1..=PARTS_MAX).contains(&sources) && (1..=PARTS_MAX).contains(&builders)
    });
    good.ok_or_else(|| wrong("sizes", format!("{text:?}"), "like \"4x4\", each 1 to 2000"))
}

impl Inputs {
    fn check(&self, parameters: &Parameters) -> Result<(), SystemError> {
        let frame = ByteSize::from_bytes(self.mtu.as_bytes() + 18);
        let largest = ByteSize::from_gib(1 << 10);
        within("port_buffer", self.port_buffer, frame..=largest)?;
        within("source_buffer", self.source_buffer, frame..=largest)?;
        for point in self.points()? {
            within(
                "events x sources",
                self.events * u64::from(point.sources),
                1..=FRAGMENTS_MAX,
            )?;
            self.check_point(parameters, &point)?;
        }
        Ok(())
    }

    /// Whether the core takes what follows from the inputs.
    fn check_point(&self, parameters: &Parameters, point: &Point) -> Result<(), SystemError> {
        let shape = Shape::new(parameters, self, point);
        let last = SourceId(point.sources - 1);
        match shape.source(last).map(barewire_proto::evb::Source::new) {
            Some(Ok(_)) => Ok(()),
            Some(Err(error @ ConfigError::Burst { .. })) => {
                Err(wrong("shaping_burst", error, "a whole frame at least"))
            }
            Some(Err(error @ ConfigError::Slot { .. })) => {
                Err(wrong("slot_fragments", error, "a slot for a whole frame"))
            }
            Some(Err(error)) => Err(SystemError::Contradiction(error.to_string())),
            None => Err(wrong(
                "shaping_share",
                self.shaping_share,
                "a rate of 1 bit/s at least for each source and builder",
            )),
        }
    }

    fn points(&self) -> Result<Vec<Point>, SystemError> {
        let mut points = Vec::new();
        for size in &self.sizes {
            let (sources, builders) = parse_size(size)?;
            for &distribution in &self.distributions {
                for &transport in &self.transports {
                    points.extend(self.controls.iter().map(|&control| Point {
                        sources,
                        builders,
                        distribution,
                        transport,
                        control,
                    }));
                }
            }
        }
        Ok(points)
    }

    const fn full(&self) -> WhenFull {
        match self.when_full {
            Full::Block => WhenFull::Block,
            Full::Drop => WhenFull::Drop,
        }
    }
}

fn prepare(setting: &Setting<'_>) -> Result<(Parameters, Inputs, Vec<Point>), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    inputs.check(&parameters)?;
    let points = inputs.points()?;
    Ok((parameters, inputs, points))
}

fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs, points) = prepare(setting)?;
    let runs = try_sweep(setting, &points, |point, packets| {
        let shape = Shape::new(&parameters, &inputs, point);
        world::run(&shape, setting.seed, packets)
    })?;
    let mut outcome = Outcome::default();
    for (point, run) in points.iter().zip(runs) {
        let name = format!(
            "{}x{}, {} fragments",
            point.sources,
            point.builders,
            point.distribution.name()
        );
        outcome.table(&name).row(row(point, &run));
        outcome.add_run(run.hash, run.links);
    }
    Ok(outcome)
}

fn row(point: &Point, run: &Found) -> Row<'static, 13> {
    [
        ("control", "", point.name().into()),
        ("events built", "1/s", run.events_per_s().into()),
        ("share of bottleneck", "%", run.share_per_cent().into()),
        ("events incomplete", "%", run.incomplete_per_cent().into()),
        ("fragments lost", "", run.fragments_lost.into()),
        (
            "frames lost, mean port",
            "",
            (run.frames_lost() as f64 / f64::from(point.builders)).into(),
        ),
        (
            "frames lost, worst port",
            "",
            run.port_lost.iter().copied().max().unwrap_or(0).into(),
        ),
        ("segments repeated", "", run.segments_repeated.into()),
        ("building time, mean", "ms", run.building_mean_ms().into()),
        ("building time, 99 %", "ms", run.building_ms(990).into()),
        (
            "building time, longest",
            "ms",
            run.building_ms(1_000).into(),
        ),
        (
            "port held at most",
            "KiB",
            (run.port_highest_bytes as f64 / 1024.0).into(),
        ),
        (
            "source held at most",
            "KiB",
            (run.source_highest_bytes as f64 / 1024.0).into(),
        ),
    ]
}
