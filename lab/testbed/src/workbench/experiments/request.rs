//! A server under a load that does not care whether it keeps up.

use barewire_des::Simulator;
use barewire_des::dist::exponential_time;
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::common::{LIST, check_events, events, lost, read};
use crate::error::SystemError;
use crate::experiment::{Experiment, LinkCapture, Outcome, Setting, Table};
use crate::figures::{mean, p99, per_cent, us};
use crate::refuse::{AboveZero, inputs, up_to, up_to_time};
use crate::sweep::sweep;
use crate::workbench::bench::{Bench, Fate, Job, Note, Running, Sim};
use crate::workbench::parameters::Parameters;

pub(in crate::workbench) const REQUEST: Experiment = Experiment {
    name: "request",
    question: "How many requests does a server answer, how fast, and where are the others lost?",
    inputs: include_str!("../../../plans/workbench-request.toml"),
    check: |setting| Inputs::of(setting).map(|_| ()),
    run,
};

inputs! {
    struct Inputs {
        clients: u16 => 1..=1000,
        rates: Vec<f64> => (LIST, 1.0..=1e9),
        request: ByteSize => up_to(ByteSize::from_mib(1)),
        answer: ByteSize => up_to(ByteSize::from_mib(1)),
        work: Duration => up_to_time(Duration::from_s(1)),
        time: Duration => AboveZero(Duration::from_s(1000)),
        backlog: usize => 1..=1 << 20,
    }
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        let each = 4.0
            + events(&parameters, inputs.request.as_bytes())
            + events(&parameters, inputs.answer.as_bytes());
        let requests = inputs.rates.iter().sum::<f64>() * inputs.time.as_ps() as f64 * 1e-12;
        check_events("rates and time", each * requests)?;
        Ok((inputs, parameters))
    }
}

struct Request<'a> {
    inputs: &'a Inputs,
    gap: Duration,
    end: Instant,
    measured_from: Instant,
    rngs: Vec<Rng>,
    asked: u64,
    dropped: u64,
    /// Answers that came, and those of requests after the warm-up: how long they took.
    answered: u64,
    answered_measured: u64,
    latencies_us: Vec<f64>,
}

impl Request<'_> {
    fn schedule(&mut self, client: u16, bench: &mut Bench, sim: &mut Sim) {
        let gap = exponential_time(&mut self.rngs[usize::from(client)], self.gap);
        let next = sim.now().saturating_add(gap);
        if next < self.end {
            bench.tick(client, 0, next, sim);
        }
    }

    fn answer(&self, message: u32, bench: &mut Bench) {
        let asked = bench.messages[message as usize];
        bench.post(0, asked.from, self.inputs.answer.as_bytes(), asked.about);
    }
}

impl Job for Request<'_> {
    fn note(&mut self, host: u16, note: Note, bench: &mut Bench, sim: &mut Sim) {
        match note {
            Note::Tick(_) => {
                self.asked += 1;
                if bench.posted(host) < self.inputs.backlog {
                    let now_ps = sim.now().since_origin().as_ps();
                    bench.post(host, 0, self.inputs.request.as_bytes(), now_ps);
                } else {
                    self.dropped += 1;
                }
                self.schedule(host, bench, sim);
            }
            Note::Received(message) if host == 0 => {
                if self.inputs.work.is_zero() {
                    self.answer(message, bench);
                } else {
                    bench.work(0, message, self.inputs.work);
                }
            }
            Note::Worked(message) => self.answer(message, bench),
            Note::Received(message) => {
                self.answered += 1;
                let asked = Instant::from_ps(bench.messages[message as usize].about);
                if sim.now() >= self.measured_from {
                    self.answered_measured += 1;
                }
                if asked >= self.measured_from {
                    self.latencies_us
                        .push(us(sim.now().saturating_duration_since(asked)));
                }
            }
            Note::Returned(_) => {}
        }
    }
}

/// What a rate of requests gave.
struct Requested {
    asked: u64,
    answered: u64,
    answers_per_s: f64,
    latencies_us: Vec<f64>,
    dropped: u64,
    lost: [u64; 4],
    under_way: u64,
    busy: Option<f64>,
    interrupts_per_request: Option<f64>,
    hash: u64,
    captures: Vec<LinkCapture>,
}

fn request(
    parameters: &Parameters,
    inputs: &Inputs,
    rate: f64,
    seed: u64,
    packets: usize,
) -> Requested {
    let seeds = Rng::from_seed(seed);
    let gap_ps = 1e12 * f64::from(inputs.clients) / rate;
    let end = Instant::ORIGIN.saturating_add(inputs.time);
    let warm_up = inputs.time / 5;
    let mut sim = Simulator::new();
    let mut running = Running {
        bench: Bench::new(parameters, inputs.clients + 1, packets),
        job: Request {
            inputs,
            gap: Duration::from_ps(gap_ps as u64),
            end,
            measured_from: Instant::ORIGIN + warm_up,
            rngs: (0..=u64::from(inputs.clients))
                .map(|client| seeds.fork_nth("requests", client))
                .collect(),
            asked: 0,
            dropped: 0,
            answered: 0,
            answered_measured: 0,
            latencies_us: Vec::new(),
        },
    };
    running.bench.paths.turn_off();
    for client in 1..=inputs.clients {
        running.job.schedule(client, &mut running.bench, &mut sim);
    }
    sim.run_until(end, &mut running);
    let Running { bench, job } = running;
    let measured = inputs.time - warm_up;
    let server = bench.station(0);
    Requested {
        asked: job.asked,
        answered: job.answered,
        answers_per_s: job.answered_measured as f64 * 1e6 / us(measured),
        latencies_us: job.latencies_us,
        dropped: job.dropped,
        lost: lost(&bench),
        // A request that has been received is under way as long as its answer has not come.
        under_way: job.asked - job.dropped - job.answered - lost(&bench).iter().sum::<u64>(),
        busy: per_cent(server.busy_time().min(inputs.time), inputs.time),
        interrupts_per_request: received_by_server(&bench)
            .map(|requests| server.interrupts() as f64 / requests),
        hash: sim.trace_hash(),
        captures: bench.captures,
    }
}

fn received_by_server(bench: &Bench) -> Option<f64> {
    let received = |message: &&crate::workbench::bench::Message| {
        message.to == 0 && message.fate == Fate::Received
    };
    let count = bench.messages.iter().filter(received).count();
    (count > 0).then_some(count as f64)
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Inputs::of(setting)?;
    let mut runs = sweep(setting, &inputs.rates, |&rate, packets| {
        request(&parameters, &inputs, rate, setting.seed, packets)
    });
    let mut outcome = Outcome::default();
    for run in &mut runs {
        outcome.add_run(run.hash, run.captures.drain(..));
    }
    Ok(outcome.with([service(&inputs, &mut runs), fates(&inputs, &runs)]))
}

/// How many requests were answered, and how fast.
fn service(inputs: &Inputs, runs: &mut [Requested]) -> Table {
    let mut service = Table::named("requests");
    for (&rate, run) in inputs.rates.iter().zip(runs) {
        service.row([
            ("offered", "1/s", rate.into()),
            ("answered", "1/s", run.answers_per_s.into()),
            ("mean time", "us", mean(&run.latencies_us).into()),
            ("99th percentile", "us", p99(&mut run.latencies_us).into()),
            ("server's processor", "%", run.busy.into()),
            (
                "interrupts for a request",
                "",
                run.interrupts_per_request.into(),
            ),
        ]);
    }
    service
}

/// What became of the requests.
fn fates(inputs: &Inputs, runs: &[Requested]) -> Table {
    let mut fates = Table::named("what became of them");
    for (&rate, run) in inputs.rates.iter().zip(runs) {
        let [switch, fifo, buffers, socket] = run.lost;
        fates.row([
            ("offered", "1/s", rate.into()),
            ("asked", "", run.asked.into()),
            ("answered", "", run.answered.into()),
            ("dropped by the clients", "", run.dropped.into()),
            ("lost in the switch", "", switch.into()),
            ("lost in a receive FIFO", "", fifo.into()),
            ("lost for want of buffers", "", buffers.into()),
            ("lost before a program", "", socket.into()),
            ("under way at the end", "", run.under_way.into()),
        ]);
    }
    fates
}
