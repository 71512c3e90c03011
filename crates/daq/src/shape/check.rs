//! The rate that comes out of our classes, from the kernel's own counters.
//!
//! A class shows its rate while it has something to send all the time. So the counters are read
//! every [`PERIOD`], and stretches of at least [`LEAST`] count in which packets waited at every
//! look, and the class had to wait between any two. After [`ENOUGH`] of such time the rate is
//! told beside what was set, or after [`PATIENCE`] that there was too little to send. What is
//! measured sends nothing itself.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barewire_units::Rate;

use super::htb::{ClassId, Interface, Taken};

const PERIOD: Duration = Duration::from_millis(20);
const ENOUGH: Duration = Duration::from_secs(1);
/// Shorter, a packet more or less matters.
const LEAST: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(5);
/// More is worth a word, in percent.
const ERROR_MAX: f64 = 2.0;

/// Reads the counters of an interface until everything is told. Dropped, it tells what it has.
#[derive(Debug)]
pub(super) struct Watch {
    classes: Option<Sender<ClassId>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub fn start(interface: Interface, source: u16, rate: Rate) -> Self {
        let (classes, added) = channel();
        let thread = std::thread::spawn(move || watch(interface, source, rate, &added));
        Self {
            classes: Some(classes),
            thread: Some(thread),
        }
    }

    /// Of a builder's class, too.
    pub fn add(&self, id: ClassId) {
        if let Some(classes) = &self.classes {
            // It may have told everything, and ended: a builder that came again is not measured.
            let _ = classes.send(id);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.classes.take();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn watch(mut interface: Interface, source: u16, rate: Rate, added: &Receiver<ClassId>) {
    let mut meters: BTreeMap<ClassId, Meter> = BTreeMap::new();
    let mut over = false;
    loop {
        match added.recv_timeout(PERIOD) {
            Ok(id) => {
                meters.entry(id).or_default();
                continue;
            }
            Err(reason) => over |= reason == RecvTimeoutError::Disconnected,
        }
        let Ok(classes) = interface.classes() else {
            return;
        };
        let now = Instant::now();
        for (id, taken) in classes {
            meters.entry(id).and_modify(|it| it.look(now, taken));
        }
        let all = || meters.values();
        if over || (!meters.is_empty() && all().all(|it| it.is_done(now))) {
            if let Some(text) = verdict(rate, all()) {
                eprintln!("source {source}, {}: {text}", interface.name());
            }
            return;
        }
    }
}

/// Of a class.
#[derive(Debug, Default)]
struct Meter {
    before: Option<(Instant, Taken)>,
    /// When it first had sent something.
    first: Option<Instant>,
    /// The stretch that goes on, and those before.
    stretch: Stretch,
    sum: Stretch,
}

/// Time, and what was sent in it.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    time: Duration,
    bytes: u64,
}

impl Stretch {
    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.bytes += other.bytes;
    }
}

impl Meter {
    fn look(&mut self, now: Instant, taken: Taken) {
        let Some((at, before)) = self.before.replace((now, taken)) else {
            return;
        };
        if taken.bytes > before.bytes {
            self.first.get_or_insert(at);
        }
        let waited = taken.overlimits != before.overlimits;
        if waited && taken.backlog_bytes > 0 && before.backlog_bytes > 0 {
            self.stretch.add(Stretch {
                time: now - at,
                bytes: taken.bytes.saturating_sub(before.bytes),
            });
        } else {
            self.sum = self.counted();
            self.stretch = Stretch::default();
        }
    }

    fn counted(&self) -> Stretch {
        let mut sum = self.sum;
        if self.stretch.time >= LEAST {
            sum.add(self.stretch);
        }
        sum
    }

    /// Whether it knows enough, or never will.
    fn is_done(&self, now: Instant) -> bool {
        let late = self.first.is_some_and(|it| now - it > PATIENCE);
        late || self.counted().time >= ENOUGH
    }

    /// In Mbit/s.
    fn rate(&self) -> Option<f64> {
        let Stretch { time, bytes } = self.counted();
        (time >= LEAST).then(|| bytes as f64 * 8e-6 / time.as_secs_f64())
    }
}

/// What is told of all classes of an interface, if any has sent.
fn verdict<'a>(set: Rate, meters: impl Iterator<Item = &'a Meter>) -> Option<String> {
    let used: Vec<_> = meters.filter(|it| it.first.is_some()).collect();
    let rates: Vec<_> = used.iter().filter_map(|it| it.rate()).collect();
    let all = used.len();
    let mut text = format!("{set} set for each of {all} builders");
    if rates.len() < all {
        let unknown = all - rates.len();
        text += &format!("; {unknown} not verified: too little to send");
    }
    let (Some(least), Some(most)) = (
        rates.iter().copied().reduce(f64::min),
        rates.iter().copied().reduce(f64::max),
    ) else {
        return (all > 0).then_some(text);
    };
    let error = |mbps: f64| (mbps * 1e6 / set.as_bps() as f64 - 1.0) * 100.0;
    let (low, high) = (error(least), error(most));
    text += &format!("; {least:.2} to {most:.2} Mbit/s measured ({low:+.2} to {high:+.2} %)");
    if low < -ERROR_MAX {
        text += "; too little: the line is slower, the processors are busy, or flow.burst is too \
                 small for late timers";
    }
    if high > ERROR_MAX {
        text += "; too much: not all goes through the class";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a class of 100 Mbit/s, with what waits each time.
    fn meter_of(backlogs: &[u32]) -> (Meter, Instant) {
        let mut meter = Meter::default();
        let start = Instant::now();
        let mut now = start;
        for (n, &backlog_bytes) in (0_u32..).zip(backlogs) {
            now = start + PERIOD * n;
            let taken = Taken {
                bytes: u64::from(n) * 250_000,
                backlog_bytes,
                overlimits: n,
                ..Taken::default()
            };
            meter.look(now, taken);
        }
        (meter, now)
    }

    #[test]
    fn only_stretches_with_something_to_send_count() {
        let set = Rate::from_mbps(100);
        let (steady, now) = meter_of(&[9; 51]);
        assert!(steady.is_done(now));
        let text = verdict(set, [&steady].into_iter()).expect("enough");
        let told = "100Mbit/s set for each of 1 builders; 100.00 to 100.00 Mbit/s measured (+0.00 to +0.00 %)";
        assert_eq!(text, told);
        let (gaps, now) = meter_of(&[9, 9, 9, 9, 0].repeat(20));
        assert!(!gaps.is_done(now));
        assert!(gaps.is_done(now + PATIENCE));
        assert_eq!(gaps.rate(), None);
        let text = verdict(set, [&steady, &gaps].into_iter()).expect("one of them");
        assert!(
            text.contains("2 builders; 1 not verified: too little to send; 100.00"),
            "{text}"
        );
        assert_eq!(verdict(set, [&Meter::default()].into_iter()), None);
        // Two stretches that are long enough, and one that is not.
        let (mixed, _) = meter_of(&[&[9; 13][..], &[0], &[9; 4], &[0], &[9; 11]].concat());
        assert_eq!(mixed.counted().time, PERIOD * 22);
        assert_eq!(mixed.counted().bytes, 22 * 250_000);
    }

    #[test]
    fn what_is_off_is_explained() {
        let (steady, _) = meter_of(&[9; 51]);
        let text = |mbps| verdict(Rate::from_mbps(mbps), [&steady].into_iter()).expect("enough");
        assert!(text(103).contains("too little: the line"));
        assert!(text(97).contains("too much"));
        assert!(!text(99).contains("too"));
    }
}
