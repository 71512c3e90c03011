//! The server: it waits as the live network does (`barewire-fabric`'s `wait` over the
//! doorbell page), takes events, and answers what the rings behind them hold.
//!
//! A bit of the event queue stands for one endpoint, or for several that share a tripwire:
//! then the server looks at each of them. Endpoints without a tripwire are looked at in
//! turn, one for each event and whenever there is none; with such a server never sleeps.
//!
//! A request costs the same however many wait behind it. On CLAN each transfer that touches a
//! tripwire puts an entry of its own into the event queue, and each entry is taken and called
//! back. The doorbell page of the live network has one bit for all that wait behind a
//! tripwire, so the server pays for the further requests behind a bit as it paid for the bit.

use std::ops::Range;

use barewire_fabric::doorbell::{self, Drain};
use barewire_fabric::queue::Next;
use barewire_fabric::wait::{Act, Wait};
use barewire_models::clan::{HostCosts, StateCache, Words};
use barewire_units::{Duration, Instant};

use crate::clan::end::End;
use crate::clan::step::Step;

/// Where a server hears of requests.
pub enum Ears {
    /// It polls its only connection.
    Ring,
    /// From the event queue, which it polls and then sleeps on.
    Events(Events),
}

/// The event queue, as its owner sees it.
pub struct Events {
    words: Words,
    drain: Drain,
    /// Odd while the server sleeps.
    sleep: u64,
    wait: Wait,
    /// Endpoints behind each bit.
    pub groups: Vec<Range<usize>>,
    /// Endpoints behind none.
    pub unwatched: Range<usize>,
    next_unwatched: usize,
    /// An event has been taken since an endpoint without a tripwire was looked at.
    owed: bool,
    /// An event has been paid for, and no request yet been taken for it.
    paid: bool,
}

impl Events {
    /// The events of a doorbell page.
    pub fn new(words: Words, costs: &HostCosts) -> Self {
        Events {
            words,
            drain: Drain::default(),
            sleep: 0,
            wait: begin(Instant::ORIGIN, costs),
            groups: Vec::new(),
            unwatched: 0..0,
            next_unwatched: 0,
            owed: false,
            paid: false,
        }
    }

    /// What it costs to take the event of a request of `end` and to call back, beyond what has
    /// been paid. An endpoint without a tripwire has no events.
    fn event_cost(&mut self, end: usize, costs: &HostCosts) -> Duration {
        if std::mem::take(&mut self.paid) || self.unwatched.contains(&end) {
            return Duration::ZERO;
        }
        costs.dispatch
    }

    fn take_unwatched(&mut self) -> Option<Range<usize>> {
        let count = self.unwatched.len();
        if count == 0 {
            return None;
        }
        self.owed = false;
        let endpoint = self.unwatched.start + self.next_unwatched;
        self.next_unwatched = (self.next_unwatched + 1) % count;
        Some(endpoint..endpoint + 1)
    }
}

/// A wait that polls for as long as the program's window says.
fn begin(now: Instant, costs: &HostCosts) -> Wait {
    let now = now.since_origin().as_ps();
    Wait::begin(now, costs.poll_window.as_ps(), None)
}

/// The endpoints of a server, and which of their state is in the cache.
pub struct Endpoints {
    ends: Vec<End>,
    cache: StateCache,
    /// To load the state of one from memory.
    state: Duration,
}

impl Endpoints {
    /// Endpoints of which the cache holds the state of `cached`.
    pub fn new(ends: Vec<End>, cached: usize, state: Duration) -> Self {
        Endpoints {
            cache: StateCache::new(ends.len(), cached),
            ends,
            state,
        }
    }

    /// How often the state of one came from memory.
    pub fn misses(&self) -> u64 {
        self.cache.misses()
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Looking,
    Scanning,
    Receiving(usize),
    Sending(usize),
}

/// Answers requests.
pub struct Server {
    costs: HostCosts,
    message: Vec<u8>,
    pub endpoints: Endpoints,
    ears: Ears,
    phase: Phase,
    /// Endpoints that are still to be looked at.
    agenda: Range<usize>,
    pub answered: u64,
    pub sleeps: u64,
    /// Looks at rings that held nothing, for an event or for want of one.
    pub empty_polls: u64,
    /// Time that went into waiting.
    idle: Duration,
    asleep_since: Option<Instant>,
}

impl Server {
    pub fn new(costs: HostCosts, message_bytes: usize, endpoints: Endpoints, ears: Ears) -> Self {
        Server {
            costs,
            message: vec![0; message_bytes],
            endpoints,
            ears,
            phase: Phase::Looking,
            agenda: 0..0,
            answered: 0,
            sleeps: 0,
            empty_polls: 0,
            idle: Duration::ZERO,
            asleep_since: None,
        }
    }

    pub fn step(&mut self, now: Instant) -> Step {
        if let Some(since) = self.asleep_since.take() {
            self.idle += now - since;
        }
        match self.phase {
            Phase::Looking => self.look(now),
            Phase::Scanning => self.scan(now),
            Phase::Receiving(end) => self.receive(end, now),
            Phase::Sending(end) => {
                let sent = self.endpoints.ends[end].tx.send_frame(&self.message);
                if !sent.expect("an honest peer") {
                    return Step::Run(self.costs.poll);
                }
                self.answered += 1;
                self.note_work(now);
                self.receive_or_look(end, now)
            }
        }
    }

    /// Time that has gone into waiting, up to now.
    pub fn idle(&self, now: Instant) -> Duration {
        let asleep = self
            .asleep_since
            .map_or(Duration::ZERO, |since| now - since);
        self.idle + asleep
    }

    /// A look for which there was no cause.
    fn wait(&mut self) -> Step {
        self.idle += self.costs.poll;
        Step::Run(self.costs.poll)
    }

    fn note_work(&mut self, now: Instant) {
        if let Ears::Events(events) = &mut self.ears {
            events.wait = begin(now, &self.costs);
        }
    }

    fn look(&mut self, now: Instant) -> Step {
        let Ears::Events(events) = &mut self.ears else {
            return self.receive_or_look(0, now);
        };
        if events.sleep % 2 == 1 {
            events.sleep += 1;
            doorbell::announce_awake(&events.words, events.sleep);
            events.wait = begin(now, &self.costs);
        }
        if let Some(agenda) = events.owed.then(|| events.take_unwatched()).flatten() {
            return self.scan_of(agenda);
        }
        let taken = events.words.taken();
        if let Some(source) = events.drain.next_source(&events.words) {
            (events.owed, events.paid) = (true, true);
            // The first line is in the costs of a dispatch.
            let lines = (events.words.taken() - taken).saturating_sub(1);
            self.agenda = events.groups[source as usize].clone();
            self.phase = Phase::Scanning;
            return Step::Run(self.costs.dispatch + self.costs.line * lines);
        }
        if let Some(agenda) = events.take_unwatched() {
            return self.scan_of(agenda);
        }
        self.nothing_found(now)
    }

    /// Goes on as the live network's core says. Tripwires are always set here.
    fn nothing_found(&mut self, now: Instant) -> Step {
        let Ears::Events(events) = &mut self.ears else {
            return self.wait();
        };
        let ticks = now.since_origin().as_ps();
        loop {
            match events.wait.nothing_found(ticks) {
                Act::Arm => {}
                Act::Look | Act::GiveUp => return self.wait(),
                Act::Sleep => {
                    events.sleep += 1;
                    if doorbell::announce_sleep(&events.words, events.sleep) {
                        self.sleeps += 1;
                        self.asleep_since = Some(now);
                        return Step::Sleep;
                    }
                    return self.wait();
                }
            }
        }
    }

    fn scan_of(&mut self, agenda: Range<usize>) -> Step {
        self.agenda = agenda;
        self.phase = Phase::Scanning;
        Step::Run(self.costs.poll)
    }

    /// Looks at the next endpoint of the agenda; what that costs has been paid.
    fn scan(&mut self, now: Instant) -> Step {
        match self.agenda.next() {
            Some(end) => self.receive_or_look(end, now),
            None => {
                self.phase = Phase::Looking;
                self.look(now)
            }
        }
    }

    fn receive_or_look(&mut self, end: usize, now: Instant) -> Step {
        if self.endpoints.ends[end].rx.maybe_ready() {
            self.phase = Phase::Receiving(end);
            let state = match self.endpoints.cache.touch(end) {
                true => self.endpoints.state,
                false => Duration::ZERO,
            };
            let event = match &mut self.ears {
                Ears::Ring => Duration::ZERO,
                Ears::Events(events) => events.event_cost(end, &self.costs),
            };
            return Step::Run(event + self.costs.receive(self.message.len()) + state);
        }
        self.empty_polls += 1;
        if !self.agenda.is_empty() {
            self.phase = Phase::Scanning;
            return Step::Run(self.costs.poll);
        }
        self.phase = Phase::Looking;
        match self.ears {
            Ears::Ring => self.wait(),
            Ears::Events(_) => self.look(now),
        }
    }

    fn receive(&mut self, end: usize, now: Instant) -> Step {
        let rx = &mut self.endpoints.ends[end].rx;
        let next = rx.next_message().expect("an honest peer");
        let Next::InPlace(located) = next else {
            return self.scan(now);
        };
        rx.copy_out(&located, &mut self.message);
        rx.done(&next);
        self.note_work(now);
        self.phase = Phase::Sending(end);
        Step::Run(self.costs.send)
    }
}
