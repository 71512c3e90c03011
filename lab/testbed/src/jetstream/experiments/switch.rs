//! Rings joined by the switch: bus against space division, cut-through against store and
//! forward, with and without a priority path that suspends.

use barewire_classic::token::Class;
use barewire_models::jetstream::{Division, SwitchConfig};
use barewire_units::{ByteSize, Duration, Rate, Rng};
use std::ops::RangeInclusive;

use super::super::emulation::{CardBlocks, Made};
use super::super::lan::HOSTS_MAX;
use super::super::load::{self, Gap, LoadPlan, LoadRecord, Source};
use super::super::parameters::Parameters;
use super::common::{DURATION, ENTRIES, MESSAGE, Rings, mbps, offers, outcome, periods, share_of};
use crate::emulation::Wanted;
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting, Table};
use crate::figures::bytes;
use crate::refuse::{inputs, within, wrong};
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "switch",
    question: "Rings joined by the switch: what do bus or space division, cut-through and a priority \
        path that suspends do for delay and throughput?",
    inputs: include_str!("../../../plans/jetstream-switch.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        rings: usize => 2..=16,
        hosts_per_ring: usize => 1..=15,
        length_m: u64,
        ttrt: Duration,
        channel: Rate => CHANNELS,
        loads_per_cent: Vec<u64> => (ENTRIES, 0..=LOAD_PER_CENT_MAX),
        message: ByteSize => MESSAGE,
        priority_message: ByteSize => MESSAGE,
        priority_period: Duration,
        allotment: Duration,
        port_allotment: Duration,
        duration: Duration => DURATION,
    }
}

const OTHER: usize = 0;
const PRIORITY: usize = 1;
const LOAD_PER_CENT_MAX: u64 = 200;
const CHANNELS: RangeInclusive<Rate> = Rate::from_mbps(1)..=Rate::from_gbps(100);

/// A way to build the switch.
#[derive(Clone, Copy)]
struct Build {
    division: Division,
    cut_through: bool,
    suspend: bool,
}

const DIVISIONS: [Division; 2] = [Division::Bus, Division::Space];

fn builds() -> Vec<Build> {
    let mut builds = Vec::new();
    for division in DIVISIONS {
        for cut_through in [false, true] {
            builds.extend([false, true].map(|suspend| Build {
                division,
                cut_through,
                suspend,
            }));
        }
    }
    builds
}

fn rings<'a>(parameters: &'a Parameters, inputs: &Inputs, build: Build) -> Rings<'a> {
    let config = SwitchConfig {
        ports: inputs.rings,
        channel: inputs.channel,
        division: build.division,
        suspend: build.suspend,
        cut_through: build.cut_through,
    };
    Rings {
        length_m: inputs.length_m,
        ttrt: inputs.ttrt,
        allotment: inputs.allotment,
        master_allotment: inputs.port_allotment,
        rings: inputs.rings,
        switch: Some(config),
        ..Rings::one(parameters, inputs.hosts_per_ring + 1)
    }
}

/// The rings and their switch, to carry packets from outside: with channels of their own, and cut-through. Stations are numbered
/// ring by ring.
pub(in crate::jetstream) fn emulated(
    setting: &Setting<'_>,
    wanted: &Wanted,
) -> Result<Made, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let hosts = inputs.rings * inputs.hosts_per_ring;
    within("stations", usize::from(wanted.stations), 2..=hosts)?;
    let build = Build {
        division: Division::Space,
        cut_through: true,
        suspend: false,
    };
    let mut rings = rings(&parameters, &inputs, build);
    rings.packets_per_link = wanted.packets_per_link;
    let network = rings.build(&Rng::from_seed(setting.seed))?;
    Ok(Made {
        network,
        stations: hosts,
        queue_frames: parameters.ring.queue_frames,
        card: CardBlocks::of(&parameters),
        costs: parameters.host,
        has_one_ring: false,
        description: format!(
            "Jetstream: {} rings of {} stations at a switch, {} m of fibre each at {}, IP behind LLC/SNAP in AAL5",
            inputs.rings, inputs.hosts_per_ring, inputs.length_m, parameters.ring.rate
        ),
    })
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    let hosts = inputs.rings * inputs.hosts_per_ring;
    if hosts > HOSTS_MAX {
        let found = format!("{hosts} hosts together");
        return Err(wrong("rings", found, format!("at most {HOSTS_MAX}")));
    }
    let rings = rings(&parameters, &inputs, builds()[0]);
    rings.check()?;
    rings.check_all("allotment, port_allotment")?;
    for load in &inputs.loads_per_cent {
        let rings = inputs.rings as u64;
        let rate = share_of(parameters.ring.rate, *load * rings);
        offers("loads_per_cent", rate, inputs.message, inputs.duration)?;
    }
    periods(
        "priority_period",
        hosts,
        inputs.priority_period,
        inputs.duration,
    )?;
    let shortest = Duration::from_us(10);
    within(
        "priority_period",
        inputs.priority_period,
        shortest..=inputs.duration,
    )?;
    Ok((parameters, inputs))
}

/// Every host sends to hosts of other rings: large messages at random, and priority messages
/// at their times.
fn plan(parameters: &Parameters, inputs: &Inputs, load_per_cent: u64, rng: &mut Rng) -> LoadPlan {
    let (per_ring, rings) = (inputs.hosts_per_ring, inputs.rings);
    let hosts = per_ring * rings;
    let mut elsewhere = |from: usize| {
        let ring = (from / per_ring + 1 + rng.index(rings - 1)) % rings;
        Some(ring * per_ring + rng.index(per_ring))
    };
    let time = parameters.ring.rate.time_to_send(inputs.message);
    // From each host to each other ring.
    let flows = per_ring as u64 * (rings as u64 - 1);
    let mean = time.checked_mul(flows * 100).unwrap_or(Duration::MAX) / load_per_cent.max(1);
    let flows_of_a_host = if load_per_cent == 0 { 0 } else { rings - 1 };
    let mut sources = Vec::new();
    for from in 0..hosts {
        sources.push(Source {
            from,
            to: elsewhere(from),
            class: Class::Synchronous,
            payload_bytes: bytes(inputs.priority_message),
            gap: Gap::Period(inputs.priority_period),
            group: PRIORITY,
        });
        sources.extend((0..flows_of_a_host).map(|step| {
            let ring = (from / per_ring + 1 + step) % rings;
            Source {
                from,
                to: Some(ring * per_ring + from % per_ring),
                class: Class::Asynchronous,
                payload_bytes: bytes(inputs.message),
                gap: Gap::Random(mean),
                group: OTHER,
            }
        }));
    }
    LoadPlan::two_groups(hosts, sources, inputs.duration)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let builds = builds();
    let loads = &inputs.loads_per_cent;
    let each = |&load: &u64| builds.iter().map(move |&build| (load, build));
    let points: Vec<(u64, Build)> = loads.iter().flat_map(each).collect();
    let root = Rng::from_seed(setting.seed);
    let mut runs = try_sweep(setting, &points, |&(load, build), packets_per_link| {
        let rings = Rings {
            packets_per_link,
            ..rings(&parameters, &inputs, build)
        };
        let network = rings.build(&root)?;
        // The same messages for every switch.
        let mut rng = root.fork_nth("load", load);
        let plan = plan(&parameters, &inputs, load, &mut rng);
        load::run(network, plan, &rng)
    })?;
    let taken = runs
        .iter_mut()
        .map(|run| (run.hash, std::mem::take(&mut run.links)));
    let outcome = outcome(taken);
    let table = |(load, runs): (&u64, &[LoadRecord])| {
        let name = format!("load {load} % of each ring to the others");
        let mut table = Table::named(name);
        for (build, run) in builds.iter().zip(runs) {
            table.row(row(*build, run));
        }
        table
    };
    let tables = loads.iter().zip(runs.chunks(builds.len())).map(table);
    Ok(outcome.with(tables))
}

fn row(build: Build, run: &LoadRecord) -> Row<'static, 11> {
    let division = match build.division {
        Division::Bus => "bus",
        Division::Space => "space",
    };
    let way = match build.cut_through {
        true => "cut-through",
        false => "stored",
    };
    let suspend = match build.suspend {
        true => ", suspends",
        false => "",
    };
    let [other, priority] = [OTHER, PRIORITY].map(|group| &run.groups[group]);
    [
        ("switch", "", format!("{division}, {way}{suspend}").into()),
        ("priority delay", "us", priority.delay.mean_us().into()),
        ("priority p99", "us", priority.delay.p99_us().into()),
        ("priority longest", "us", priority.delay.longest_us().into()),
        ("other delay", "us", other.delay.mean_us().into()),
        ("other p99", "us", other.delay.p99_us().into()),
        ("priority", "Mbit/s", mbps(run, PRIORITY)),
        ("other", "Mbit/s", mbps(run, OTHER)),
        (
            "no room",
            "frames",
            (other.no_room + priority.no_room).into(),
        ),
        (
            "refused",
            "frames",
            (other.refused + priority.refused).into(),
        ),
        ("under way", "frames", run.on_their_way.into()),
    ]
}
