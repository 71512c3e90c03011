//! Events per second of the event kernel, on the workloads of `barewire_des::workloads`,
//! which have known answers, beside other simulators on the same workloads.
//!
//! A rival is a program of its own, because it brings its language or its Rust with it. It is
//! called as `PROGRAM WORKLOAD EVENTS` and prints `EVENTS SECONDS`, counting as the kernel
//! does: an arrival is an event, a departure another. Ours and theirs take turns.

use std::process::Command;
use std::time::Instant as Clock;

use barewire_des::stats::BatchMeans;
use barewire_des::workloads::{Hold, QueueMm1, TokenRing};
use barewire_des::{Event, Simulator, World};
use barewire_units::{Duration, Rng};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct LabArgs {
    /// Events of one run of ours, in millions
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Runs of each; the median is shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Another simulator, `NAME=COMMAND`; it is given a tenth of the events
    #[arg(long = "rival", value_name = "NAME=COMMAND")]
    rivals: Vec<String>,
}

/// What a run gave.
struct Ran {
    events: u64,
    seconds: f64,
    /// How far the known answer was missed, in words; `None` where there is none to miss.
    answer: Option<String>,
}

/// A workload: its name, the events per second asked for, in millions, and how it is run.
type Workload = (&'static str, f64, fn(u64) -> Ran);

const WORKLOADS: [Workload; 4] = [
    ("mm1", 15.0, mm1),
    ("ring", 15.0, ring),
    ("hold-1024", 0.0, |events| hold(events, 1_024)),
    ("hold-65536", 5.0, |events| hold(events, 65_536)),
];

/// Measures; gives the number of missed targets.
pub fn run(arguments: &LabArgs) -> usize {
    let events = arguments.millions.max(1) * 1_000_000;
    println!(
        "{:<12} {:<12} {:>12}  {:<28} answer",
        "workload", "simulator", "M events/s", "target"
    );
    let missed = WORKLOADS
        .iter()
        .map(|workload| measure(workload, events, arguments));
    missed.sum()
}

fn measure(&(name, target, run): &Workload, events: u64, arguments: &LabArgs) -> usize {
    let mut own = Vec::new();
    let mut theirs = vec![Vec::new(); arguments.rivals.len()];
    let mut answer = None;
    for _ in 0..arguments.rounds.max(1) {
        let ran = run(events);
        own.push(ran.events as f64 / ran.seconds / 1e6);
        answer = ran.answer;
        for (rival, speeds) in arguments.rivals.iter().zip(&mut theirs) {
            speeds.extend(ask(rival, name, events / 10));
        }
    }
    let speed = median(&mut own);
    let met = speed >= target;
    let verdict = match (target > 0.0, met) {
        (false, _) => String::new(),
        (true, true) => format!("{target} M/s: met"),
        (true, false) => format!("{target} M/s: MISSED"),
    };
    println!(
        "{name:<12} {:<12} {speed:>12.2}  {verdict:<28} {}",
        "barewire",
        answer.unwrap_or_default()
    );
    for (rival, speeds) in arguments.rivals.iter().zip(&mut theirs) {
        let label = rival.split('=').next().unwrap_or_default();
        match speeds.is_empty() {
            true => println!("{:<12} {label:<12} {:>12}", "", "-"),
            false => println!(
                "{:<12} {label:<12} {:>12.2}  barewire is {:.0} x",
                "",
                median(speeds),
                speed / median(speeds)
            ),
        }
    }
    usize::from(!met)
}

/// Runs another simulator's program; millions of events per second, if it knows the workload.
fn ask(rival: &str, workload: &str, events: u64) -> Option<f64> {
    let (_, command) = rival.split_once('=')?;
    let mut words = command.split_whitespace();
    let output = Command::new(words.next()?)
        .args(words)
        .args([workload, &events.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (events, seconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (output.status.success() && seconds > 0.0).then_some(events / seconds / 1e6)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Runs `world` for `events`; gives the seconds that it took.
fn timed<W: World>(world: &mut W, sim: &mut Simulator<W::Event>, events: u64) -> f64
where
    W::Event: Event,
{
    let begun = Clock::now();
    while sim.fired() < events && sim.step(world) {}
    begun.elapsed().as_secs_f64()
}

/// M/M/1 at load 0.9: the mean sojourn is ten service times.
fn mm1(events: u64) -> Ran {
    let customers = events / 2;
    let batches = BatchMeans::new(customers / 20, customers / 25);
    let (between, service) = (Duration::from_us(100), Duration::from_us(90));
    let mut queue = QueueMm1::new(&Rng::from_seed(1), between, service, batches);
    let mut sim = Simulator::new();
    queue.start(&mut sim);
    let seconds = timed(&mut queue, &mut sim, events);
    let answer = queue.sojourn.interval().map(|interval| {
        let times = 90e6;
        let holds = if interval.holds(10.0 * times) {
            "holds 10"
        } else {
            "MISSES 10"
        };
        format!(
            "sojourn {:.3} ± {:.3} service times, {holds}",
            interval.mean / times,
            interval.half_width / times
        )
    });
    Ran {
        events: sim.fired(),
        seconds,
        answer,
    }
}

/// 32 stations at load 0.6, one frame a visit.
fn ring(events: u64) -> Ran {
    let (stations, load, service_us, walk_us) = (32_u16, 0.6, 10.0, 0.5);
    let between_us = service_us * f64::from(stations) / load;
    let of_us = |us: f64| Duration::from_ps((us * 1e6) as u64);
    let mut ring = TokenRing::new(
        &Rng::from_seed(32),
        stations,
        of_us(between_us),
        of_us(service_us),
        of_us(walk_us),
        BatchMeans::new(events / 200, events / 200),
    );
    let mut sim = Simulator::new();
    ring.start(&mut sim);
    let seconds = timed(&mut ring, &mut sim, events);
    let (n, rate) = (f64::from(stations), 1.0 / between_us);
    let expected = (n * rate * 2.0 * service_us * service_us + walk_us * (n + load))
        / (2.0 * (1.0 - load - n * rate * walk_us));
    let answer = ring.wait.interval().map(|interval| {
        let found = interval.mean / 1e6;
        format!(
            "wait {found:.3} us, formula {expected:.3} us ({:+.2} %)",
            (found / expected - 1.0) * 100.0
        )
    });
    Ran {
        events: sim.fired(),
        seconds,
        answer,
    }
}

fn hold(events: u64, pending: u32) -> Ran {
    let mut hold = Hold::new(&Rng::from_seed(5), Duration::from_us(1), u64::MAX);
    let mut sim = Simulator::new();
    hold.start(pending, &mut sim);
    let seconds = timed(&mut hold, &mut sim, events);
    Ran {
        events: sim.fired(),
        seconds,
        answer: None,
    }
}
