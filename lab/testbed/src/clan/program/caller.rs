//! A client of many endpoints: it calls them at random, as active as each is, and polls
//! those that have not answered.

use std::collections::VecDeque;

use barewire_des::dist::exponential_time;
use barewire_des::stats::Histogram;
use barewire_fabric::queue::Next;
use barewire_models::clan::HostCosts;
use barewire_units::{Duration, Instant, Rng};

use crate::clan::end::End;
use crate::clan::step::Step;

/// Chooses among endpoints.
#[derive(Clone)]
pub struct Picker {
    /// Sums of the weights, up to each.
    sums: Vec<u64>,
    rng: Rng,
}

impl Picker {
    /// Each weight is that of an endpoint, at least one of them not zero.
    pub fn new(weights: impl Iterator<Item = u64>, rng: Rng) -> Self {
        let sums = weights.scan(0_u64, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Picker {
            sums: sums.collect(),
            rng,
        }
    }

    fn pick(&mut self) -> usize {
        let all = self.sums.last().copied().unwrap_or(1).max(1);
        let at = self.rng.below(all);
        self.sums.partition_point(|sum| *sum <= at)
    }
}

/// When a caller calls.
pub enum Demand {
    /// As soon as fewer than so many calls have no answer.
    Window(usize),
    /// At random, so long apart in the mean, whatever has been answered.
    Open {
        mean: Duration,
        next: Instant,
        rng: Rng,
        /// Calls that have not been sent.
        backlog: VecDeque<Instant>,
    },
}

struct Line {
    end: End,
    asked: VecDeque<Instant>,
}

#[derive(Clone, Copy)]
enum Phase {
    Choosing,
    Looking(usize),
    Receiving(usize),
    Sending(usize),
}

/// The client.
pub struct Caller {
    costs: HostCosts,
    message: Vec<u8>,
    lines: Vec<Line>,
    picker: Picker,
    demand: Demand,
    phase: Phase,
    /// Lines with calls that have no answer.
    waiting: Vec<usize>,
    turn: usize,
    /// Answers that come before are not measured.
    measured_from: Instant,
    pub sent: u64,
    pub answers: u64,
    /// All of them together.
    pub round_trip_sum: Duration,
    /// In picoseconds.
    pub round_trips: Histogram,
}

impl Caller {
    pub fn new(
        costs: HostCosts,
        message_bytes: usize,
        ends: Vec<End>,
        (picker, demand): (Picker, Demand),
        measured_from: Instant,
    ) -> Self {
        let line = |end| Line {
            end,
            asked: VecDeque::new(),
        };
        Caller {
            costs,
            message: vec![0x5a; message_bytes],
            lines: ends.into_iter().map(line).collect(),
            picker,
            demand,
            phase: Phase::Choosing,
            waiting: Vec::new(),
            turn: 0,
            measured_from,
            sent: 0,
            answers: 0,
            round_trip_sum: Duration::ZERO,
            round_trips: Histogram::default(),
        }
    }

    /// Calls that have been sent and not been answered.
    pub fn unanswered(&self) -> u64 {
        self.lines.iter().map(|line| line.asked.len() as u64).sum()
    }

    pub fn step(&mut self, now: Instant) -> Step {
        match self.phase {
            Phase::Looking(line) if self.lines[line].end.rx.maybe_ready() => {
                self.phase = Phase::Receiving(line);
                return Step::Run(self.costs.receive(self.message.len()));
            }
            Phase::Looking(_) | Phase::Choosing => {}
            Phase::Receiving(line) => self.receive(line, now),
            Phase::Sending(line) => self.send(line, now),
        }
        self.choose(now)
    }

    fn receive(&mut self, number: usize, now: Instant) {
        let line = &mut self.lines[number];
        let next = line.end.rx.next_message().expect("an honest peer");
        let Next::InPlace(located) = next else {
            return;
        };
        line.end.rx.copy_out(&located, &mut self.message);
        line.end.rx.done(&next);
        let asked = line.asked.pop_front();
        if line.asked.is_empty() {
            self.waiting.retain(|waiting| *waiting != number);
        }
        self.answers += 1;
        if let Some(asked) = asked.filter(|_| now >= self.measured_from) {
            self.round_trip_sum += now - asked;
            self.round_trips.add((now - asked).as_ps());
        }
    }

    fn send(&mut self, number: usize, now: Instant) {
        let line = &mut self.lines[number];
        let sent = line.end.tx.send_frame(&self.message);
        if !sent.expect("an honest peer") {
            return;
        }
        let asked = match &mut self.demand {
            Demand::Window(_) => now.checked_sub(self.costs.send).unwrap_or(now),
            Demand::Open { backlog, .. } => backlog.pop_front().unwrap_or(now),
        };
        if line.asked.is_empty() {
            self.waiting.push(number);
        }
        line.asked.push_back(asked);
        self.sent += 1;
    }

    /// Looks at those that have not answered in turn, and calls between two looks.
    fn choose(&mut self, now: Instant) -> Step {
        let looked = matches!(self.phase, Phase::Looking(_)) || self.waiting.is_empty();
        if self.is_due(now) && looked {
            self.phase = Phase::Sending(self.picker.pick());
            return Step::Run(self.costs.send);
        }
        self.phase = Phase::Choosing;
        if !self.waiting.is_empty() {
            self.turn += 1;
            self.phase = Phase::Looking(self.waiting[self.turn % self.waiting.len()]);
        }
        Step::Run(self.pause(now))
    }

    /// One look; or, with nothing to look at, as many as there are until the next call.
    fn pause(&self, now: Instant) -> Duration {
        let poll = self.costs.poll;
        match &self.demand {
            Demand::Open { next, .. } if self.waiting.is_empty() && *next > now => {
                poll * (*next - now).as_ps().div_ceil(poll.as_ps())
            }
            _ => poll,
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        match &mut self.demand {
            Demand::Window(window) => self.sent - self.answers < *window as u64,
            Demand::Open {
                mean,
                next,
                rng,
                backlog,
            } => {
                while *next <= now {
                    backlog.push_back(*next);
                    *next += exponential_time(rng, *mean);
                }
                !backlog.is_empty()
            }
        }
    }
}
