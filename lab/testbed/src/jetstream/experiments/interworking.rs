//! A ring and an ATM switch, joined by an interworking unit: messages both ways, and what is lost of them.

use barewire_classic::token::Class;
use barewire_models::jetstream::fibre_delay;
use barewire_units::{ByteSize, Duration, Rate, Rng};
use std::ops::RangeInclusive;

use super::super::cells::{Cells, CellsPlan};
use super::super::emulation::{CardBlocks, Made};
use super::super::joined::{Joined, JoinedPlan};
use super::super::load::{self, Gap, LoadPlan, LoadRecord, Source};
use super::super::net::{Medium, Network};
use super::super::parameters::Parameters;
use super::atm::{BUFFER_CELLS_MAX, CELL_RATES, discard};
use super::common::{DURATION, ENTRIES, MESSAGE, Rings, mbps, offers, outcome};
use crate::emulation::{Losses, Wanted};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting};
use crate::figures::bytes;
use crate::refuse::{inputs, within};
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "interworking",
    question: "A ring and ATM, joined by an interworking unit: what delay and throughput do messages have \
        both ways, and what becomes of lost cells?",
    inputs: include_str!("../../../plans/jetstream-interworking.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        ring_hosts: usize => 1..=15,
        atm_hosts: usize => 1..=15,
        length_m: u64,
        ttrt: Duration,
        cell_rate: Rate => CELL_RATES,
        buffer_cells: usize => 1..=BUFFER_CELLS_MAX,
        discard: String,
        early_threshold_per_cent: usize => 1..=100,
        unit_buffer: ByteSize => UNIT_BUFFER,
        idle_max: Duration => IDLE_MAX,
        loads: Vec<Rate> => (ENTRIES, LOADS),
        message: ByteSize => MESSAGE,
        lost_per_million: Vec<u64> => (ENTRIES, 0..=1_000_000),
        duration: Duration => DURATION,
    }
}

const UNIT_BUFFER: RangeInclusive<ByteSize> =
    ByteSize::from_bytes(1)..=ByteSize::from_bytes(1 << 30);
const IDLE_MAX: RangeInclusive<Duration> = Duration::from_us(1)..=Duration::from_s(100);
const LOADS: RangeInclusive<Rate> = Rate::from_bps(1)..=Rate::from_gbps(10);
const TO_ATM: usize = 0;
const TO_RING: usize = 1;

fn rings<'a>(parameters: &'a Parameters, inputs: &Inputs) -> Rings<'a> {
    Rings {
        length_m: inputs.length_m,
        ttrt: inputs.ttrt,
        unit: true,
        ..Rings::one(parameters, inputs.ring_hosts + 1)
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    rings(&parameters, &inputs).check()?;
    discard(&inputs.discard, 1, 1)?;
    for load in &inputs.loads {
        offers("loads", *load, inputs.message, inputs.duration)?;
    }
    Ok((parameters, inputs))
}

/// The network: what is lost at random is for the caller to say.
fn joined(
    parameters: &Parameters,
    inputs: &Inputs,
    packets_per_link: usize,
    rng: &Rng,
) -> Result<Joined, SystemError> {
    let rings = Rings {
        packets_per_link,
        ..rings(parameters, inputs)
    };
    let plan = CellsPlan {
        // The unit has the first of the links.
        hosts: inputs.atm_hosts + 1,
        rate: inputs.cell_rate,
        fibre: fibre_delay(parameters.ring.fibre_per_metre, parameters.atm.length_m),
        latency: parameters.atm.latency,
        buffer_cells: inputs.buffer_cells,
        discard: discard(
            &inputs.discard,
            inputs.buffer_cells,
            inputs.early_threshold_per_cent,
        )?,
        queue_messages: parameters.ring.queue_frames,
        errors_per_gigabit: 0,
        packets_per_link,
    };
    let cells = Cells::new(plan, rng).behind_unit(inputs.ring_hosts, inputs.unit_buffer.as_bytes());
    let plan = JoinedPlan {
        lan: rings.lan(rng)?,
        cells,
        hosts: [inputs.ring_hosts, inputs.atm_hosts],
        idle_max: inputs.idle_max,
    };
    Joined::new(plan)
}

fn network(joined: Joined, is_recorded: bool) -> Network {
    Network::new(Medium::Joined(Box::new(joined)), is_recorded)
}

/// The network, to carry packets from outside. Those of the ring are the first stations.
pub(in crate::jetstream) fn emulated(
    setting: &Setting<'_>,
    wanted: &Wanted,
) -> Result<Made, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let hosts = inputs.ring_hosts + inputs.atm_hosts;
    within("stations", usize::from(wanted.stations), 2..=hosts)?;
    let rng = Rng::from_seed(setting.seed);
    let joined = joined(&parameters, &inputs, wanted.packets_per_link, &rng)?;
    Ok(Made {
        network: network(joined, true),
        stations: hosts,
        queue_frames: parameters.ring.queue_frames,
        card: CardBlocks::of(&parameters),
        costs: parameters.host,
        has_one_ring: false,
        description: format!(
            "Jetstream: {} stations on {} m of fibre at {}, and {} more on ATM at {} beyond an interworking \
             unit, IP behind LLC/SNAP in AAL5",
            inputs.ring_hosts,
            inputs.length_m,
            parameters.ring.rate,
            inputs.atm_hosts,
            inputs.cell_rate
        ),
    })
}

/// Each host of a side sends to each of the other.
fn plan(inputs: &Inputs, load: Rate) -> LoadPlan {
    let (ring, atm) = (inputs.ring_hosts, inputs.atm_hosts);
    let flows = (ring * atm) as u64;
    let time = load.time_to_send(inputs.message);
    let mean = time.checked_mul(flows).unwrap_or(Duration::MAX);
    let source = |from, to, group| Source {
        from,
        to: Some(to),
        class: Class::Asynchronous,
        payload_bytes: bytes(inputs.message),
        gap: Gap::Random(mean),
        group,
    };
    let pairs = (0..ring).flat_map(|host| (ring..ring + atm).map(move |beyond| (host, beyond)));
    let both = |(host, beyond)| [source(host, beyond, TO_ATM), source(beyond, host, TO_RING)];
    let sources = pairs.flat_map(both).collect();
    LoadPlan::two_groups(ring + atm, sources, inputs.duration)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let losses = inputs.lost_per_million.iter();
    let with_loads = |&lost: &u64| inputs.loads.iter().map(move |&load| (lost, load));
    let points: Vec<(u64, Rate)> = losses.flat_map(with_loads).collect();
    let root = Rng::from_seed(setting.seed);
    let mut runs = try_sweep(setting, &points, |&(lost, load), packets| {
        let mut joined = joined(&parameters, &inputs, packets, &root)?;
        joined.lose_at_random(Some(Losses::new(root.fork("lose"), lost)));
        let rng = root.fork_nth("load", load.as_bps());
        load::run(network(joined, packets > 0), plan(&inputs, load), &rng)
    })?;
    let mut found = outcome(
        runs.iter_mut()
            .map(|run| (run.hash, std::mem::take(&mut run.links))),
    );
    for (point, run) in points.iter().zip(&runs) {
        let name = format!("{} of a million cells and frames lost at random", point.0);
        found.table(&name).row(row(point.1, run));
    }
    for (point, run) in points.iter().zip(&runs) {
        if let Medium::Joined(joined) = &run.network.medium {
            found.table("the unit").row(unit_row(*point, joined));
        }
    }
    Ok(found)
}

fn row(load: Rate, run: &LoadRecord) -> Row<'static, 12> {
    let [to_atm, to_ring] = [TO_ATM, TO_RING].map(|group| &run.groups[group]);
    [
        (
            "offered each way",
            "Mbit/s",
            (load.as_bps() as f64 / 1e6).into(),
        ),
        ("to ATM delay", "us", to_atm.delay.mean_us().into()),
        ("to ATM p99", "us", to_atm.delay.p99_us().into()),
        ("to ring delay", "us", to_ring.delay.mean_us().into()),
        ("to ring p99", "us", to_ring.delay.p99_us().into()),
        ("to ATM", "Mbit/s", mbps(run, TO_ATM)),
        ("to ring", "Mbit/s", mbps(run, TO_RING)),
        ("to ATM lost", "%", to_atm.lost_per_cent().into()),
        ("to ring lost", "%", to_ring.lost_per_cent().into()),
        (
            "no room",
            "messages",
            (to_atm.no_room + to_ring.no_room).into(),
        ),
        (
            "spoilt",
            "messages",
            (to_atm.spoilt + to_ring.spoilt).into(),
        ),
        ("under way", "messages", run.on_their_way.into()),
    ]
}

fn unit_row((lost, load): (u64, Rate), joined: &Joined) -> Row<'static, 9> {
    let (unit, random) = (joined.unit_stats(), joined.lost_at_random());
    [
        ("lost", "of 10^6", lost.into()),
        (
            "offered each way",
            "Mbit/s",
            (load.as_bps() as f64 / 1e6).into(),
        ),
        ("frames in", "", unit.frames_in.into()),
        ("cells out", "", unit.cells_out.into()),
        ("cells in", "", unit.cells_in.into()),
        ("frames out", "", unit.frames_out.into()),
        ("timed out", "PDUs", unit.timed_out.into()),
        (
            "most that waits for the line",
            "B",
            joined.cells.held_bytes_most().into(),
        ),
        ("lost at random", "", (random.cells + random.frames).into()),
    ]
}
