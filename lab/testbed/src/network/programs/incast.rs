//! Many hosts that send to one at the same moment.

use barewire_units::{Duration, Instant, Rng};

use super::program::{Hands, Program, Tables};
use crate::figures::{mbps, mean, p99, us};
use crate::workbench::bench::{Bench, Note};

/// What rounds of messages are made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct IncastSpec {
    pub from: Vec<u16>,
    pub to: u16,
    pub bytes: u64,
    pub rounds: u32,
    pub period: Duration,
    pub jitter: Duration,
    pub start: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    received: u64,
    last: Instant,
}

pub(super) struct Incast {
    spec: IncastSpec,
    rng: Rng,
    rounds: Vec<Round>,
    ended: u64,
}

impl Incast {
    pub(super) fn new(spec: IncastSpec, rng: &Rng) -> Self {
        Self {
            rounds: vec![Round::default(); spec.rounds as usize],
            spec,
            rng: rng.clone(),
            ended: 0,
        }
    }

    fn round_begins(&self, round: u64) -> Instant {
        let after = self.spec.period.checked_mul(round);
        let start = Instant::ORIGIN.saturating_add(self.spec.start);
        start.saturating_add(after.unwrap_or(Duration::MAX))
    }
}

impl Program for Incast {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        for (number, &sender) in (1_u64..).zip(&self.spec.from) {
            let mut rng = self.rng.fork_nth("jitter", number);
            for round in 0..self.spec.rounds {
                let late = Duration::from_ps(rng.in_range(0..=self.spec.jitter.as_ps()));
                let at = self.round_begins(round.into()).saturating_add(late);
                desk.tick(sender, round, at);
            }
        }
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        match note {
            Note::Tick(round) => {
                desk.post(host, self.spec.to, self.spec.bytes, round.into());
            }
            Note::Received(message) => {
                let round = desk.bench.messages[message as usize].about as usize;
                self.rounds[round].received += 1;
                self.rounds[round].last = desk.now();
                self.ended += 1;
            }
            Note::Returned(_) | Note::Worked(_) => {}
        }
    }

    fn lost(&mut self, _message: u32, _desk: &mut Hands<'_>) {
        self.ended += 1;
    }

    fn is_done(&self) -> bool {
        self.ended == self.spec.from.len() as u64 * u64::from(self.spec.rounds)
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        let senders = self.spec.from.len() as u64;
        let took = |(number, round): (usize, &Round)| {
            let begun = self.round_begins(number as u64);
            round.last.saturating_duration_since(begun)
        };
        let rounds = || self.rounds.iter().enumerate();
        let busy = rounds()
            .map(took)
            .fold(Duration::ZERO, Duration::saturating_add);
        let received: u64 = self.rounds.iter().map(|round| round.received).sum();
        let whole = rounds().filter(|(_, round)| round.received == senders);
        let mut whole_us: Vec<f64> = whole.map(took).map(us).collect();
        let share = whole_us.len() as f64 / f64::from(self.spec.rounds);
        tables.incasts.row([
            ("program", "", name.into()),
            ("senders", "", senders.into()),
            ("rounds whole", "%", (100.0 * share).into()),
            ("mean time of those", "us", mean(&whole_us).into()),
            ("99th percentile", "us", p99(&mut whole_us).into()),
            (
                "goodput",
                "Mbit/s",
                mbps(received * self.spec.bytes, busy).into(),
            ),
        ]);
    }
}
