//! Many endpoints on one server, and a card with fewer tripwires than that.

use barewire_units::Duration;

use super::common::{LIST, OFFERED, SERVED, read};
use crate::clan::many::{self, Activity, Found, Load, Setup, WhenFull};
use crate::clan::parameters::Parameters;
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting, Table};
use crate::refuse::{inputs, within};
use crate::sweep::sweep;

const ENDPOINTS_MAX: usize = 20_000;
const CAM_MAX: usize = 65_536;

pub const ENDPOINTS: Experiment = Experiment {
    name: "endpoints",
    question: "What do 2 to 10 000 endpoints on one server do to throughput and latency, and what limits?",
    inputs: include_str!("../../../plans/clan-endpoints.toml"),
    check: |setting| EndpointsInputs::read(setting).map(drop),
    run: endpoints,
};

inputs! {
    struct EndpointsInputs {
        endpoints: Vec<usize> => (LIST, 1..=ENDPOINTS_MAX),
        clients: usize,
        activity: Activity,
        when_full: WhenFull,
        window: usize => 1..=1000,
        offered: f64 => OFFERED,
        time: Duration => SERVED,
    }
}

impl EndpointsInputs {
    fn read(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        within("clients", inputs.clients, 1..=parameters.hosts_max() - 1)?;
        within("card.cam_entries", parameters.card.cam_entries, 1..=CAM_MAX)?;
        Ok((inputs, parameters))
    }
}

/// A server as busy as it can be, and one with the load that is offered.
fn both(
    setting: &Setting<'_>,
    parameters: &Parameters,
    setup: &Setup,
    (window, offered): (usize, f64),
    packets: usize,
) -> [Found; 2] {
    let loads = [(Load::Window(window), packets), (Load::Rate(offered), 0)];
    loads.map(|(load, packets)| {
        let setup = Setup { load, ..*setup };
        many::run(parameters, &setup, setting.seed, packets)
    })
}

/// What keeps a server from more, as far as the run tells: of what keeps its processor busy, the
/// most that could be saved.
fn limit(found: &Found, endpoints: usize) -> &'static str {
    let [processor, bus, line] = found.busy;
    if bus > 95.0 {
        "bus"
    } else if line > 95.0 {
        "line"
    } else if processor < 95.0 {
        "clients"
    } else if found.connected < endpoints {
        "endpoints refused"
    } else if found.empty_polls > 2.5 {
        "empty polls"
    } else if found.misses > 0.1 {
        "cache misses"
    } else {
        "processor"
    }
}

const MIB: f64 = (1 << 20) as f64;

fn endpoints(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = EndpointsInputs::read(setting)?;
    let found = sweep(setting, &inputs.endpoints, |&endpoints, packets| {
        let setup = Setup {
            clients: inputs.clients,
            endpoints,
            cam_entries: parameters.card.cam_entries,
            when_full: inputs.when_full,
            activity: inputs.activity,
            load: Load::Window(inputs.window),
            time: inputs.time,
        };
        let demand = (inputs.window, inputs.offered);
        both(setting, &parameters, &setup, demand, packets)
    });
    let mut answer = Outcome::default();
    let mut table = Table::named("server against endpoints");
    for (endpoints, [full, offered]) in inputs.endpoints.iter().zip(found) {
        let pinned = full.pinned_bytes as f64 / MIB;
        table.row([
            ("endpoints", "", (*endpoints).into()),
            ("connected", "", full.connected.into()),
            ("saturated", "1/s", full.rate.into()),
            ("round trip, mean", "us", offered.mean_us().into()),
            ("round trip, p99", "us", offered.p99_us().into()),
            ("tripwires", "", full.tripwires.into()),
            ("empty polls, each", "", full.empty_polls.into()),
            ("state from memory, each", "", full.misses.into()),
            ("processor", "%", full.busy[0].into()),
            ("bus", "%", full.busy[1].into()),
            ("pinned", "MiB", pinned.into()),
            ("limit", "", limit(&full, *endpoints).into()),
        ]);
        answer.add_run(full.hash, full.captures);
        answer.add_run(offered.hash, []);
    }
    Ok(answer.with([table]))
}

pub const CAM: Experiment = Experiment {
    name: "cam",
    question: "How many tripwires does the card need for how many endpoints, and what when it has fewer?",
    inputs: include_str!("../../../plans/clan-cam.toml"),
    check: |setting| CamInputs::read(setting).map(drop),
    run: cam,
};

inputs! {
    struct CamInputs {
        cam_entries: Vec<usize> => (LIST, 1..=CAM_MAX),
        endpoints: Vec<usize> => (LIST, 1..=ENDPOINTS_MAX),
        when_full: Vec<WhenFull> => LIST,
        clients: usize,
        activity: Activity,
        window: usize => 1..=1000,
        offered: f64 => OFFERED,
        time: Duration => SERVED,
    }
}

impl CamInputs {
    fn read(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        within("clients", inputs.clients, 1..=parameters.hosts_max() - 1)?;
        let points = inputs.cam_entries.len() * inputs.endpoints.len();
        within(
            "points of the experiment",
            points * inputs.when_full.len(),
            1..=10_000,
        )?;
        Ok((inputs, parameters))
    }
}

fn cam(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = CamInputs::read(setting)?;
    let mut points = Vec::new();
    for endpoints in &inputs.endpoints {
        for when_full in &inputs.when_full {
            let point = |cam: &usize| (*endpoints, *when_full, *cam);
            points.extend(inputs.cam_entries.iter().map(point));
        }
    }
    let found = sweep(
        setting,
        &points,
        |&(endpoints, when_full, cam_entries), packets| {
            let setup = Setup {
                clients: inputs.clients,
                endpoints,
                cam_entries,
                when_full,
                activity: inputs.activity,
                load: Load::Window(inputs.window),
                time: inputs.time,
            };
            let demand = (inputs.window, inputs.offered);
            both(setting, &parameters, &setup, demand, packets)
        },
    );
    let mut answer = Outcome::default();
    let mut table = Table::named("server against tripwires");
    for ((endpoints, when_full, cam_entries), [full, offered]) in points.into_iter().zip(found) {
        table.row([
            ("entries", "", cam_entries.into()),
            ("endpoints", "", endpoints.into()),
            ("when full", "", when_full.name().into()),
            ("connected", "", full.connected.into()),
            ("tripwires", "", full.tripwires.into()),
            ("saturated", "1/s", full.rate.into()),
            ("round trip, mean", "us", offered.mean_us().into()),
            ("round trip, p99", "us", offered.p99_us().into()),
            ("empty polls, each", "", full.empty_polls.into()),
        ]);
        answer.add_run(full.hash, full.captures);
        answer.add_run(offered.hash, []);
    }
    Ok(answer.with([table]))
}
