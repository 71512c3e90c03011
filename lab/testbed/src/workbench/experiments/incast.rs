//! Many senders to one receiver at the same moment, through the switch.

use barewire_des::Simulator;
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::common::{LIST, MESSAGE, check_events, events, fates, lost, read};
use crate::error::SystemError;
use crate::experiment::{Experiment, LinkCapture, Outcome, Setting, Table};
use crate::figures::{mbps, mean, p99, us};
use crate::refuse::{inputs, up_to_time, wrong};
use crate::sweep::sweep;
use crate::workbench::bench::{Bench, Fate, Job, Note, Running, Sim};
use crate::workbench::parameters::Parameters;

pub(in crate::workbench) const INCAST: Experiment = Experiment {
    name: "incast",
    question: "What arrives when many hosts send to one at the same moment?",
    inputs: include_str!("../../../plans/workbench-incast.toml"),
    check: |setting| Inputs::of(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        senders: Vec<u16> => (LIST, 1..=500),
        size: ByteSize => MESSAGE,
        rounds: u32 => 1..=1000,
        period: Duration => up_to_time(Duration::from_s(1000)),
        jitter: Duration,
    }
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        if inputs.jitter >= inputs.period {
            let below = format!("less than period, {}", inputs.period);
            return Err(wrong("jitter", inputs.jitter, below));
        }
        let each = events(&parameters, inputs.size.as_bytes());
        let senders: u64 = inputs.senders.iter().map(|&count| u64::from(count)).sum();
        let messages = senders * u64::from(inputs.rounds);
        check_events("senders, size and rounds", each * messages as f64)?;
        Ok((inputs, parameters))
    }
}

/// What has come of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    received: u64,
    last: Instant,
}

struct Incast {
    bytes: u64,
    rounds: Vec<Round>,
}

impl Job for Incast {
    fn note(&mut self, host: u16, note: Note, bench: &mut Bench, sim: &mut Sim) {
        match note {
            Note::Tick(round) => {
                bench.post(host, 0, self.bytes, round.into());
            }
            Note::Received(message) => {
                let round = bench.messages[message as usize].about as usize;
                self.rounds[round].received += 1;
                self.rounds[round].last = sim.now();
            }
            Note::Returned(_) | Note::Worked(_) => {}
        }
    }
}

/// What so many senders gave.
struct Received {
    messages: u64,
    received: u64,
    lost: [u64; 4],
    under_way: u64,
    /// Of the rounds of which all has come.
    whole_us: Vec<f64>,
    goodput_mbps: Option<f64>,
    highest_bytes: Option<u64>,
    hash: u64,
    captures: Vec<LinkCapture>,
}

fn incast(
    parameters: &Parameters,
    inputs: &Inputs,
    senders: u16,
    seed: u64,
    packets: usize,
) -> Received {
    let seeds = Rng::from_seed(seed);
    let mut sim = Simulator::new();
    let bytes = inputs.size.as_bytes();
    let mut running = Running {
        bench: Bench::new(parameters, senders + 1, packets),
        job: Incast {
            bytes,
            rounds: vec![Round::default(); inputs.rounds as usize],
        },
    };
    running.bench.paths.turn_off();
    let begin = |round: u64| Instant::ORIGIN.saturating_add(times(inputs.period, round));
    for sender in 1..=senders {
        let mut rng = seeds.fork_nth("jitter", sender.into());
        for round in 0..inputs.rounds {
            let late = Duration::from_ps(rng.in_range(0..=inputs.jitter.as_ps()));
            let at = begin(round.into()).saturating_add(late);
            running.bench.tick(sender, round, at, &mut sim);
        }
    }
    sim.run(&mut running);
    let Running { bench, job } = running;
    let took = |(number, round): (usize, &Round)| {
        round.last.saturating_duration_since(begin(number as u64))
    };
    let rounds = || job.rounds.iter().enumerate();
    let busy = rounds()
        .map(took)
        .fold(Duration::ZERO, Duration::saturating_add);
    let whole = rounds().filter(|(_, round)| round.received == u64::from(senders));
    let received = bench.count(Fate::Received);
    Received {
        messages: bench.messages.len() as u64,
        received,
        lost: lost(&bench),
        under_way: bench.count(Fate::UnderWay),
        whole_us: whole.map(took).map(us).collect(),
        goodput_mbps: mbps(received * bytes, busy),
        highest_bytes: bench.port(0).map(|port| port.highest_bytes()),
        hash: sim.trace_hash(),
        captures: bench.captures,
    }
}

fn times(time: Duration, count: u64) -> Duration {
    time.checked_mul(count).unwrap_or(Duration::MAX)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Inputs::of(setting)?;
    let mut runs = sweep(setting, &inputs.senders, |&senders, packets| {
        incast(&parameters, &inputs, senders, setting.seed, packets)
    });
    let mut outcome = Outcome::default();
    for run in &mut runs {
        outcome.add_run(run.hash, run.captures.drain(..));
    }
    Ok(outcome.with([rounds(&inputs, &mut runs), messages(&inputs, &runs)]))
}

/// How many rounds were whole, and how long those took.
fn rounds(inputs: &Inputs, runs: &mut [Received]) -> Table {
    let mut rounds = Table::named("rounds");
    for (&senders, run) in inputs.senders.iter().zip(runs) {
        let whole = run.whole_us.len() as f64 / f64::from(inputs.rounds);
        rounds.row([
            ("senders", "", u64::from(senders).into()),
            ("rounds whole", "%", (100.0 * whole).into()),
            ("mean time of those", "us", mean(&run.whole_us).into()),
            ("99th percentile", "us", p99(&mut run.whole_us).into()),
            ("goodput", "Mbit/s", run.goodput_mbps.into()),
            ("most in the switch's output", "B", run.highest_bytes.into()),
        ]);
    }
    rounds
}

/// What became of the messages.
fn messages(inputs: &Inputs, runs: &[Received]) -> Table {
    let mut table = Table::named("messages");
    for (&senders, run) in inputs.senders.iter().zip(runs) {
        let senders = ("senders", "", u64::from(senders).into());
        let counts = [run.messages, run.received, run.under_way];
        table.row(fates(senders, counts, run.lost));
    }
    table
}
