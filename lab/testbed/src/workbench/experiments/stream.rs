//! A stream of messages from one program to another, and what it is limited by.

use barewire_des::Simulator;
use barewire_units::{ByteSize, Duration, Instant};

use super::common::{LIST, MESSAGE, check_events, events, fates, lost, read};
use crate::error::SystemError;
use crate::experiment::{Experiment, LinkCapture, Outcome, Setting, Table};
use crate::figures::{mbps, per_cent};
use crate::refuse::{inputs, up_to};
use crate::sweep::sweep;
use crate::workbench::bench::{Bench, Fate, Job, Note, Running, Sim};
use crate::workbench::parameters::Parameters;
use crate::workbench::path::{Path, StepId};

pub(in crate::workbench) const STREAM: Experiment = Experiment {
    name: "stream",
    question: "How many messages get through in one direction, and what holds them up?",
    inputs: include_str!("../../../plans/workbench-stream.toml"),
    check: |setting| Inputs::of(setting).map(|_| ()),
    run,
};

/// Messages between two looks at the critical path.
const STRETCH: u64 = 16;

inputs! {
    struct Inputs {
        sizes: Vec<ByteSize> => (LIST, MESSAGE),
        volume: ByteSize => up_to(ByteSize::from_gib(1024)),
        window: ByteSize,
        credit: ByteSize => MESSAGE,
    }
}

impl Inputs {
    fn of(setting: &Setting<'_>) -> Result<(Self, Parameters), SystemError> {
        let (inputs, parameters): (Self, Parameters) = read(setting)?;
        let credit = events(&parameters, inputs.credit.as_bytes());
        let each = |size: &ByteSize| {
            let credits = if inputs.window.as_bytes() == 0 {
                0.0
            } else {
                credit
            };
            inputs.plan(*size).messages as f64 * (events(&parameters, size.as_bytes()) + credits)
        };
        check_events("volume", inputs.sizes.iter().map(each).sum())?;
        Ok((inputs, parameters))
    }

    fn plan(&self, size: ByteSize) -> Streams {
        let bytes = size.as_bytes();
        Streams {
            bytes,
            messages: (self.volume.as_bytes() / bytes.max(1)).clamp(20, 20_000),
            window: match self.window.as_bytes() {
                0 => 0,
                window => (window / bytes.max(1)).max(1),
            },
            credit_bytes: self.credit.as_bytes(),
        }
    }
}

/// What a stream is made of.
#[derive(Clone, Copy, Debug)]
pub(in crate::workbench) struct Streams {
    pub bytes: u64,
    pub messages: u64,
    /// Messages that may be under way; 0: any number.
    pub window: u64,
    pub credit_bytes: u64,
}

/// What it gave.
pub(in crate::workbench) struct Streamed {
    /// From the first call to the return of the last.
    pub sent_mbps: Option<f64>,
    /// From the first call until the last message is received.
    pub received_mbps: Option<f64>,
    pub received: u64,
    pub lost: [u64; 4],
    pub under_way: u64,
    pub path: Path,
    pub hash: u64,
    /// Of sender and receiver: processor, bus; then the link. In percent.
    pub busy: [Option<f64>; 5],
    captures: Vec<LinkCapture>,
}

/// How often something happened, and when it did last. The first call is at the origin.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    last: Instant,
    count: u64,
}

impl Times {
    fn note(&mut self, now: Instant) {
        self.last = now;
        self.count += 1;
    }

    /// So many messages of `bytes`, from the origin on.
    fn mbps(&self, bytes: u64) -> Option<f64> {
        mbps(bytes * self.count, self.last.since_origin())
    }
}

struct Stream {
    plan: Streams,
    posted: u64,
    /// Messages that the receiver has allowed for.
    allowed: u64,
    returned: Times,
    received: Times,
    path: Path,
    last: Option<(StepId, Instant)>,
}

impl Stream {
    /// Posts the next message, if it may be sent and the one before has been.
    fn post(&mut self, bench: &mut Bench) {
        let may = self.plan.window == 0 || self.posted < self.allowed;
        if may && self.posted < self.plan.messages && bench.posted(0) == 0 {
            self.posted += 1;
            bench.post(0, 1, self.plan.bytes, 0);
        }
    }

    fn receive(&mut self, bench: &mut Bench, sim: &mut Sim) {
        self.received.note(sim.now());
        self.last = Some((bench.cause, sim.now()));
        if self.received.count % STRETCH == 0 {
            // The first stretch fills the pipes.
            if self.received.count > STRETCH {
                self.path.merge(&bench.paths.walk(bench.cause, sim.now()));
            }
            bench.paths.restart(sim.now());
        }
        let half = self.plan.window.div_ceil(2);
        if half > 0 && self.received.count % half == 0 {
            bench.post(1, 0, self.plan.credit_bytes, half);
        }
    }
}

impl Job for Stream {
    fn note(&mut self, host: u16, note: Note, bench: &mut Bench, sim: &mut Sim) {
        match (host, note) {
            (0, Note::Returned(_)) => {
                self.returned.note(sim.now());
                if self.received.count == 0 && self.returned.count % STRETCH == 0 {
                    // As long as nothing arrives, no path is asked for.
                    bench.paths.restart(sim.now());
                }
                self.post(bench);
            }
            (0, Note::Received(message)) => {
                self.allowed += bench.messages[message as usize].about;
                self.post(bench);
            }
            (0, Note::Tick(_)) => self.post(bench),
            (_, Note::Received(_)) => self.receive(bench, sim),
            _ => {}
        }
    }
}

/// Sends messages one after the other.
pub(in crate::workbench) fn stream(
    parameters: &Parameters,
    plan: Streams,
    packets: usize,
) -> Streamed {
    let mut sim = Simulator::new();
    let mut running = Running {
        bench: Bench::new(parameters, 2, packets),
        job: Stream {
            plan,
            posted: 0,
            allowed: plan.window,
            returned: Times::default(),
            received: Times::default(),
            path: Path::default(),
            last: None,
        },
    };
    running.bench.tick(0, 0, Instant::ORIGIN, &mut sim);
    sim.run(&mut running);
    let Running { bench, mut job } = running;
    if let (true, Some((step, at))) = (job.path.total().is_zero(), job.last) {
        job.path = bench.paths.walk(step, at);
    }
    let all = job.returned.last.max(job.received.last).since_origin();
    let (from, to) = (bench.station(0), bench.station(1));
    let busy = |time: Duration| per_cent(time.min(all), all);
    let of_data = |fate| {
        let of_data =
            |message: &&crate::workbench::bench::Message| message.to == 1 && message.fate == fate;
        bench.messages.iter().filter(of_data).count() as u64
    };
    Streamed {
        sent_mbps: job.returned.mbps(plan.bytes),
        received_mbps: job.received.mbps(plan.bytes),
        received: job.received.count,
        lost: lost(&bench),
        under_way: of_data(Fate::UnderWay),
        path: job.path,
        hash: sim.trace_hash(),
        busy: [
            busy(from.busy_time()),
            busy(from.bus_time()),
            busy(to.busy_time()),
            busy(to.bus_time()),
            busy(from.wire_time()),
        ],
        captures: bench.captures,
    }
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (inputs, parameters) = Inputs::of(setting)?;
    let mut runs = sweep(setting, &inputs.sizes, |&size, packets| {
        stream(&parameters, inputs.plan(size), packets)
    });
    let mut outcome = Outcome::default();
    for run in &mut runs {
        outcome.add_run(run.hash, run.captures.drain(..));
    }
    Ok(outcome.with([
        rates(&inputs, &parameters, &runs),
        busy(&inputs, &runs),
        losses(&inputs, &runs),
    ]))
}

/// How fast each stream was, and what held it up.
fn rates(inputs: &Inputs, parameters: &Parameters, runs: &[Streamed]) -> Table {
    let mut rates = Table::named("throughput");
    for (&size, run) in inputs.sizes.iter().zip(runs) {
        let bytes = size.as_bytes();
        let limit = parameters
            .framing()
            .payload_bps(bytes, parameters.piece_bytes(bytes))
            / 1e6;
        let most = run.path.most();
        rates.row([
            ("size", "B", bytes.into()),
            ("sent", "Mbit/s", run.sent_mbps.into()),
            ("received", "Mbit/s", run.received_mbps.into()),
            ("limit of the link", "Mbit/s", limit.into()),
            (
                "held up by",
                "",
                most.map(|(part, host, _)| {
                    format!(
                        "{}, {}",
                        part.name(),
                        ["sender", "receiver"][usize::from(host != 0)]
                    )
                })
                .into(),
            ),
            (
                "share of the time",
                "%",
                most.map(|(_, _, share)| share * 100.0).into(),
            ),
        ]);
    }
    rates
}

/// What share of the time processors, buses and the link were busy.
fn busy(inputs: &Inputs, runs: &[Streamed]) -> Table {
    let mut busy = Table::named("busy, of the whole time");
    for (&size, run) in inputs.sizes.iter().zip(runs) {
        let [a, b, c, d, e] = run.busy;
        busy.row([
            ("size", "B", size.as_bytes().into()),
            ("sender's processor", "%", a.into()),
            ("sender's bus", "%", b.into()),
            ("receiver's processor", "%", c.into()),
            ("receiver's bus", "%", d.into()),
            ("link", "%", e.into()),
        ]);
    }
    busy
}

/// What became of the messages.
fn losses(inputs: &Inputs, runs: &[Streamed]) -> Table {
    let mut losses = Table::named("messages");
    for (&size, run) in inputs.sizes.iter().zip(runs) {
        let sent = run.received + run.lost.iter().sum::<u64>() + run.under_way;
        let size = ("size", "B", size.as_bytes().into());
        let counts = [sent, run.received, run.under_way];
        losses.row(fates(size, counts, run.lost));
    }
    losses
}
