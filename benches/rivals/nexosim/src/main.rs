//! The workloads of `make bench-lab` on nexosim: `nexosim-rival WORKLOAD EVENTS` prints
//! `EVENTS SECONDS`. One thread, statistics on, the fastest form that we know of: one model,
//! which schedules itself.
//!
//! The generator and the logarithm cost about what those of `barewire_des` cost.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

/// Events handled, and the sum of what was measured, in nanoseconds.
static FIRED: AtomicU64 = AtomicU64::new(0);
static SUM_NS: AtomicU64 = AtomicU64::new(0);

/// xorshift64*, and an exponential variate from it.
#[derive(Serialize, Deserialize)]
struct Random(u64);

impl Random {
    fn exponential(&mut self, mean_ns: f64) -> Duration {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        let unit = (bits + 1) as f64 / (1_u64 << 53) as f64;
        // Time must go on: at least one nanosecond.
        Duration::from_nanos((-unit.ln() * mean_ns) as u64 + 1)
    }
}

fn count(measured: Option<Duration>) {
    FIRED.fetch_add(1, Ordering::Relaxed);
    if let Some(measured) = measured {
        SUM_NS.fetch_add(measured.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[derive(Serialize, Deserialize)]
struct Mm1 {
    random: Random,
    here: VecDeque<MonotonicTime>,
}

#[Model]
impl Mm1 {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        self.next(cx);
    }

    #[nexosim(schedulable)]
    async fn arrival(&mut self, _: (), cx: &Context<Self>) {
        count(None);
        self.here.push_back(cx.time());
        self.next(cx);
        if self.here.len() == 1 {
            self.serve(cx);
        }
    }

    #[nexosim(schedulable)]
    async fn departure(&mut self, _: (), cx: &Context<Self>) {
        let came = self.here.pop_front().expect("somebody is served");
        count(Some(cx.time().duration_since(came)));
        if !self.here.is_empty() {
            self.serve(cx);
        }
    }

    fn next(&mut self, cx: &Context<Self>) {
        let delay = self.random.exponential(100_000.0);
        cx.schedule_event(delay, schedulable!(Self::arrival), ())
            .expect("the future");
    }

    fn serve(&mut self, cx: &Context<Self>) {
        let delay = self.random.exponential(90_000.0);
        cx.schedule_event(delay, schedulable!(Self::departure), ())
            .expect("the future");
    }
}

const STATIONS: usize = 32;
const SERVICE_NS: f64 = 10_000.0;
const WALK: Duration = Duration::from_nanos(500);
const BETWEEN_NS: f64 = SERVICE_NS * STATIONS as f64 / 0.6;

#[derive(Serialize, Deserialize)]
struct Ring {
    random: Random,
    queues: Vec<VecDeque<MonotonicTime>>,
}

#[Model]
impl Ring {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        (0..STATIONS).for_each(|station| self.next(station, cx));
        cx.schedule_event(WALK, schedulable!(Self::token), 0)
            .expect("the future");
    }

    #[nexosim(schedulable)]
    async fn arrival(&mut self, station: usize, cx: &Context<Self>) {
        count(None);
        self.queues[station].push_back(cx.time());
        self.next(station, cx);
    }

    #[nexosim(schedulable)]
    async fn token(&mut self, station: usize, cx: &Context<Self>) {
        let came = self.queues[station].pop_front();
        count(came.map(|came| cx.time().duration_since(came)));
        let service = came.map(|_| self.random.exponential(SERVICE_NS));
        let away = WALK + service.unwrap_or_default();
        let next = (station + 1) % STATIONS;
        cx.schedule_event(away, schedulable!(Self::token), next)
            .expect("the future");
    }

    fn next(&mut self, station: usize, cx: &Context<Self>) {
        let delay = self.random.exponential(BETWEEN_NS);
        cx.schedule_event(delay, schedulable!(Self::arrival), station)
            .expect("the future");
    }
}

#[derive(Serialize, Deserialize)]
struct Hold {
    random: Random,
    pending: usize,
}

#[Model]
impl Hold {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        (0..self.pending).for_each(|_| self.again(cx));
    }

    #[nexosim(schedulable)]
    async fn fire(&mut self, _: (), cx: &Context<Self>) {
        count(None);
        self.again(cx);
    }

    fn again(&mut self, cx: &Context<Self>) {
        // Long against a nanosecond, which is the finest time here.
        let delay = self.random.exponential(1e9);
        cx.schedule_event(delay, schedulable!(Self::fire), ())
            .expect("the future");
    }
}

fn run<M: Model<Env = ()>>(model: M, events: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let bench = SimInit::with_num_threads(1).add_model(model, Mailbox::new(), "model");
    let mut simulation = bench.init(MonotonicTime::EPOCH)?;
    let begun = Instant::now();
    while FIRED.load(Ordering::Relaxed) < events {
        simulation.step()?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().ok_or("nexosim-rival WORKLOAD EVENTS")?;
    let events: u64 = arguments.next().ok_or("how many events?")?.parse()?;
    let random = Random(0x9e37_79b9_7f4a_7c15);
    let hold = |pending, random| Hold { random, pending };
    let seconds = match workload.as_str() {
        "mm1" => run(
            Mm1 {
                random,
                here: VecDeque::new(),
            },
            events,
        )?,
        "ring" => run(
            Ring {
                random,
                queues: vec![VecDeque::new(); STATIONS],
            },
            events,
        )?,
        "hold-1024" => run(hold(1_024, random), events)?,
        "hold-65536" => run(hold(65_536, random), events)?,
        other => return Err(format!("no workload {other}").into()),
    };
    eprintln!("sum of times: {} ns", SUM_NS.load(Ordering::Relaxed));
    println!("{} {seconds}", FIRED.load(Ordering::Relaxed));
    Ok(())
}
