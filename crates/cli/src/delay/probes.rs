//! The probes of one direction of a connection. There is no clock and no thread in here.

use std::collections::VecDeque;

use super::histogram::{Histogram, LONGEST_NS, Recent};

/// The two counters of a direction: any numbers, at any time.
pub trait Ends {
    /// Bytes that the sender has sent; `None` if the connection has ended.
    fn sent(&self) -> Option<u64>;
    /// Bytes that the receiver has taken; `None` if the connection has ended.
    fn taken(&self) -> Option<u64>;
}

/// Probes of a direction that are under way at the same time: as many as begin within the time of the longest.
const PENDING_MAX: usize = 128;
/// How far two looks may be apart beyond a factor of four, where looks are made without sleeping in between, and where
/// the system has to wake the prober for them.
const TORN_NS: [u64; 2] = [2_000, 50_000];
/// A look after a sleep may be later by this part of the time that the probe has taken: looks that fall together cost the
/// prober one sleep.
const LATER: u64 = 8;
/// From here on the prober sleeps between looks. If it did so later, it would keep a receiver that is to run on the same
/// processor from receiving, and find that delay.
pub const SPINNING_NS: u64 = 8_000;

/// A probe that is under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// What the receiver's counter has to reach.
    goal: u64,
    begun_ns: u64,
    /// The last look that found that it had not.
    looked_ns: u64,
}

impl Probe {
    /// When to look next: a power of two, in microseconds, after it has begun.
    fn due_ns(&self) -> u64 {
        let us = (self.looked_ns.saturating_sub(self.begun_ns)) / 1000;
        let after_ns = ((us + 1).next_power_of_two() * 1000).min(LONGEST_NS);
        self.begun_ns.saturating_add(after_ns)
    }

    /// How much later that may be.
    fn latest_ns(&self) -> u64 {
        let due_ns = self.due_ns();
        let after_ns = due_ns.saturating_sub(self.begun_ns);
        match after_ns > SPINNING_NS {
            true => due_ns.saturating_add(after_ns / LATER),
            false => due_ns,
        }
    }

    /// The delay, if it has ended between the last look and this one. `None` if those are too far apart for that: the
    /// prober itself did not get a processor.
    fn delay_ns(&self, now_ns: u64) -> Option<u64> {
        let least = self.looked_ns.saturating_sub(self.begun_ns);
        let most = now_ns.saturating_sub(self.begun_ns);
        let torn_ns = TORN_NS[usize::from(least >= SPINNING_NS / 2)];
        // In the middle, as buckets go: by the factor.
        let middle = (least as f64 * most as f64).sqrt() as u64;
        (most <= least.saturating_mul(4).saturating_add(torn_ns)).then_some(middle.max(1))
    }
}

/// Whether a counter has come to `goal`. It may have wrapped around.
fn is_reached(goal: u64, counter: u64) -> bool {
    counter.wrapping_sub(goal) as i64 >= 0
}

/// What a connection sends in one direction, and its probes.
pub struct Direction<E> {
    ends: E,
    /// What the counters were at the last look.
    sent: Option<u64>,
    taken: Option<u64>,
    /// The oldest first. Their goals go up.
    pending: VecDeque<Probe>,
    due_ns: u64,
    latest_ns: u64,
    recent: Recent,
    total: Histogram,
}

impl<E: Ends> Direction<E> {
    /// One without probes.
    pub fn new(ends: E) -> Direction<E> {
        Direction {
            ends,
            sent: None,
            taken: None,
            pending: VecDeque::new(),
            due_ns: u64::MAX,
            latest_ns: u64::MAX,
            recent: Recent::default(),
            total: Histogram::default(),
        }
    }

    /// The same, whose counters are now found here: a program that has replaced itself has another memory.
    pub fn at(self, ends: E) -> Direction<E> {
        Direction { ends, ..self }
    }

    /// Begins a probe.
    pub fn probe(&mut self, clock: impl Fn() -> u64) {
        let Some(goal) = self.ends.sent() else {
            return self.forget();
        };
        let begun_ns = clock();
        if self.sent.is_some_and(|before| !is_reached(before, goal)) {
            self.forget();
        }
        let has_sent = self.sent.is_some_and(|before| before != goal);
        self.sent = Some(goal);
        let Some(taken) = self.take() else {
            return;
        };
        if !is_reached(goal, taken) {
            if self.pending.len() < PENDING_MAX {
                self.pending.push_back(Probe {
                    goal,
                    begun_ns,
                    looked_ns: begun_ns,
                });
            }
        } else if has_sent {
            self.record(0, begun_ns);
        }
        self.plan();
    }

    /// From when on it is to be looked at; `u64::MAX`: only for the next probe.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// By when it is to be looked at.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Looks how far the receiver has come.
    pub fn look(&mut self, clock: impl Fn() -> u64) {
        if self.pending.is_empty() {
            return;
        }
        let Some(taken) = self.take() else {
            return;
        };
        let now_ns = clock();
        while let Some(&probe) = self.pending.front() {
            if is_reached(probe.goal, taken) {
                if let Some(delay_ns) = probe.delay_ns(now_ns) {
                    self.record(delay_ns, now_ns);
                }
            } else if now_ns.saturating_sub(probe.begun_ns) >= LONGEST_NS {
                self.record(LONGEST_NS + 1, now_ns);
            } else {
                break;
            }
            self.pending.pop_front();
        }
        for probe in &mut self.pending {
            probe.looked_ns = now_ns.max(probe.begun_ns);
        }
        self.plan();
    }

    /// What the receiver has taken; `None`, and all probes are forgotten, if the connection has ended, or if it is less
    /// than before, which cannot be.
    fn take(&mut self) -> Option<u64> {
        let taken = self.ends.taken();
        let is_good = |taken: &u64| self.taken.is_none_or(|before| is_reached(before, *taken));
        let taken = taken.filter(is_good);
        if taken.is_none() {
            self.forget();
        }
        self.taken = taken;
        taken
    }

    fn forget(&mut self) {
        self.pending.clear();
        (self.sent, self.taken) = (None, None);
        self.plan();
    }

    fn plan(&mut self) {
        let due = self.pending.iter().map(Probe::due_ns).min();
        self.due_ns = due.unwrap_or(u64::MAX);
        let latest = self.pending.iter().map(Probe::latest_ns).min();
        self.latest_ns = latest.unwrap_or(u64::MAX);
    }

    fn record(&mut self, delay_ns: u64, now_ns: u64) {
        self.recent.add(delay_ns, now_ns);
        self.total.add(delay_ns);
    }

    /// The delays of the last seconds, and all. Among those of the last seconds, a probe that is under way counts with the
    /// time that it has taken so far: what is stuck shows at once.
    pub fn recorded(&mut self, now_ns: u64) -> (Histogram, Histogram) {
        let mut recent = self.recent.sum(now_ns);
        for probe in &self.pending {
            recent.add(now_ns.saturating_sub(probe.begun_ns).max(1));
        }
        (recent, self.total.clone())
    }
}

#[cfg(test)]
mod tests;
