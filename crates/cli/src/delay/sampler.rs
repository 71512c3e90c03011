//! The thread that probes: when it does so, and what of the processor it takes.
//!
//! Probes begin at random moments, so that they do not fall into step with programs that send at fixed times. Some
//! connections at a time are probed and then looked at for a few microseconds without sleeping. From there on the thread
//! sleeps between looks. It measures how much of a processor it takes, and begins fewer probes when that is too much.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use barewire_sys::clock::monotonic_ns;
use barewire_units::Rng;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::histogram::Recorded;
use super::probes::{Direction, Ends, SPINNING_NS};

/// Directions that are probed: those of 64 connections.
const WATCHED_MAX: usize = 128;
/// Directions that are probed at the same time.
const GROUP: usize = 8;
/// Between two probes of a direction, if there are few.
const PROBE_NS: u64 = 10_000_000;
/// At least between two groups.
const GROUP_NS_MIN: u64 = 2_500_000;
/// The shortest sleep.
const SLEEP_NS_MIN: u64 = 5_000;
/// The longest sleep, where there is nothing to probe.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// What the thread aims at, as a part of a processor.
const SHARE: f64 = 0.012;
/// How often the thread looks what it takes.
const PACE_NS: u64 = 200_000_000;
/// The most by which probes become fewer.
const SLOWER_MAX: f64 = 100.0;
/// How precisely the kernel wakes the thread; it is 50 us for others.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// What is probed, and what for: shared with the thread.
struct State<K, E> {
    watched: Vec<(K, Direction<E>)>,
    /// The first of the next group.
    next: usize,
    is_ending: bool,
}

/// A thread that probes. It ends when this is dropped.
pub struct Sampler<K, E> {
    state: Arc<Mutex<State<K, E>>>,
    thread: Option<JoinHandle<()>>,
}

fn lock<K, E>(state: &Mutex<State<K, E>>) -> MutexGuard<'_, State<K, E>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, E> Sampler<K, E>
where
    K: Clone + Eq + Hash + Send + 'static,
    E: Ends + Send + 'static,
{
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has none.
    pub fn start() -> io::Result<Sampler<K, E>> {
        let state = Arc::new(Mutex::new(State {
            watched: Vec::new(),
            next: 0,
            is_ending: false,
        }));
        let of_thread = Arc::clone(&state);
        let thread = Builder::new().name("delays".to_owned());
        let thread = thread.spawn(move || probe_until_end(&of_thread))?;
        Ok(Sampler {
            state,
            thread: Some(thread),
        })
    }

    /// Probes these, the busiest first, and no others. What is known of those that stay is kept.
    pub fn watch(&self, wanted: impl Iterator<Item = (K, E)>) {
        let mut state = lock(&self.state);
        let mut known: HashMap<K, Direction<E>> = state.watched.drain(..).collect();
        let wanted = wanted.take(WATCHED_MAX);
        state.watched = wanted
            .map(|(key, ends)| {
                let direction = match known.remove(&key) {
                    Some(kept) => kept.at(ends),
                    None => Direction::new(ends),
                };
                (key, direction)
            })
            .collect();
        drop(state);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// What has been found out of those that are probed.
    pub fn recorded(&self) -> HashMap<K, Recorded> {
        let now = monotonic_ns();
        let mut state = lock(&self.state);
        let recorded = |(key, direction): &mut (K, Direction<E>)| {
            let (recent, total) = direction.recorded(now);
            (key.clone(), Recorded { recent, total })
        };
        state.watched.iter_mut().map(recorded).collect()
    }
}

impl<K, E> Drop for Sampler<K, E> {
    fn drop(&mut self) {
        lock(&self.state).is_ending = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Had it panicked, that was said.
            let _ = thread.join();
        }
    }
}

fn probe_until_end<K, E: Ends>(state: &Mutex<State<K, E>>) {
    // Without it, looks are later than they might be.
    let _ = set_current_timer_slack(Some(TIMER_SLACK_NS));
    let mut chance = Rng::from_seed(monotonic_ns() ^ u64::from(std::process::id()) << 32);
    let mut pace = Pace::new(monotonic_ns(), used_ns());
    let mut next_probe_ns = monotonic_ns();
    loop {
        let mut now = monotonic_ns();
        let mut state = lock(state);
        if state.is_ending {
            return;
        }
        if now >= next_probe_ns {
            state.probe_group();
            now = monotonic_ns();
            next_probe_ns = now + pace.interval_ns(state.watched.len(), &mut chance);
        }
        let due = state.look_at_due(now);
        let is_idle = state.watched.is_empty();
        drop(state);
        let now = monotonic_ns();
        let until = match is_idle {
            true => now + SLEEP_NS_MAX,
            false => due.min(next_probe_ns).max(now + SLEEP_NS_MIN),
        };
        pace.adapt(now, used_ns());
        park_timeout(Duration::from_nanos(until - now));
    }
}

/// What this thread has had of a processor.
fn used_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(used.tv_nsec).unwrap_or(0)
}

impl<K, E: Ends> State<K, E> {
    /// Probes the next of them, and looks at those for a few microseconds.
    fn probe_group(&mut self) {
        let count = self.watched.len();
        let group = count.min(GROUP);
        let first = if count == 0 { 0 } else { self.next % count };
        self.next = first + group;
        let begun = monotonic_ns();
        let until = begun + SPINNING_NS + SPINNING_NS / 4;
        for nth in 0..group {
            self.watched[(first + nth) % count].1.probe(monotonic_ns);
        }
        loop {
            let now = monotonic_ns();
            let mut soonest = u64::MAX;
            for nth in 0..group {
                let direction = &mut self.watched[(first + nth) % count].1;
                if direction.due_ns() <= now {
                    direction.look(monotonic_ns);
                }
                soonest = soonest.min(direction.due_ns());
            }
            if soonest > until || now > until {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Looks at all that are due, and says by when the next look has to be.
    fn look_at_due(&mut self, now: u64) -> u64 {
        let mut soonest = u64::MAX;
        for (_, direction) in &mut self.watched {
            if direction.due_ns() <= now {
                direction.look(monotonic_ns);
            }
            soonest = soonest.min(direction.latest_ns());
        }
        soonest
    }
}

/// How fast probes follow each other.
struct Pace {
    /// By how much fewer there are than there might be.
    slower: f64,
    /// When this was last looked at, and what the thread had had of a processor by then.
    looked_ns: u64,
    used_ns: u64,
}

impl Pace {
    fn new(now_ns: u64, used_ns: u64) -> Pace {
        Pace {
            slower: 1.0,
            looked_ns: now_ns,
            used_ns,
        }
    }

    /// Until the next group: half as long to one and a half times as long as in the mean.
    fn interval_ns(&self, watched: usize, chance: &mut Rng) -> u64 {
        let groups = watched.div_ceil(GROUP).max(1) as u64;
        let mean = (PROBE_NS / groups).max(GROUP_NS_MIN);
        let mean = (mean as f64 * self.slower) as u64;
        mean / 2 + chance.below(mean.max(1))
    }

    /// Makes probes fewer or more frequent, by what they took lately.
    fn adapt(&mut self, now_ns: u64, used_ns: u64) {
        let passed = now_ns.saturating_sub(self.looked_ns);
        if passed < PACE_NS {
            return;
        }
        let share = used_ns.saturating_sub(self.used_ns) as f64 / passed as f64;
        let by = (share / SHARE).clamp(0.5, 2.0);
        self.slower = (self.slower * by).clamp(1.0, SLOWER_MAX);
        (self.looked_ns, self.used_ns) = (now_ns, used_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_become_fewer_when_they_take_too_much() {
        let mut chance = Rng::from_seed(1);
        let mut pace = Pace::new(0, 0);
        let mut mean = |pace: &Pace, watched| {
            let all = (0..1000).map(|_| pace.interval_ns(watched, &mut chance));
            all.sum::<u64>() / 1000
        };
        let few = mean(&pace, 2);
        assert!((9_000_000..11_000_000).contains(&few), "{few}");
        let many = mean(&pace, 128);
        assert!((2_200_000..2_800_000).contains(&many), "{many}");
        // A tenth of a processor is far too much.
        pace.adapt(PACE_NS, PACE_NS / 10);
        let slower = mean(&pace, 2);
        assert!((18_000_000..22_000_000).contains(&slower), "{slower}");
        for nth in 2..100 {
            pace.adapt(PACE_NS * nth, PACE_NS / 10 * nth);
        }
        assert!(mean(&pace, 2) < 1_100_000_000);
        let used = PACE_NS / 10 * 99;
        for nth in 100..200 {
            pace.adapt(PACE_NS * nth, used);
        }
        let quick = mean(&pace, 2);
        assert!((9_000_000..11_000_000).contains(&quick), "{quick}");
    }
}
