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
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::kek::parameters::Parameters;
use crate::refuse::{within, wrong};
use crate::replicate::replicate;

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
        let lists = [
            ("sizes", self.sizes.len()),
            ("controls", self.controls.len()),
            ("transports", self.transports.len()),
            ("distributions", self.distributions.len()),
        ];
        for (key, length) in lists {
            within(key, length, 1..=1_000)?;
        }
        let kib = ByteSize::from_kib;
        let byte = ByteSize::from_bytes(1);
        within("fragment", self.fragment, byte..=kib(1024))?;
        within(
            "fragment_largest",
            self.fragment_largest,
            byte..=kib(16 << 10),
        )?;
        within("sigma", self.sigma, 0.0..=3.0)?;
        within("events", self.events, 4..=1_000_000)?;
        within("load", self.load, 0.01..=10.0)?;
        within("pulled_events", self.pulled_events, 1..=10_000)?;
        let mtu = |bytes| ByteSize::from_bytes(bytes);
        within("mtu", self.mtu, mtu(576)..=mtu(9_000))?;
        let (slow, fast) = (Rate::from_mbps(1), Rate::from_gbps(1_000));
        within("source_link", self.source_link, slow..=fast)?;
        within("builder_link", self.builder_link, slow..=fast)?;
        let frame = ByteSize::from_bytes(self.mtu.as_bytes() + 18);
        let largest = ByteSize::from_gib(1 << 10);
        within("port_buffer", self.port_buffer, frame..=largest)?;
        within("source_buffer", self.source_buffer, frame..=largest)?;
        let us = Duration::from_us(1);
        within("timeout", self.timeout, us..=Duration::from_s(100))?;
        within("shaping_share", self.shaping_share, 0.01..=100.0)?;
        within("slot_fragments", self.slot_fragments, 0.1..=100.0)?;
        let second = Duration::from_s(1);
        within("clock_error", self.clock_error, Duration::ZERO..=second)?;
        within("credits", self.credits, 1..=100_000)?;
        within("window", self.window, 1..=1_000_000)?;
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
    let inputs: Inputs = setting.read_inputs()?;
    inputs.check(&parameters)?;
    let points = inputs.points()?;
    Ok((parameters, inputs, points))
}

fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs, points) = prepare(setting)?;
    setting.progress.announce(points.len() as u64);
    let runs = replicate(points.len(), |index| {
        let packets = if index == 0 {
            setting.packets_per_link
        } else {
            0
        };
        let shape = Shape::new(&parameters, &inputs, &points[index]);
        let found = world::run(&shape, setting.seed, packets);
        setting.progress.step();
        found
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut outcome = Outcome::default();
    let mut tables: Vec<Table> = Vec::new();
    for (point, run) in points.iter().zip(&runs) {
        let name = format!(
            "{}x{}, {} fragments",
            point.sources,
            point.builders,
            point.distribution.name()
        );
        if tables.last().is_none_or(|table| table.name != name) {
            tables.push(Table::new(name, &COLUMNS));
        }
        if let Some(table) = tables.last_mut() {
            table.push(row(point, run));
        }
        outcome.trace_hash = outcome.trace_hash.rotate_left(7) ^ run.hash;
    }
    outcome.tables = tables;
    outcome.links = runs
        .into_iter()
        .next()
        .map_or_else(Vec::new, |run| run.links);
    Ok(outcome)
}

const COLUMNS: [(&str, &str); 13] = [
    ("control", ""),
    ("events built", "1/s"),
    ("share of bottleneck", "%"),
    ("events incomplete", "%"),
    ("fragments lost", ""),
    ("frames lost, mean port", ""),
    ("frames lost, worst port", ""),
    ("segments repeated", ""),
    ("building time, mean", "ms"),
    ("building time, 99 %", "ms"),
    ("building time, longest", "ms"),
    ("port held at most", "KiB"),
    ("source held at most", "KiB"),
];

fn row(point: &Point, run: &Found) -> [Cell; 13] {
    [
        Cell::from(point.name()),
        Cell::from(run.events_per_s()),
        Cell::from(run.share_per_cent()),
        Cell::from(run.incomplete_per_cent()),
        Cell::from(run.fragments_lost),
        Cell::from(run.frames_lost() as f64 / f64::from(point.builders)),
        Cell::from(run.port_lost.iter().copied().max().unwrap_or(0)),
        Cell::from(run.segments_repeated),
        Cell::from(run.building_mean_ms()),
        Cell::from(run.building_ms(990)),
        Cell::from(run.building_ms(1_000)),
        Cell::from(run.port_highest_bytes as f64 / 1024.0),
        Cell::from(run.source_highest_bytes as f64 / 1024.0),
    ]
}
