//! Where the time goes: which step let the next one begin.
//!
//! Every operation, transfer and delay is a step. It begins when another one ends: the one
//! whose end is the event being handled. So from the step that ended last a chain leads back
//! without a gap, and the times of its steps add up to the whole. That is the critical path:
//! what overlaps with it is not in it, however busy it was.
//!
//! An operation that an interrupt has held up goes on when the handler has ended. The chain
//! leads from there through the handler to where it came between, and then on with the
//! operation: why the interrupt came is not why the operation took longer.

use barewire_units::{Duration, Instant};

/// What a step is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Part {
    /// The program's own work.
    Program,
    /// System calls.
    Call,
    /// Copies from memory to memory.
    Copy,
    /// Sums over the bytes by the processor.
    Checksum,
    /// The driver.
    Driver,
    /// Words and stores of the processor to and from the card.
    Words,
    /// Transfers of the card, with the wait for the bus.
    Bus,
    /// In the card.
    Card,
    /// Frames on the link.
    Wire,
    /// On the way between the ends of a link.
    Way,
    /// In the switch, but for its outputs.
    Switch,
    /// Waiting for a ring, and on it.
    Ring,
    /// In an interworking unit.
    Unit,
    /// In a device of somebody's own.
    Device,
    /// Entries of interrupt handlers.
    Interrupt,
    /// Waking a program up, and looks of one that polls.
    Wake,
    /// Nothing: interrupts held back, pauses.
    Wait,
}

impl Part {
    /// In the order of tables.
    pub(crate) const ALL: [Self; 17] = [
        Self::Program,
        Self::Call,
        Self::Copy,
        Self::Checksum,
        Self::Driver,
        Self::Words,
        Self::Bus,
        Self::Card,
        Self::Wire,
        Self::Way,
        Self::Switch,
        Self::Ring,
        Self::Unit,
        Self::Device,
        Self::Interrupt,
        Self::Wake,
        Self::Wait,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Call => "system calls",
            Self::Copy => "copies",
            Self::Checksum => "checksum",
            Self::Driver => "driver",
            Self::Words => "words and stores",
            Self::Bus => "bus",
            Self::Card => "card",
            Self::Wire => "wire",
            Self::Way => "propagation",
            Self::Switch => "switch",
            Self::Ring => "ring",
            Self::Unit => "interworking unit",
            Self::Device => "device",
            Self::Interrupt => "interrupt",
            Self::Wake => "wake-up",
            Self::Wait => "wait",
        }
    }
}

/// A step: what, at which host, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepId(u64);

impl StepId {
    /// Before everything.
    pub(crate) const NONE: Self = Self::new(Part::Wait, 0, 0);

    const fn new(part: Part, host: u16, number: u64) -> Self {
        Self(number << 24 | (host as u64) << 8 | part as u64)
    }

    fn part(self) -> Part {
        Part::ALL[(self.0 & 0xff) as usize]
    }

    const fn host(self) -> u16 {
        (self.0 >> 8) as u16
    }

    const fn number(self) -> u64 {
        self.0 >> 24
    }
}

/// The steps of a run, from some moment on.
#[derive(Debug)]
pub(crate) struct Paths {
    off: bool,
    origin: Instant,
    /// Number of the first step kept.
    base: u64,
    steps: Vec<(Instant, StepId)>,
    /// Steps that went on after an interrupt, by number: what they were before, until when.
    held_up: Vec<(u64, StepId, Instant)>,
}

impl Paths {
    pub(crate) const fn new() -> Self {
        Self {
            off: false,
            origin: Instant::ORIGIN,
            base: 1,
            steps: Vec::new(),
            held_up: Vec::new(),
        }
    }

    /// Keeps no steps from now on: who asks for no path need not pay for it.
    pub(crate) fn turn_off(&mut self) {
        self.off = true;
    }

    /// Forgets what was before `now`. A step that is under way counts from then on.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.origin = now;
        self.base += self.steps.len() as u64;
        self.steps.clear();
        self.held_up.clear();
    }

    /// A step begins at `start`, when `cause` has ended.
    pub(crate) fn begin(&mut self, part: Part, host: u16, start: Instant, cause: StepId) -> StepId {
        if self.off {
            return StepId::NONE;
        }
        let number = self.base + self.steps.len() as u64;
        self.steps.push((start, cause));
        StepId::new(part, host, number)
    }

    /// A step that was interrupted at `since` goes on at `now`, when `cause` has ended.
    pub(crate) fn go_on(
        &mut self,
        (before, since): (StepId, Instant),
        now: Instant,
        cause: StepId,
    ) -> StepId {
        let step = self.begin(before.part(), before.host(), now, cause);
        if !self.off {
            self.held_up.push((step.number(), before, since));
        }
        step
    }

    /// The chain that leads to `step`, which ended at `end`: back to the restart.
    pub(crate) fn walk(&self, step: StepId, end: Instant) -> Path {
        let mut path = Path::default();
        let (mut step, mut end) = (step, end);
        // Where to go on with what was interrupted; an interrupt may come in a handler of
        // another host's chain, so there may be several.
        let mut open: Vec<(StepId, Instant)> = Vec::new();
        while end > self.origin {
            if let Some(&(before, since)) = open.last().filter(|&&(_, since)| end <= since) {
                open.pop();
                (step, end) = (before, since.min(end));
                continue;
            }
            let kept = step.number().checked_sub(self.base);
            let kept = kept.and_then(|index| self.steps.get(index as usize));
            let (start, cause) = kept.copied().unwrap_or((self.origin, StepId::NONE));
            let mut from = start.max(self.origin).min(end);
            if let Some(&(_, since)) = open.last() {
                from = from.max(since);
            }
            path.add(step.part(), step.host(), end - from);
            let held_up = self
                .held_up
                .binary_search_by_key(&step.number(), |&(number, ..)| number);
            if let Ok(place) = held_up {
                let (_, before, since) = self.held_up[place];
                open.push((before, since));
            }
            (step, end) = (cause, from);
        }
        path
    }
}

/// Time spent on each part along a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    parts: Vec<(Part, u16, Duration)>,
}

impl Path {
    fn add(&mut self, part: Part, host: u16, time: Duration) {
        let mut parts = self.parts.iter_mut();
        match parts.find(|(p, h, _)| (*p, *h) == (part, host)) {
            Some((_, _, sum)) => *sum = sum.saturating_add(time),
            None => self.parts.push((part, host, time)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for &(part, host, time) in &other.parts {
            self.add(part, host, time);
        }
    }

    /// All of it.
    pub(crate) fn total(&self) -> Duration {
        let times = self.parts.iter().map(|&(_, _, time)| time);
        times.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// On one part, at all hosts.
    pub(crate) fn on(&self, part: Part) -> Duration {
        let of_part = self.parts.iter().filter(|&&(p, _, _)| p == part);
        of_part.fold(Duration::ZERO, |sum, &(_, _, time)| {
            sum.saturating_add(time)
        })
    }

    /// Each part at each host, in the order in which they came up.
    pub(crate) fn parts(&self) -> &[(Part, u16, Duration)] {
        &self.parts
    }

    /// The part and host with the most, and its share of the whole.
    pub(crate) fn most(&self) -> Option<(Part, u16, f64)> {
        let total_ps = self.total().as_ps().max(1) as f64;
        let most = self.parts.iter().max_by_key(|&&(_, _, time)| time)?;
        Some((most.0, most.1, most.2.as_ps() as f64 / total_ps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_us(us)
    }

    #[test]
    fn a_path_adds_up_and_leaves_out_what_overlaps() {
        let mut paths = Paths::new();
        let before = paths.begin(Part::Wait, 0, at(0), StepId::NONE);
        paths.restart(at(10));
        // Under way at the restart, to 15; then a copy to 40 while the wire is busy.
        let copy = paths.begin(Part::Copy, 1, at(15), before);
        let wire = paths.begin(Part::Wire, 0, at(15), before);
        let end = paths.begin(Part::Call, 1, at(40), copy);
        let path = paths.walk(end, at(47));
        assert_eq!(path.total(), Duration::from_us(37));
        assert_eq!(path.on(Part::Wait), Duration::from_us(5));
        assert_eq!(path.on(Part::Copy), Duration::from_us(25));
        assert_eq!(path.on(Part::Wire), Duration::ZERO);
        let (part, host, share) = path.most().expect("parts");
        assert_eq!((part, host), (Part::Copy, 1));
        assert!((share - 25.0 / 37.0).abs() < 1e-9);
        let other = paths.walk(wire, at(20));
        assert_eq!(other.on(Part::Wire), Duration::from_us(5));
        let mut sum = path.clone();
        sum.merge(&other);
        assert_eq!(sum.total(), path.total() + other.total());
    }

    #[test]
    fn a_path_leads_through_the_handler_back_to_what_it_held_up() {
        let mut paths = Paths::new();
        paths.restart(at(0));
        let call = paths.begin(Part::Call, 1, at(0), StepId::NONE);
        let copy = paths.begin(Part::Copy, 1, at(10), call);
        // A frame comes at 20; its handler works to 26, and the copy goes on to 40.
        let wire = paths.begin(Part::Wire, 0, at(0), StepId::NONE);
        let entry = paths.begin(Part::Interrupt, 1, at(20), wire);
        let driver = paths.begin(Part::Driver, 1, at(22), entry);
        let again = paths.go_on((copy, at(20)), at(26), driver);
        let path = paths.walk(again, at(40));
        let us = |part| path.on(part).as_us();
        assert_eq!(us(Part::Copy), 10 + 14);
        assert_eq!((us(Part::Interrupt), us(Part::Driver)), (2, 4));
        assert_eq!((us(Part::Call), us(Part::Wire)), (10, 0));
        // For what the handler gives to others, the frame is the cause.
        let path = paths.walk(driver, at(26));
        assert_eq!(path.on(Part::Wire), Duration::from_us(20));
    }

    #[test]
    fn the_order_of_parts_is_that_of_their_codes() {
        for (code, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, code);
        }
    }
}
