//! Runs a network: hosts on the bench of the workbench, what is between them, and programs; and
//! makes tables of what was found.

use std::collections::BTreeMap;

use barewire_des::{Simulator, World};
use barewire_units::{Duration, Instant, Rng};

use super::capture;
use super::description::{Description, DeviceKind, HostSpec, RingKind};
use super::device::{Device, PortState};
use super::kinds::{Kinds, Wrong};
use super::places::Line;
use super::programs::{Hands, Program, Tables};
use super::rings::{Ring, RingTables, SlottedRing, TokenRing};
use super::switch::Switch;
use super::unit::Unit;
use super::wiring::{Chance, Link, Standing, Wiring};
use crate::error::SystemError;
use crate::experiment::{Outcome, Table};
use crate::figures::{per_cent, us};
use crate::workbench::bench::{Bench, Ended, Fate, HostParts, Note, Place, Sim, What};
use crate::workbench::path::Part;

/// A network that runs.
struct Running {
    bench: Bench,
    wiring: Wiring,
    programs: Vec<Box<dyn Program>>,
    alone: Vec<bool>,
    /// The cards that each program names, by host.
    cards: Vec<BTreeMap<u16, u8>>,
    owners: Vec<u16>,
    ticks: Vec<(u16, u32)>,
    /// When the last program had done what it was to do.
    ended: Option<Instant>,
    events: u64,
}

/// Events of a run, after which it is given up: rings turn for as long as somebody waits.
const EVENTS_MAX: u64 = if cfg!(fuzzing) {
    100_000
} else {
    4_000_000_000
};

impl Running {
    /// Lets a program do something.
    fn with<T>(
        &mut self,
        program: u16,
        sim: &mut Sim,
        act: impl FnOnce(&mut dyn Program, &mut Hands<'_>) -> T,
    ) -> T {
        let number = usize::from(program);
        let mut hands = Hands {
            bench: &mut self.bench,
            sim,
            program,
            alone: self.alone[number],
            cards: &self.cards[number],
            owners: &mut self.owners,
            packets: &mut self.wiring.packets,
            ticks: &mut self.ticks,
        };
        act(self.programs[number].as_mut(), &mut hands)
    }

    fn begin(&mut self, sim: &mut Sim) {
        self.wiring.start(&mut self.bench, sim);
        for program in 0..self.programs.len() {
            self.with(program as u16, sim, |it, hands| it.begin(hands));
        }
    }

    /// Tells programs what has happened, until nothing more does.
    fn settle(&mut self, sim: &mut Sim) {
        loop {
            self.wiring.take_handed(&mut self.bench, sim);
            if let Some(message) = self.bench.lost.pop() {
                let program = self.owners[message as usize];
                self.with(program, sim, |it, hands| it.lost(message, hands));
            } else if let Some((host, note)) = self.bench.poll_note() {
                self.note(host, note, sim);
                self.bench.go_on(host, sim);
            } else {
                break;
            }
        }
        if self.ended.is_none() && self.programs.iter().all(|it| it.is_done()) {
            self.ended = Some(sim.now());
        }
        let now = sim.now();
        if self.ended.is_some() && self.wiring.rings.iter().all(|ring| ring.is_done(now)) {
            sim.stop();
        }
    }

    fn note(&mut self, host: u16, note: Note, sim: &mut Sim) {
        let (program, note) = match note {
            Note::Tick(tick) => {
                let (program, number) = self.ticks[tick as usize];
                (program, Note::Tick(number))
            }
            Note::Returned(message) | Note::Received(message) | Note::Worked(message) => {
                (self.owners[message as usize], note)
            }
        };
        self.with(program, sim, |it, hands| it.note(host, note, hands));
    }
}

impl World for Running {
    type Event = Ended;

    fn handle(&mut self, event: Ended, sim: &mut Sim) {
        match event.what {
            What::Beyond(number) => {
                self.wiring.happen(number, event.step, &mut self.bench, sim);
            }
            _ => self.bench.handle(event, sim),
        }
        self.settle(sim);
        self.events += 1;
        if self.events >= EVENTS_MAX {
            sim.stop();
        }
    }
}

fn link(description: &Description, number: usize, rng: &Rng, wanted: &Wanted<'_>) -> Link {
    let spec = &description.links[number];
    let hosts = description.hosts.len();
    let host = spec.ends.iter().find_map(|end| match end {
        super::places::End::Card(card) => Some(card.host),
        super::places::End::Port { .. } => None,
    });
    let named = |name: &String| spec.is_named(name);
    let is_recorded = wanted.links.is_empty() || wanted.links.iter().any(named);
    let packets = wanted.packets_per_link;
    let capture = || capture::of_link(&spec.name, &spec.framing, packets);
    Link {
        ends: spec.ends,
        framing: spec.framing,
        way: spec.way,
        node: host.unwrap_or((hosts + number) as u16),
        place: description.link_place(number),
        frames: [0; 2],
        busy: [Duration::ZERO; 2],
        chance: Chance::new(spec.loss, rng.fork_nth("loss", number as u64)),
        capture: (packets > 0 && is_recorded).then(capture),
    }
}

fn device(
    description: &Description,
    number: usize,
    kinds: &dyn Kinds,
    rng: &Rng,
) -> Result<Standing, SystemError> {
    let spec = &description.devices[number];
    let (device, part): (Box<dyn Device>, Part) = match &spec.kind {
        DeviceKind::Switch(switch) => (Box::new(Switch::new(*switch)), Part::Switch),
        DeviceKind::Unit(unit) => (Box::new(Unit::new(unit.clone())), Part::Unit),
        DeviceKind::Own { kind, keys } => {
            let made = kinds.make(kind, spec.ports.len(), keys);
            let wrong = |wrong: Wrong| {
                let key = format!("{}.{}", spec.key, wrong.key);
                SystemError::Contradiction(format!("{key}: {}", wrong.problem))
            };
            (made.map_err(wrong)?, Part::Device)
        }
    };
    let unused = super::places::Line::Link {
        link: usize::MAX,
        end: 0,
    };
    let line = |port: &Option<super::description::PortSpec>| {
        port.as_ref().map_or(unused, |port| port.line)
    };
    // A port that nothing is attached to is never free.
    let state = |port: &Option<super::description::PortSpec>| PortState {
        framing: port.as_ref().map_or(NO_FRAMING, |port| port.framing),
        free: port.is_some(),
    };
    Ok(Standing {
        device,
        lines: spec.ports.iter().map(line).collect(),
        ways: spec.ways.clone(),
        part,
        place: description.device_place(number),
        node: (description.hosts.len() + description.links.len() + number) as u16,
        rng: rng.fork_nth("device", number as u64),
        ports: spec.ports.iter().map(state).collect(),
    })
}

const NO_FRAMING: barewire_models::workbench::Framing = barewire_models::workbench::Framing {
    rate: barewire_units::Rate::from_bps(1),
    payload_bytes: 1,
    least_bytes: 0,
    overhead_bytes: 0,
    trailer_bytes: 0,
};

fn ring(description: &Description, number: usize, rng: &Rng) -> Result<Ring, SystemError> {
    let spec = &description.rings[number];
    let mut ring = match &spec.kind {
        RingKind::Slotted(kind) => Ring::slotted(SlottedRing::new(kind.clone(), rng)?),
        RingKind::Token(kind) => Ring::token(TokenRing::new(kind, rng)?),
    };
    let before = description.hosts.len() + description.links.len() + description.devices.len();
    ring.place = description.ring_place(number);
    ring.node = (before + number) as u16;
    ring.ends = spec.ends.iter().map(|end| Some(*end)).collect();
    ring.ways.clone_from(&spec.ways);
    Ok(ring)
}

fn lines_of(host: &HostSpec) -> Vec<Line> {
    host.cards.iter().map(|card| card.line).collect()
}

fn start(
    description: &Description,
    kinds: &dyn Kinds,
    wanted: &Wanted<'_>,
) -> Result<Running, SystemError> {
    let rng = Rng::from_seed(wanted.seed);
    let parts = description.hosts.iter().map(|host| HostParts {
        cards: host.cards.iter().map(|it| it.parameters.clone()).collect(),
        ways: host.ways.clone(),
        forwards: host.forwards,
    });
    let parts: Vec<HostParts> = parts.collect();
    let links = (0..description.links.len()).map(|number| link(description, number, &rng, wanted));
    let devices =
        (0..description.devices.len()).map(|number| device(description, number, kinds, &rng));
    let rings = (0..description.rings.len()).map(|number| {
        // The first ring draws as its own system does.
        let own = rng.fork_nth("ring", number as u64);
        ring(description, number, if number == 0 { &rng } else { &own })
    });
    let wiring = Wiring::new(
        description.hosts.iter().map(lines_of).collect(),
        links.collect(),
        devices.collect::<Result<_, _>>()?,
        rings.collect::<Result<_, _>>()?,
    );
    let programs = description.programs.iter().enumerate();
    let programs: Vec<Box<dyn Program>> = programs
        .map(|(number, program)| {
            // The first program draws as the workbench's does.
            let own = rng.fork_nth("program", number as u64);
            program.spec.begin(if number == 0 { &rng } else { &own })
        })
        .collect();
    let hosts: Vec<Vec<u16>> = description
        .programs
        .iter()
        .map(|program| program.spec.hosts())
        .collect();
    let alone = (0..hosts.len()).map(|one| {
        let mut others = (0..hosts.len()).filter(|&other| other != one);
        !others.any(|other| hosts[other].iter().any(|host| hosts[one].contains(host)))
    });
    Ok(Running {
        bench: Bench::apart(&parts),
        wiring,
        alone: alone.collect(),
        cards: description
            .programs
            .iter()
            .map(|program| program.cards.clone())
            .collect(),
        programs,
        owners: Vec::new(),
        ticks: Vec::new(),
        ended: None,
        events: 0,
    })
}

/// How a network is to be run.
pub(super) struct Wanted<'a> {
    pub seed: u64,
    /// After which it ends in any case.
    pub limit: Duration,
    /// Links to record, by name; none named: all.
    pub links: &'a [String],
    pub packets_per_link: usize,
}

/// Runs a network until its programs are done, or until the limit.
pub(super) fn run(
    description: &Description,
    kinds: &dyn Kinds,
    wanted: &Wanted<'_>,
) -> Result<Outcome, SystemError> {
    let mut running = start(description, kinds, wanted)?;
    if description.programs.len() != 1 {
        // Steps are kept from one round trip to the next, which only one program can do.
        running.bench.paths.turn_off();
        running.alone.fill(false);
    }
    let is_ping = |program: &super::description::NamedProgram| {
        matches!(program.spec, super::programs::ProgramSpec::Ping(_))
    };
    if !description.programs.iter().any(is_ping) {
        running.bench.paths.turn_off();
    }
    let mut sim: Sim = Simulator::new();
    running.begin(&mut sim);
    running.settle(&mut sim);
    sim.run_until(Instant::ORIGIN.saturating_add(wanted.limit), &mut running);
    if running.events >= EVENTS_MAX {
        let text = format!(
            "given up after {EVENTS_MAX} events, at {} of the model: choose less, or a shorter inputs.time",
            sim.now().since_origin()
        );
        return Err(SystemError::Contradiction(text));
    }
    let end = running.ended.unwrap_or(sim.now());
    let end = match running.programs.is_empty() {
        true => sim.now(),
        false => end,
    };
    let mut outcome = Outcome::default();
    let links = running.wiring.links.iter_mut();
    let captures: Vec<_> = links.filter_map(|link| link.capture.take()).collect();
    outcome.add_run(sim.trace_hash(), captures);
    Ok(outcome.with(tables(description, &mut running, end)))
}

/// The tables that have rows.
fn tables(description: &Description, running: &mut Running, end: Instant) -> Vec<Table> {
    let mut own = Tables {
        pings: Table::named("round trips"),
        streams: Table::named("streams"),
        requests: Table::named("requests"),
        incasts: Table::named("rounds from many to one"),
        tcp_streams: Table::named("TCP streams"),
        tcp_requests: Table::named("TCP requests"),
        paths: Vec::new(),
    };
    for (program, named) in running.programs.iter_mut().zip(&description.programs) {
        program.tell(&named.name, &running.bench, &mut own);
    }
    let paths = paths(description, &own);
    let mut rings = RingTables::new();
    for (ring, spec) in running.wiring.rings.iter_mut().zip(&description.rings) {
        ring.tell(&spec.name, end, &mut rings);
    }
    let all = [
        own.pings,
        own.streams,
        own.requests,
        own.incasts,
        own.tcp_streams,
        own.tcp_requests,
        paths,
        rings.cells,
        rings.messages,
        messages(description, running),
        hosts(description, running, end),
        forwarded(description, running),
        links(description, running, end),
        losses(description, running),
        devices(description, running),
        rings.slotted,
        rings.token,
    ];
    all.into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

/// Where the time of a round trip goes: the critical path, place by place.
fn paths(description: &Description, tables: &Tables) -> Table {
    let mut table = Table::named("where the time of a round trip goes: the critical path");
    let sum: f64 = tables.paths.iter().map(|&(.., time_us)| time_us).sum();
    let mut paths: Vec<_> = tables.paths.iter().collect();
    paths.retain(|(.., time_us)| *time_us > 0.0);
    paths.sort_by_key(|(_, place, ..)| *place);
    for (_, place, part, time_us) in paths {
        table.row([
            ("where", "", description.place(*place).into()),
            ("on what", "", (*part).into()),
            ("time", "us", (*time_us).into()),
            ("share", "%", (100.0 * time_us / sum).into()),
        ]);
    }
    if !table.rows.is_empty() {
        let all = ["all", "the whole round trip"];
        table.push([all[0].into(), all[1].into(), sum.into(), 100.0.into()]);
    }
    table
}

/// What became of the messages of each program.
fn messages(description: &Description, running: &Running) -> Table {
    let mut table = Table::named("messages");
    for (number, program) in description.programs.iter().enumerate() {
        let own = running.bench.messages.iter().zip(&running.owners);
        let own = own.filter(|(_, owner)| usize::from(**owner) == number);
        let fates: Vec<Fate> = own.map(|(message, _)| message.fate).collect();
        let count = |fate| fates.iter().filter(|&&it| it == fate).count();
        let lost = |place| count(Fate::Lost(place)).into();
        table.row([
            ("program", "", program.name.as_str().into()),
            ("sent", "", fates.len().into()),
            ("received", "", count(Fate::Received).into()),
            ("lost on the way", "", lost(Place::Switch)),
            ("lost in a receive FIFO", "", lost(Place::Fifo)),
            ("lost for want of buffers", "", lost(Place::Buffers)),
            ("lost before the program", "", lost(Place::Socket)),
            ("never ended", "", count(Fate::UnderWay).into()),
        ]);
    }
    table
}

/// How busy the hosts were.
fn hosts(description: &Description, running: &Running, end: Instant) -> Table {
    let mut table = Table::named("hosts");
    let all = end.since_origin();
    for (number, host) in description.hosts.iter().enumerate() {
        let station = running.bench.station(number as u16);
        let busy = |time: Duration| per_cent(time.min(all), all);
        table.row([
            ("host", "", host.name.as_str().into()),
            ("processor", "%", busy(station.busy_time()).into()),
            ("bus", "%", busy(station.bus_time()).into()),
            ("interrupts", "", station.interrupts().into()),
        ]);
    }
    table
}

/// What hosts have passed on, of those that do.
fn forwarded(description: &Description, running: &Running) -> Table {
    let mut table = Table::named("hosts that forward");
    for (number, host) in description.hosts.iter().enumerate() {
        let Some(forwarded) = running.bench.station(number as u16).forwarded() else {
            continue;
        };
        table.row([
            ("host", "", host.name.as_str().into()),
            ("messages passed on", "", forwarded.messages.into()),
            ("lost for want of room", "", forwarded.lost.into()),
            ("most held", "B", forwarded.highest_bytes.into()),
        ]);
    }
    table
}

/// How busy the links were, in each direction.
fn links(description: &Description, running: &Running, end: Instant) -> Table {
    let mut table = Table::named("links");
    let all = end.since_origin();
    for (link, spec) in running.wiring.links.iter().zip(&description.links) {
        let busy = |time: Duration| per_cent(time.min(all), all);
        table.row([
            ("link", "", spec.name.as_str().into()),
            (
                "rate",
                "Mbit/s",
                (link.framing.rate.as_bps() as f64 / 1e6).into(),
            ),
            ("one way", "us", us(link.way).into()),
            ("there", "%", busy(link.busy[0]).into()),
            ("back", "%", busy(link.busy[1]).into()),
            ("frames there", "", link.frames[0].into()),
            ("frames back", "", link.frames[1].into()),
        ]);
    }
    table
}

/// What the links have lost by chance, of those that do.
fn losses(description: &Description, running: &Running) -> Table {
    let mut table = Table::named("frames that links have lost");
    for (link, spec) in running.wiring.links.iter().zip(&description.links) {
        if spec.loss == 0.0 {
            continue;
        }
        table.row([
            ("link", "", spec.name.as_str().into()),
            ("chance", "", spec.loss.into()),
            ("lost there", "", link.chance.lost[0].into()),
            ("lost back", "", link.chance.lost[1].into()),
        ]);
    }
    table
}

/// What the devices have counted.
fn devices(description: &Description, running: &Running) -> Table {
    let mut table = Table::named("devices");
    for (standing, spec) in running.wiring.devices.iter().zip(&description.devices) {
        for (name, value) in standing.device.figures() {
            table.row([
                (
                    "device",
                    "",
                    format!("{} {}", spec.kind.name(), spec.name).into(),
                ),
                ("what", "", name.into()),
                ("count", "", value.into()),
            ]);
        }
    }
    table
}
