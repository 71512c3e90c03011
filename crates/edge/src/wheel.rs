//! A timer wheel: when each of many connections wants to be called again.
//!
//! Slots of a millisecond go around. A connection is in at most one of them, and not later than it
//! wants to be called; when its slot comes, it is asked again. So a deadline that moves away, as
//! most do with each packet, costs nothing, and one that moves closer costs one entry.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

const SLOTS: u64 = 1024;

/// Deadlines by name.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    /// In which tick each name's entry is.
    ticks: HashMap<T, u64>,
    /// All ticks before this one have been looked at.
    tick: u64,
}

impl<T: Copy + Eq + Hash> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            ticks: HashMap::new(),
            tick: 0,
        }
    }

    /// Has `name` called at `at`, or somewhat before. All times are those since the wheel was made.
    pub(crate) fn set(&mut self, name: T, at: Duration) {
        let wanted = tick(at, at.subsec_nanos().div_ceil(1_000_000));
        let tick = wanted.clamp(self.tick, self.tick + SLOTS - 1);
        match self.ticks.get(&name) {
            Some(&known) if known <= tick => return,
            Some(&known) => self.slot(known).retain(|other| *other != name),
            None => {}
        }
        self.ticks.insert(name, tick);
        self.slot(tick).push(name);
    }

    /// Forgets a name.
    pub(crate) fn remove(&mut self, name: T) {
        if let Some(tick) = self.ticks.remove(&name) {
            self.slot(tick).retain(|other| *other != name);
        }
    }

    /// The names whose slots have come; they are forgotten until they are set again.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<T> {
        let mut due = Vec::new();
        let last = tick(now, now.subsec_millis());
        // A whole turn sees all slots.
        let end = (last + 1).min(self.tick + SLOTS);
        while self.tick < end {
            let tick = self.tick;
            due.append(self.slot(tick));
            self.tick += 1;
        }
        self.tick = self.tick.max(last + 1);
        for name in &due {
            self.ticks.remove(name);
        }
        due
    }

    /// When the next slot with a name in it comes.
    pub(crate) fn next(&self) -> Option<Duration> {
        if self.ticks.is_empty() {
            return None;
        }
        let tick = (self.tick..self.tick + SLOTS)
            .find(|tick| !self.slots[(tick % SLOTS) as usize].is_empty())?;
        Some(Duration::from_millis(tick))
    }

    fn slot(&mut self, tick: u64) -> &mut Vec<T> {
        &mut self.slots[(tick % SLOTS) as usize]
    }
}

/// The slot that is so many milliseconds behind a whole second.
fn tick(at: Duration, ms: u32) -> u64 {
    // Half of all numbers is more than 100 million years.
    let whole = at.as_secs().saturating_mul(1000).min(u64::MAX / 2);
    whole + u64::from(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Rng;
    use std::collections::BTreeMap;

    fn at(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// As those who use it do: whoever is called too early sets its deadline again.
    #[test]
    fn everybody_is_called_within_a_millisecond() {
        called_in_time(0);
    }

    /// Among others, a little before an `Instant` of `barewire-units` ends.
    #[test]
    fn also_after_years() {
        const DAY_US: u64 = 86_400_000_000;
        for days in [213, 1000, 36_500] {
            called_in_time(days * DAY_US);
        }
    }

    fn called_in_time(from_us: u64) {
        let mut rng = Rng::from_seed(1);
        let mut wheel = Wheel::new();
        let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = from_us;
        wheel.due(at(now));
        let mut called = 0;
        for round in 0..20_000 {
            let name = rng.below(50) as u32;
            match rng.below(10) {
                0 => {
                    wheel.remove(name);
                    wanted.remove(&name);
                }
                1..4 => {
                    let deadline = now + rng.below(5_000_000);
                    wheel.set(name, at(deadline));
                    wanted.insert(name, deadline);
                }
                4..7 => {
                    let deadline = now + rng.below(20_000);
                    wheel.set(name, at(deadline));
                    wanted.insert(name, deadline);
                }
                _ => now += rng.below(if round % 100 == 0 { 2_000_000 } else { 3000 }),
            }
            for name in wheel.due(at(now)) {
                match wanted.get(&name) {
                    Some(&deadline) if deadline <= now => {
                        wanted.remove(&name);
                        called += 1;
                    }
                    Some(&deadline) => wheel.set(name, at(deadline)),
                    None => panic!("{name} was removed"),
                }
            }
            let late = wanted.values().filter(|&&deadline| deadline + 1000 < now);
            assert_eq!(late.count(), 0, "round {round}");
            match (wheel.next(), wanted.values().min()) {
                (Some(next), Some(&first)) => assert!(next <= at(first + 1000)),
                (None, None) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(called > 1000, "{called}");
    }
}
