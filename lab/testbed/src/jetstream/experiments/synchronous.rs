//! Real-time traffic of the synchronous class beside asynchronous load: is the promised access
//! kept, and what happens to the same traffic without the class?

use barewire_classic::token::Class;
use barewire_formats::aal5;
use barewire_units::{ByteSize, Duration, Rng};

use super::super::load::{self, Gap, LoadPlan, LoadRecord, Source};
use super::super::parameters::{LENGTH_M_MAX, Parameters};
use super::common::{
    DURATION, ENTRIES, MESSAGE, Rings, frame_bytes, mbps, offers, outcome, periods,
};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting, Table};
use crate::figures::bytes;
use crate::refuse::{inputs, within, wrong};
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "synchronous",
    question: "Does the synchronous class keep its bound beside any asynchronous load, and what do \
        the same messages get without it?",
    inputs: include_str!("../../../plans/jetstream-synchronous.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        stations: usize => 2..=16,
        length_m: u64 => 1..=LENGTH_M_MAX,
        ttrt: Duration,
        shares_per_cent: Vec<u64> => (ENTRIES, 1..=SHARE_PER_CENT_MAX),
        backgrounds: Vec<ByteSize> => (ENTRIES, ByteSize::from_bytes(0)..=*MESSAGE.end()),
        period: Duration,
        deadline: Duration,
        duration: Duration => DURATION,
    }
}

const SYNCHRONOUS: usize = 0;
const BACKGROUND: usize = 1;
/// Shares beyond this many times the room show nothing new.
const SHARE_PER_CENT_MAX: u64 = 300;

/// A point: whether the class is used, the share of the room, the background's messages.
type Point = (bool, u64, ByteSize);

fn rings<'a>(parameters: &'a Parameters, inputs: &Inputs, share_per_cent: u64) -> Rings<'a> {
    let rings = Rings {
        length_m: inputs.length_m,
        ttrt: inputs.ttrt,
        ..Rings::one(parameters, inputs.stations)
    };
    let room = rings.budget().synchronous_room();
    let sum = room / 100 * share_per_cent;
    let each = sum / inputs.stations as u64;
    Rings {
        allotment: each,
        master_allotment: each,
        ..rings
    }
}

/// The longest payload whose frame fits `allotment`.
fn payload_bytes(parameters: &Parameters, allotment: Duration) -> Option<usize> {
    const CELL_PAYLOAD: usize = 48;
    let line = parameters.ring.rate.bytes_in(allotment).as_usize()?;
    let overhead = frame_bytes(parameters, 1) - CELL_PAYLOAD;
    let pdu = line.checked_sub(overhead)? / CELL_PAYLOAD * CELL_PAYLOAD;
    let payload = pdu.checked_sub(aal5::TRAILER_BYTES)?;
    let payload = payload.min(aal5::PAYLOAD_BYTES_MAX);
    (payload > 0).then_some(payload)
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    for &share in &inputs.shares_per_cent {
        let rings = rings(&parameters, &inputs, share);
        rings.check()?;
        if payload_bytes(&parameters, rings.allotment).is_none() {
            let found = format!("{share}, an allotment of {}", rings.allotment);
            return Err(wrong("shares_per_cent", found, "room for a frame"));
        }
    }
    for &size in inputs.backgrounds.iter().filter(|size| size.as_bytes() > 0) {
        offers("backgrounds", parameters.ring.rate, size, inputs.duration)?;
    }
    within(
        "period",
        inputs.period,
        Duration::from_us(10)..=inputs.duration,
    )?;
    periods("period", inputs.stations, inputs.period, inputs.duration)?;
    Ok((parameters, inputs))
}

fn points(inputs: &Inputs) -> Vec<Point> {
    let mut points = Vec::new();
    for class in [true, false] {
        for share in &inputs.shares_per_cent {
            points.extend(inputs.backgrounds.iter().map(|size| (class, *share, *size)));
        }
    }
    points
}

fn plan(inputs: &Inputs, payload_bytes: usize, (class, _, background): Point) -> LoadPlan {
    let class = match class {
        true => Class::Synchronous,
        false => Class::Asynchronous,
    };
    let (hosts, gap) = (inputs.stations, Gap::Period(inputs.period));
    let own = Source::at_each(hosts, class, payload_bytes, gap, SYNCHRONOUS);
    let mut sources: Vec<Source> = own.collect();
    if background > ByteSize::from_bytes(0) {
        let (class, bytes) = (Class::Asynchronous, bytes(background));
        sources.extend(Source::at_each(
            hosts,
            class,
            bytes,
            Gap::Always(2),
            BACKGROUND,
        ));
    }
    LoadPlan {
        deadline: inputs.deadline,
        ..LoadPlan::two_groups(inputs.stations, sources, inputs.duration)
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let points = points(&inputs);
    let root = Rng::from_seed(setting.seed);
    let mut runs = try_sweep(setting, &points, |&point, packets_per_link| {
        let rings = Rings {
            packets_per_link,
            ..rings(&parameters, &inputs, point.1)
        };
        let payload_bytes = payload_bytes(&parameters, rings.allotment).unwrap_or(1);
        let network = rings.build(&root)?;
        // The same phases and receivers with and without the class.
        let rng = root.fork("load");
        load::run(network, plan(&inputs, payload_bytes, point), &rng)
    })?;
    let taken = runs
        .iter_mut()
        .map(|run| (run.hash, std::mem::take(&mut run.links)));
    let outcome = outcome(taken);
    let mut tables = [
        "messages of the synchronous class",
        "the same messages without the class",
    ]
    .map(Table::named);
    for (point, run) in points.iter().zip(&runs) {
        let allotment = rings(&parameters, &inputs, point.1).allotment;
        tables[usize::from(!point.0)].row(row(*point, allotment, run));
    }
    Ok(outcome.with(tables))
}

fn row((_, share, background): Point, allotment: Duration, run: &LoadRecord) -> Row<'static, 11> {
    let [own, others] = [SYNCHRONOUS, BACKGROUND].map(|group| &run.groups[group]);
    let sent = own.access.count();
    let late = (sent > 0).then(|| own.late as f64 * 100.0 / sent as f64);
    [
        ("allotments", "% of the room", share.into()),
        ("other messages", "B", background.as_bytes().into()),
        ("allotment", "us", (allotment.as_ps() as f64 * 1e-6).into()),
        ("access mean", "us", own.access.mean_us().into()),
        ("access p99", "us", own.access.p99_us().into()),
        ("access longest", "us", own.access.longest_us().into()),
        ("late", "%", late.into()),
        ("rate", "Mbit/s", mbps(run, SYNCHRONOUS)),
        ("lost", "%", own.lost_per_cent().into()),
        (
            "others' longest pause",
            "us",
            others.gap.longest_us().into(),
        ),
        ("others' rate", "Mbit/s", mbps(run, BACKGROUND)),
    ]
}
