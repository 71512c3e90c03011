//! A ring of one's own: rotation of the token, access, delay and throughput of both classes.

use barewire_classic::token::Class;
use barewire_units::{ByteSize, Duration, Rng};

use super::super::load::{self, Gap, LoadPlan, LoadRecord, Source};
use super::super::parameters::Parameters;
use super::common::{
    DURATION, ENTRIES, MESSAGE, Rings, frame_bytes, mbps, offers, outcome, periods, random_sources,
    share_of,
};
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Row, Setting, Table};
use crate::figures::bytes;
use crate::refuse::{inputs, within, wrong};
use crate::sweep::try_sweep;

pub const EXPERIMENT: Experiment = Experiment {
    name: "ring",
    question: "A ring of one's own: how long does the token take, how long do frames wait, and how \
        much of each class gets through?",
    inputs: include_str!("../../../plans/jetstream-ring.toml"),
    check: |setting| read(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        stations: usize => 2..=16,
        length_m: u64,
        ttrt: Duration,
        loads_per_cent: Vec<u64> => (ENTRIES, 0..=LOAD_PER_CENT_MAX),
        message: ByteSize => MESSAGE,
        synchronous_allotment: Duration,
        synchronous_message: ByteSize,
        synchronous_period: Duration,
        errors_per_gigabit: u64 => 0..=ERRORS_MAX,
        duration: Duration => DURATION,
    }
}

/// Offered loads beyond this many times the ring's rate show nothing new.
const LOAD_PER_CENT_MAX: u64 = 400;
/// More damaged bits than one in ten thousand leave no ring.
pub const ERRORS_MAX: u64 = 100_000;
const ASYNCHRONOUS: usize = 0;
const SYNCHRONOUS: usize = 1;

fn rings<'a>(parameters: &'a Parameters, inputs: &Inputs) -> Rings<'a> {
    Rings {
        length_m: inputs.length_m,
        ttrt: inputs.ttrt,
        allotment: inputs.synchronous_allotment,
        master_allotment: inputs.synchronous_allotment,
        errors_per_gigabit: inputs.errors_per_gigabit,
        ..Rings::one(parameters, inputs.stations)
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    let rings = rings(&parameters, &inputs);
    rings.check()?;
    rings.check_all("synchronous_allotment")?;
    for load in &inputs.loads_per_cent {
        let rate = share_of(parameters.ring.rate, *load);
        offers("loads_per_cent", rate, inputs.message, inputs.duration)?;
    }
    if inputs.synchronous_allotment.is_zero() {
        return Ok((parameters, inputs));
    }
    within("synchronous_message", inputs.synchronous_message, MESSAGE)?;
    let shortest = Duration::from_us(1);
    within(
        "synchronous_period",
        inputs.synchronous_period,
        shortest..=inputs.duration,
    )?;
    periods(
        "synchronous_period",
        inputs.stations,
        inputs.synchronous_period,
        inputs.duration,
    )?;
    let payload_bytes = inputs.synchronous_message.as_usize().unwrap_or_default();
    let bytes = frame_bytes(&parameters, payload_bytes);
    let time = parameters.ring.rate.time_to_send(ByteSize::from(bytes));
    if time > inputs.synchronous_allotment {
        let expected = format!("a frame of at most {}", inputs.synchronous_allotment);
        return Err(wrong("synchronous_message", time, expected));
    }
    Ok((parameters, inputs))
}

fn plan(parameters: &Parameters, inputs: &Inputs, load_per_cent: u64) -> LoadPlan {
    let rate = share_of(parameters.ring.rate, load_per_cent);
    let class = Class::Asynchronous;
    let hosts = inputs.stations;
    let mut sources = random_sources(hosts, rate, bytes(inputs.message), class, ASYNCHRONOUS);
    if load_per_cent == 0 {
        sources.clear();
    }
    if !inputs.synchronous_allotment.is_zero() {
        let payload_bytes = bytes(inputs.synchronous_message);
        let gap = Gap::Period(inputs.synchronous_period);
        let class = Class::Synchronous;
        sources.extend(Source::at_each(
            hosts,
            class,
            payload_bytes,
            gap,
            SYNCHRONOUS,
        ));
    }
    LoadPlan::two_groups(hosts, sources, inputs.duration)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let loads = &inputs.loads_per_cent;
    let root = Rng::from_seed(setting.seed);
    let mut runs = try_sweep(setting, loads, |&load, packets_per_link| {
        let rings = Rings {
            packets_per_link,
            ..rings(&parameters, &inputs)
        };
        let network = rings.build(&root)?;
        let rng = root.fork_nth("load", load);
        load::run(network, plan(&parameters, &inputs, load), &rng)
    })?;
    let mut token = Table::named("token and access against load");
    let mut through = Table::named("delay, throughput and loss against load");
    for (load, run) in loads.iter().zip(&runs) {
        token.row(token_row(*load, run));
        through.row(through_row(*load, run));
    }
    let taken = runs
        .iter_mut()
        .map(|run| (run.hash, std::mem::take(&mut run.links)));
    Ok(outcome(taken).with([token, through]))
}

fn token_row(load: u64, run: &LoadRecord) -> Row<'static, 10> {
    let rotations = run.rotations();
    let [asynchronous, synchronous] = [ASYNCHRONOUS, SYNCHRONOUS].map(|it| &run.groups[it].access);
    [
        ("offered load", "% of the line", load.into()),
        ("rotation mean", "us", rotations.mean_us().into()),
        ("rotation p99", "us", rotations.p99_us().into()),
        ("rotation longest", "us", rotations.longest_us().into()),
        (
            "asynchronous access mean",
            "us",
            asynchronous.mean_us().into(),
        ),
        (
            "asynchronous access p99",
            "us",
            asynchronous.p99_us().into(),
        ),
        (
            "asynchronous access longest",
            "us",
            asynchronous.longest_us().into(),
        ),
        (
            "synchronous access mean",
            "us",
            synchronous.mean_us().into(),
        ),
        ("synchronous access p99", "us", synchronous.p99_us().into()),
        (
            "synchronous access longest",
            "us",
            synchronous.longest_us().into(),
        ),
    ]
}

fn through_row(load: u64, run: &LoadRecord) -> Row<'static, 10> {
    let groups = &run.groups;
    let sum = |count: fn(&load::Group) -> u64| groups.iter().map(count).sum::<u64>();
    let lan = run.network.medium.lan();
    let (tokens_lost, slips) = lan.map_or((0, 0), |lan| (lan.tokens_lost, lan.slips()));
    [
        ("offered load", "% of the line", load.into()),
        (
            "asynchronous delay mean",
            "us",
            groups[ASYNCHRONOUS].delay.mean_us().into(),
        ),
        (
            "asynchronous delay p99",
            "us",
            groups[ASYNCHRONOUS].delay.p99_us().into(),
        ),
        ("asynchronous", "Mbit/s", mbps(run, ASYNCHRONOUS)),
        ("synchronous", "Mbit/s", mbps(run, SYNCHRONOUS)),
        ("refused", "frames", sum(|group| group.refused).into()),
        ("damaged", "frames", sum(|group| group.damaged).into()),
        ("tokens lost", "", tokens_lost.into()),
        ("slips between clocks", "", slips.into()),
        ("under way", "frames", run.on_their_way.into()),
    ]
}
