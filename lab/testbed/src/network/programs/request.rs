//! Clients that ask a server at random times, whether it keeps up or not.

use barewire_des::dist::exponential_time;
use barewire_units::{Duration, Instant, Rng};

use super::program::{Hands, Program, Tables};
use crate::figures::{mean, p99, us};
use crate::workbench::bench::{Bench, Note};

/// What clients and their server are made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct RequestSpec {
    pub from: Vec<u16>,
    pub to: u16,
    /// Requests a second, of all clients together.
    pub rate: f64,
    pub request_bytes: u64,
    pub answer_bytes: u64,
    /// What the server does for each.
    pub work: Duration,
    pub time: Duration,
    /// Requests that a client holds before it has to drop one.
    pub backlog: usize,
}

pub(super) struct Request {
    spec: RequestSpec,
    gap: Duration,
    rngs: Vec<Rng>,
    /// Clients that have sent their last request.
    over: usize,
    asked: u64,
    dropped: u64,
    lost: u64,
    answered: u64,
    answered_measured: u64,
    latencies_us: Vec<f64>,
}

impl Request {
    pub(super) fn new(spec: RequestSpec, rng: &Rng) -> Self {
        let gap_ps = 1e12 * spec.from.len() as f64 / spec.rate;
        Self {
            gap: Duration::from_ps(gap_ps as u64),
            rngs: (1..=spec.from.len() as u64)
                .map(|client| rng.fork_nth("requests", client))
                .collect(),
            spec,
            over: 0,
            asked: 0,
            dropped: 0,
            lost: 0,
            answered: 0,
            answered_measured: 0,
            latencies_us: Vec::new(),
        }
    }

    fn end(&self) -> Instant {
        Instant::ORIGIN.saturating_add(self.spec.time)
    }

    /// What is asked before is the warm-up.
    fn measured_from(&self) -> Instant {
        Instant::ORIGIN.saturating_add(self.spec.time / 5)
    }

    fn schedule(&mut self, client: usize, desk: &mut Hands<'_>) {
        let gap = exponential_time(&mut self.rngs[client], self.gap);
        let next = desk.now().saturating_add(gap);
        if next < self.end() {
            desk.tick(self.spec.from[client], client as u32, next);
        } else {
            self.over += 1;
        }
    }

    fn answer(&self, message: u32, desk: &mut Hands<'_>) {
        let asked = desk.bench.messages[message as usize];
        desk.post(
            self.spec.to,
            asked.from,
            self.spec.answer_bytes,
            asked.about,
        );
    }
}

impl Program for Request {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        for client in 0..self.spec.from.len() {
            self.schedule(client, desk);
        }
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        match note {
            Note::Tick(client) => {
                self.asked += 1;
                if desk.bench.posted(host) < self.spec.backlog {
                    let now_ps = desk.now().since_origin().as_ps();
                    desk.post(host, self.spec.to, self.spec.request_bytes, now_ps);
                } else {
                    self.dropped += 1;
                }
                self.schedule(client as usize, desk);
            }
            Note::Received(message) if host == self.spec.to => {
                if self.spec.work.is_zero() {
                    self.answer(message, desk);
                } else {
                    desk.bench.work(host, message, self.spec.work);
                }
            }
            Note::Worked(message) => self.answer(message, desk),
            Note::Received(message) => {
                self.answered += 1;
                let asked = Instant::from_ps(desk.bench.messages[message as usize].about);
                if (self.measured_from()..=self.end()).contains(&desk.now()) {
                    self.answered_measured += 1;
                }
                // As if the run ended with the requests: what comes later is answered, not timed.
                if asked >= self.measured_from() && desk.now() <= self.end() {
                    let time = desk.now().saturating_duration_since(asked);
                    self.latencies_us.push(us(time));
                }
            }
            Note::Returned(_) => {}
        }
    }

    fn lost(&mut self, _message: u32, _desk: &mut Hands<'_>) {
        self.lost += 1;
    }

    fn is_done(&self) -> bool {
        let ended = self.answered + self.dropped + self.lost;
        self.over == self.spec.from.len() && ended == self.asked
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        let measured = self.spec.time - self.spec.time / 5;
        let answers_per_s = self.answered_measured as f64 * 1e6 / us(measured);
        tables.requests.row([
            ("program", "", name.into()),
            ("offered", "1/s", self.spec.rate.into()),
            ("answered", "1/s", answers_per_s.into()),
            ("mean time", "us", mean(&self.latencies_us).into()),
            ("99th percentile", "us", p99(&mut self.latencies_us).into()),
            ("asked", "", self.asked.into()),
            ("dropped by the clients", "", self.dropped.into()),
            ("lost", "", self.lost.into()),
        ]);
    }
}
