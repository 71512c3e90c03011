//! The ring against an ATM switch with the same hosts: messages, streams into one host, and
//! damaged bits.

use barewire_classic::token::Class;
use barewire_models::afterburner::Stack;
use barewire_models::jetstream::{Discard, fibre_delay};
use barewire_units::{ByteSize, Duration, Rate, Rng};
use std::ops::RangeInclusive;

use super::super::cells::{Cells, CellsPlan};
use super::super::load::{self, LoadPlan, LoadRecord};
use super::super::net::{Medium, Network};
use super::super::parameters::Parameters;
use super::super::tcp::{self, TcpPlan, TcpRecord};
use super::common::{
    DURATION, ENTRIES, MESSAGE, Rings, mbps, offers, outcome, random_sources, share_of,
};
use super::ring::ERRORS_MAX;
use super::stream::{PROGRAM_MESSAGE, segment};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, LinkCapture, Outcome, Row, Setting, Table};
use crate::refuse::{inputs, within, wrong};
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "atm",
    question: "The ring against an ATM switch with the same hosts: delay and throughput of small and \
        large messages, of streams into one host, and with damaged bits?",
    inputs: include_str!("../../../plans/jetstream-atm.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        hosts: usize => 2..=16,
        cell_rates: Vec<Rate> => (ENTRIES, CELL_RATES),
        buffer_cells: Vec<usize> => (ENTRIES, 1..=BUFFER_CELLS_MAX),
        discards: Vec<String> => ENTRIES,
        early_threshold_per_cent: usize => 1..=100,
        loads: Vec<Rate> => (ENTRIES, LOADS),
        small: ByteSize => MESSAGE,
        large: ByteSize => MESSAGE,
        small_per_cent: u64 => 1..=99,
        messages_duration: Duration => DURATION,
        senders: usize,
        message: ByteSize => PROGRAM_MESSAGE,
        segment: ByteSize,
        socket_buffer: ByteSize,
        errors_per_gigabit: Vec<u64> => (ENTRIES, 0..=ERRORS_MAX),
        streams_duration: Duration => DURATION,
    }
}

const SMALL: usize = 0;
const LARGE: usize = 1;
pub const BUFFER_CELLS_MAX: usize = 1 << 20;
pub const CELL_RATES: RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(10);
const LOADS: RangeInclusive<Rate> = Rate::from_bps(1)..=Rate::from_gbps(100);

/// A network of the comparison.
#[derive(Clone, Debug)]
enum Choice {
    Ring,
    Atm {
        rate: Rate,
        buffer_cells: usize,
        discard: Discard,
        name: String,
    },
}

/// A run of the comparison.
#[derive(Clone, Debug)]
enum Point {
    Messages(Choice, Rate),
    Streams(Choice),
    Errors(Choice, u64),
}

/// What came of it.
enum Found {
    Messages(Box<LoadRecord>),
    Streams(Box<TcpRecord>),
}

impl Found {
    fn hash(&self) -> u64 {
        match self {
            Self::Messages(record) => record.hash,
            Self::Streams(record) => record.hash,
        }
    }

    fn links(&mut self) -> &mut Vec<LinkCapture> {
        match self {
            Self::Messages(record) => &mut record.links,
            Self::Streams(record) => &mut record.links,
        }
    }
}

pub fn discard(name: &str, buffer_cells: usize, per_cent: usize) -> Result<Discard, SystemError> {
    match name {
        "cells" => Ok(Discard::Cells),
        "partial" => Ok(Discard::Partial),
        "early" => {
            let threshold = buffer_cells * per_cent / 100;
            Ok(Discard::Early { threshold })
        }
        other => {
            let expected = "\"cells\", \"partial\" or \"early\"";
            Err(wrong("discards", format!("\"{other}\""), expected))
        }
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    Rings::one(&parameters, inputs.hosts).check()?;
    for name in &inputs.discards {
        discard(name, 1, 1)?;
    }
    for load in &inputs.loads {
        let small = share_of(*load, inputs.small_per_cent);
        offers("loads", small, inputs.small, inputs.messages_duration)?;
        offers("loads", *load, inputs.large, inputs.messages_duration)?;
    }
    within("senders", inputs.senders, 1..=inputs.hosts - 1)?;
    segment(&parameters, "segment", inputs.segment, inputs.socket_buffer)?;
    Ok((parameters, inputs))
}

fn points(inputs: &Inputs) -> Result<Vec<Point>, SystemError> {
    let roomy = inputs.buffer_cells.iter().copied().max().unwrap_or(1);
    let atm = |rate: Rate, buffer_cells: usize, how: &str| -> Result<Choice, SystemError> {
        let per_cent = inputs.early_threshold_per_cent;
        let mbps = rate.as_bps() as f64 / 1e6;
        Ok(Choice::Atm {
            rate,
            buffer_cells,
            discard: discard(how, buffer_cells, per_cent)?,
            name: format!("ATM {mbps} Mbit/s, {buffer_cells} cells, {how}"),
        })
    };
    let last = inputs.discards.last().map_or("cells", String::as_str);
    let mut plain = vec![Choice::Ring];
    for rate in &inputs.cell_rates {
        plain.push(atm(*rate, roomy, last)?);
    }
    let mut streams = vec![Choice::Ring];
    for rate in &inputs.cell_rates {
        for buffer_cells in &inputs.buffer_cells {
            for how in &inputs.discards {
                streams.push(atm(*rate, *buffer_cells, how)?);
            }
        }
    }
    let mut points = Vec::new();
    for load in &inputs.loads {
        points.extend(plain.iter().map(|it| Point::Messages(it.clone(), *load)));
    }
    points.extend(streams.into_iter().map(Point::Streams));
    for errors in &inputs.errors_per_gigabit {
        points.extend(plain.iter().map(|it| Point::Errors(it.clone(), *errors)));
    }
    Ok(points)
}

/// The network of a choice with so many hosts.
fn network(
    parameters: &Parameters,
    choice: &Choice,
    hosts: usize,
    (errors_per_gigabit, packets_per_link): (u64, usize),
    rng: &Rng,
) -> Result<Network, SystemError> {
    match choice {
        Choice::Ring => Rings {
            errors_per_gigabit,
            packets_per_link,
            ..Rings::one(parameters, hosts)
        }
        .build(rng),
        Choice::Atm {
            rate,
            buffer_cells,
            discard,
            ..
        } => {
            let per_metre = parameters.ring.fibre_per_metre;
            let plan = CellsPlan {
                hosts,
                rate: *rate,
                fibre: fibre_delay(per_metre, parameters.atm.length_m),
                latency: parameters.atm.latency,
                buffer_cells: *buffer_cells,
                discard: *discard,
                queue_messages: parameters.ring.queue_frames,
                errors_per_gigabit,
                packets_per_link,
            };
            let medium = Medium::Atm(Box::new(Cells::new(plan, rng)));
            Ok(Network::new(medium, packets_per_link > 0))
        }
    }
}

/// Every host sends small and large messages to any other.
fn messages(inputs: &Inputs, load: Rate) -> LoadPlan {
    let part = |per_cent: u64, size: ByteSize, group| {
        let rate = share_of(load, per_cent);
        let bytes = size.as_usize().unwrap_or(usize::MAX);
        random_sources(inputs.hosts, rate, bytes, Class::Asynchronous, group)
    };
    let mut sources = part(inputs.small_per_cent, inputs.small, SMALL);
    sources.extend(part(100 - inputs.small_per_cent, inputs.large, LARGE));
    LoadPlan::two_groups(inputs.hosts, sources, inputs.messages_duration)
}

fn streams(inputs: &Inputs, hosts: usize, senders: usize) -> TcpPlan {
    TcpPlan {
        hosts,
        streams: (1..=senders).map(|from| (from, 0)).collect(),
        stack: Stack::SingleCopy,
        segment_bytes: inputs.segment.as_bytes(),
        message_bytes: inputs.message.as_bytes(),
        socket_buffer_bytes: inputs.socket_buffer.as_bytes(),
        run_for: inputs.streams_duration,
        drain_for: Duration::ZERO,
    }
}

fn find(
    parameters: &Parameters,
    inputs: &Inputs,
    point: &Point,
    packets: usize,
    root: &Rng,
) -> Result<Found, SystemError> {
    match point {
        Point::Messages(choice, load) => {
            let network = network(parameters, choice, inputs.hosts, (0, packets), root)?;
            let rng = root.fork_nth("load", load.as_bps());
            let record = load::run(network, messages(inputs, *load), &rng)?;
            Ok(Found::Messages(Box::new(record)))
        }
        Point::Streams(choice) => {
            let hosts = inputs.senders + 1;
            let network = network(parameters, choice, hosts, (0, packets), root)?;
            let plan = streams(inputs, hosts, inputs.senders);
            let record = tcp::run(parameters, network, &plan, root)?;
            Ok(Found::Streams(Box::new(record)))
        }
        Point::Errors(choice, errors) => {
            let network = network(parameters, choice, 2, (*errors, packets), root)?;
            let record = tcp::run(parameters, network, &streams(inputs, 2, 1), root)?;
            Ok(Found::Streams(Box::new(record)))
        }
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let points = points(&inputs)?;
    let root = Rng::from_seed(setting.seed);
    // The ring's links of the first run are recorded, and the cells of the first on the switch.
    let is_atm = |point: &&Point| matches!(point, Point::Messages(Choice::Atm { .. }, _));
    let first_atm = points.iter().find(is_atm);
    let mut runs = try_sweep(setting, &points, |point, packets| {
        let first = first_atm.is_some_and(|first| std::ptr::eq(first, point));
        let packets = if first {
            setting.packets_per_link
        } else {
            packets
        };
        find(&parameters, &inputs, point, packets, &root)
    })?;
    let links = runs.iter_mut().flat_map(|run| std::mem::take(run.links()));
    let links = links.collect();
    let hashes = runs.iter().map(|run| (run.hash(), Vec::new()));
    Ok(Outcome {
        links,
        ..outcome(hashes).with(tables(&inputs, &points, &runs))
    })
}

fn tables(inputs: &Inputs, points: &[Point], runs: &[Found]) -> Vec<Table> {
    let of_load = |load: &Rate| {
        let mbps = load.as_bps() as f64 / 1e6;
        Table::named(format!("messages, {mbps} Mbit/s of all hosts together"))
    };
    let mut by_load: Vec<Table> = inputs.loads.iter().map(of_load).collect();
    let mut into_one = Table::named(format!("streams from {} hosts into one", inputs.senders));
    let mut errors = Table::named("one stream with damaged bits");
    for (point, run) in points.iter().zip(runs) {
        match (point, run) {
            (Point::Messages(choice, load), Found::Messages(run)) => {
                let place = inputs.loads.iter().position(|other| other == load);
                if let Some(place) = place {
                    by_load[place].row(message_row(choice, run));
                }
            }
            (Point::Streams(choice), Found::Streams(run)) => {
                into_one.row(stream_row(choice, run));
            }
            (Point::Errors(choice, count), Found::Streams(run)) => {
                errors.row(error_row(choice, *count, run));
            }
            _ => {}
        }
    }
    by_load.extend([into_one, errors]);
    by_load
}

fn name(choice: &Choice) -> Cell {
    match choice {
        Choice::Ring => "Jetstream".into(),
        Choice::Atm { name, .. } => name.clone().into(),
    }
}

fn message_row(choice: &Choice, run: &LoadRecord) -> Row<'static, 10> {
    let [small, large] = [SMALL, LARGE].map(|group| &run.groups[group]);
    [
        ("network", "", name(choice)),
        ("small delay", "us", small.delay.mean_us().into()),
        ("small p99", "us", small.delay.p99_us().into()),
        ("large delay", "us", large.delay.mean_us().into()),
        ("large p99", "us", large.delay.p99_us().into()),
        ("small", "Mbit/s", mbps(run, SMALL)),
        ("large", "Mbit/s", mbps(run, LARGE)),
        ("small lost", "%", small.lost_per_cent().into()),
        ("large lost", "%", large.lost_per_cent().into()),
        ("under way", "messages", run.on_their_way.into()),
    ]
}

fn stream_row(choice: &Choice, run: &TcpRecord) -> Row<'static, 8> {
    let dropped = match &run.network.medium {
        Medium::Rings(_) | Medium::Joined(_) => None,
        Medium::Atm(cells) => Some(cells.dropped()),
    };
    let (sent_again, timeouts) = repairs(run);
    [
        ("network", "", name(choice)),
        ("all together", "MB/s", run.mbytes_s().into()),
        ("the slowest", "MB/s", run.slowest_mbytes_s().into()),
        ("receiver busy", "%", run.busy.first().copied().into()),
        ("sent again", "segments", sent_again.into()),
        ("timeouts", "", timeouts.into()),
        ("cells dropped", "", dropped.into()),
        ("no block in the card", "segments", run.no_block.into()),
    ]
}

fn error_row(choice: &Choice, errors: u64, run: &TcpRecord) -> Row<'static, 6> {
    let tokens_lost = run.network.medium.lan().map(|lan| lan.tokens_lost);
    let (sent_again, timeouts) = repairs(run);
    [
        ("damaged bits", "of 10^9", errors.into()),
        ("network", "", name(choice)),
        ("one stream", "MB/s", run.mbytes_s().into()),
        ("sent again", "segments", sent_again.into()),
        ("timeouts", "", timeouts.into()),
        ("tokens lost", "", tokens_lost.into()),
    ]
}

fn repairs(run: &TcpRecord) -> (u64, u64) {
    let sum = |count: fn(&tcp::StreamRecord) -> u64| run.streams.iter().map(count).sum();
    (sum(|it| it.sent_again), sum(|it| it.timeouts))
}
