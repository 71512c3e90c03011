//! Round trips between two programs, and where their time goes.

use barewire_des::Simulator;
use barewire_des::dist::exponential_time;
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::common::{LIST, MESSAGE, check_events, events, read};
use crate::error::SystemError;
use crate::experiment::{Cell, Column, Experiment, LinkCapture, Outcome, Setting, Table};
use crate::figures::{mean, p99, us};
use crate::refuse::{inputs, up_to_time};
use crate::sweep::sweep;
use crate::workbench::bench::{Bench, Job, Note, Running, Sim};
use crate::workbench::parameters::Parameters;
use crate::workbench::path::{Part, Path};

pub(in crate::workbench) const PING: Experiment = Experiment {
    name: "ping",
    question: "How long does a message take there and back, and where does the time go?",
    inputs: include_str!("../../../plans/workbench-ping.toml"),
    check: |setting| Inputs::of(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        sizes: Vec<ByteSize> => (LIST, MESSAGE),
        round_trips: u32 => 1..=10_000,
        pause: Duration => up_to_time(Duration::from_s(1)),
        time_out: Duration => up_to_time(Duration::from_s(1000)),
    }
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        let each = |size: &ByteSize| 2.0 * events(&parameters, size.as_bytes());
        let all: f64 = inputs.sizes.iter().map(each).sum();
        check_events(
            "sizes and round_trips",
            all * f64::from(inputs.round_trips + 1),
        )?;
        Ok((inputs, parameters))
    }
}

/// What a run of round trips is made of.
#[derive(Clone, Copy, Debug)]
pub(in crate::workbench) struct Pings {
    pub bytes: u64,
    /// Those that count.
    pub round_trips: u32,
    pub pause: Duration,
    pub time_out: Duration,
}

/// What it gave. One round trip more went before, which found everything idle.
pub(in crate::workbench) struct Pinged {
    pub round_trips_us: Vec<f64>,
    /// Of all of them.
    pub path: Path,
    pub timed_out: u32,
    pub hash: u64,
    captures: Vec<LinkCapture>,
}

struct Ping {
    plan: Pings,
    rng: Rng,
    begun: u32,
    /// When the one under way began, and its message, or its answer.
    since: Instant,
    message: Option<u32>,
    times: Vec<Duration>,
    path: Path,
    timed_out: u32,
}

/// Ticks below this begin a round trip; from it on they end the patience with one.
const TIME_OUT: u32 = 1 << 31;

impl Ping {
    fn begin(&mut self, bench: &mut Bench, sim: &mut Sim) {
        self.begun += 1;
        self.since = sim.now();
        bench.paths.restart(sim.now());
        self.message = Some(bench.post(0, 1, self.plan.bytes, 0));
        let late = sim.now().saturating_add(self.plan.time_out);
        bench.tick(0, TIME_OUT | self.begun, late, sim);
    }

    fn end(&mut self, bench: &mut Bench, sim: &mut Sim) {
        self.message = None;
        if self.begun > self.plan.round_trips {
            sim.stop();
        } else if self.plan.pause.is_zero() {
            self.begin(bench, sim);
        } else {
            bench.rest(0);
            let pause = exponential_time(&mut self.rng, self.plan.pause);
            bench.tick(0, 0, sim.now().saturating_add(pause), sim);
        }
    }
}

impl Job for Ping {
    fn note(&mut self, host: u16, note: Note, bench: &mut Bench, sim: &mut Sim) {
        match note {
            Note::Tick(number) if number < TIME_OUT => self.begin(bench, sim),
            Note::Tick(number) => {
                if number == TIME_OUT | self.begun && self.message.is_some() {
                    self.timed_out += 1;
                    self.end(bench, sim);
                }
            }
            Note::Received(message) if self.message != Some(message) => {}
            Note::Received(_) if host == 1 => {
                self.message = Some(bench.post(1, 0, self.plan.bytes, 0));
            }
            Note::Received(_) => {
                if self.begun > 1 {
                    self.times
                        .push(sim.now().saturating_duration_since(self.since));
                    self.path.merge(&bench.paths.walk(bench.cause, sim.now()));
                }
                self.end(bench, sim);
            }
            Note::Returned(_) | Note::Worked(_) => {}
        }
    }
}

/// Sends a message to and fro.
pub(in crate::workbench) fn ping(
    parameters: &Parameters,
    plan: Pings,
    seed: u64,
    packets: usize,
) -> Pinged {
    let mut sim = Simulator::new();
    let mut running = Running {
        bench: Bench::new(parameters, 2, packets),
        job: Ping {
            plan,
            rng: Rng::from_seed(seed).fork("pauses"),
            begun: 0,
            since: Instant::ORIGIN,
            message: None,
            times: Vec::new(),
            path: Path::default(),
            timed_out: 0,
        },
    };
    running.bench.tick(0, 0, Instant::ORIGIN, &mut sim);
    sim.run(&mut running);
    let Running { bench, job } = running;
    Pinged {
        round_trips_us: job.times.iter().map(|&time| us(time)).collect(),
        path: job.path,
        timed_out: job.timed_out,
        hash: sim.trace_hash(),
        captures: bench.captures,
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Inputs::of(setting)?;
    let mut runs = sweep(setting, &inputs.sizes, |size, packets| {
        let plan = Pings {
            bytes: size.as_bytes(),
            round_trips: inputs.round_trips,
            pause: inputs.pause,
            time_out: inputs.time_out,
        };
        ping(&parameters, plan, setting.seed, packets)
    });
    let mut times = Table::named("round trip");
    let parts = parts_table(&inputs.sizes, &runs);
    for (size, pinged) in inputs.sizes.iter().zip(&mut runs) {
        times.row([
            ("size", "B", size.as_bytes().into()),
            ("mean", "us", mean(&pinged.round_trips_us).into()),
            (
                "99th percentile",
                "us",
                p99(&mut pinged.round_trips_us).into(),
            ),
            ("timed out", "", u64::from(pinged.timed_out).into()),
        ]);
    }
    let mut outcome = Outcome::default();
    for run in &mut runs {
        outcome.add_run(run.hash, run.captures.drain(..));
    }
    Ok(outcome.with([times, parts]))
}

/// The parts that took any time, in any of the runs.
fn used(runs: &[Pinged]) -> Vec<Part> {
    let used = |part: &Part| runs.iter().any(|run| !run.path.on(*part).is_zero());
    Part::ALL.into_iter().filter(used).collect()
}

fn parts_table(sizes: &[ByteSize], runs: &[Pinged]) -> Table {
    let used = used(runs);
    let name = "where the time of a round trip goes: the critical path, in both directions";
    let mut table = Table::new(name, &[("size", "B")]);
    let names = used.iter().map(|part| part.name()).chain(["sum"]);
    table.columns.extend(names.map(|name| Column {
        name: name.to_owned(),
        unit: "us".to_owned(),
    }));
    for (size, run) in sizes.iter().zip(runs) {
        let count = run.round_trips_us.len() as f64;
        let mut row = vec![Cell::from(size.as_bytes())];
        row.extend(
            used.iter()
                .map(|&part| Cell::from(us(run.path.on(part)) / count)),
        );
        row.push(Cell::from(us(run.path.total()) / count));
        table.rows.push(row);
    }
    table
}
