//! Round trips between two hosts.

use barewire_des::dist::exponential_time;
use barewire_units::{Duration, Instant, Rng};

use super::program::{Hands, Program, Tables};
use crate::figures::{mean, p99, us};
use crate::workbench::bench::{Bench, Note};
use crate::workbench::path::Path;

/// What a run of round trips is made of. One more goes before them, which finds all idle.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) struct PingSpec {
    pub from: u16,
    pub to: u16,
    pub bytes: u64,
    pub round_trips: u32,
    pub pause: Duration,
    pub time_out: Duration,
    pub start: Duration,
}

/// Ticks below this begin a round trip; from it on they end the patience with one.
const TIME_OUT: u32 = 1 << 31;

pub(super) struct Ping {
    spec: PingSpec,
    rng: Rng,
    begun: u32,
    /// When the one under way began, and its message, or its answer.
    since: Instant,
    message: Option<u32>,
    times_us: Vec<f64>,
    path: Path,
    timed_out: u32,
    done: bool,
}

impl Ping {
    pub(super) fn new(spec: PingSpec, rng: &Rng) -> Self {
        Self {
            spec,
            rng: rng.fork("pauses"),
            begun: 0,
            since: Instant::ORIGIN,
            message: None,
            times_us: Vec::new(),
            path: Path::default(),
            timed_out: 0,
            done: false,
        }
    }

    fn begin_trip(&mut self, desk: &mut Hands<'_>) {
        let spec = self.spec;
        self.begun += 1;
        self.since = desk.now();
        if desk.alone {
            desk.bench.paths.restart(desk.now());
        }
        self.message = Some(desk.post(spec.from, spec.to, spec.bytes, 0));
        let late = desk.now().saturating_add(spec.time_out);
        desk.tick(spec.from, TIME_OUT | self.begun, late);
    }

    fn end_trip(&mut self, desk: &mut Hands<'_>) {
        self.message = None;
        if self.begun > self.spec.round_trips {
            self.done = true;
        } else if self.spec.pause.is_zero() {
            self.begin_trip(desk);
        } else {
            if desk.alone {
                desk.bench.rest(self.spec.from);
            }
            let pause = exponential_time(&mut self.rng, self.spec.pause);
            desk.tick(self.spec.from, 0, desk.now().saturating_add(pause));
        }
    }
}

impl Program for Ping {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        let at = Instant::ORIGIN.saturating_add(self.spec.start);
        desk.tick(self.spec.from, 0, at);
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        match note {
            Note::Tick(number) if number < TIME_OUT => self.begin_trip(desk),
            Note::Tick(number) => {
                if number == TIME_OUT | self.begun && self.message.is_some() {
                    self.timed_out += 1;
                    self.end_trip(desk);
                }
            }
            Note::Received(message) if self.message != Some(message) => {}
            Note::Received(_) if host == self.spec.to => {
                let spec = self.spec;
                self.message = Some(desk.post(spec.to, spec.from, spec.bytes, 0));
            }
            Note::Received(_) => {
                if self.begun > 1 {
                    let now = desk.now();
                    let time = now.saturating_duration_since(self.since);
                    self.times_us.push(us(time));
                    if desk.alone {
                        let path = desk.bench.paths.walk(desk.bench.cause, now);
                        self.path.merge(&path);
                    }
                }
                self.end_trip(desk);
            }
            Note::Returned(_) | Note::Worked(_) => {}
        }
    }

    fn lost(&mut self, _message: u32, _desk: &mut Hands<'_>) {
        // The time-out counts it.
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        let count = self.times_us.len().max(1) as f64;
        tables.pings.row([
            ("program", "", name.into()),
            ("size", "B", self.spec.bytes.into()),
            ("mean", "us", mean(&self.times_us).into()),
            ("99th percentile", "us", p99(&mut self.times_us).into()),
            ("timed out", "", u64::from(self.timed_out).into()),
        ]);
        for &(part, place, time) in self.path.parts() {
            let one = (name.to_owned(), place, part.name(), us(time) / count);
            tables.paths.push(one);
        }
    }
}
