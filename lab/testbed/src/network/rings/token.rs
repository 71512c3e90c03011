//! The ring of Jetstream: a token that goes round, and stations that wait for it.
//!
//! The ring is that of the system `jetstream`, with an event kernel of its own, which begins
//! when the ring is up. What is attached sends frames of the asynchronous class, one
//! message each. Loads are those of the system's experiments.

use std::collections::VecDeque;

use barewire_classic::token::Class;
use barewire_des::Simulator;
use barewire_units::{Duration, Instant, Rng};

use super::common::{Carried, Out, RingTables};
use crate::error::SystemError;
use crate::jetstream::experiments::common::Rings;
use crate::jetstream::load::{Apart, Load, LoadEvent, LoadPlan};
use crate::jetstream::parameters::Parameters;

/// Times at which the ring's own kernel has something to do.
const STEP: u64 = 1 << 40;

/// Loads of a ring.
#[derive(Clone, Debug)]
pub(in crate::network) struct TokenLoad {
    pub name: String,
    pub plan: LoadPlan,
    /// In per cent of the line, for the fork of random numbers.
    pub per_cent: u64,
}

/// What a ring is made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct TokenSpec {
    pub parameters: Parameters,
    pub stations: usize,
    /// Synchronous allotment of each station.
    pub allotment: Duration,
    pub load: Option<TokenLoad>,
}

/// A ring.
pub(in crate::network) struct TokenRing {
    load: Load,
    sim: Simulator<LoadEvent>,
    /// When the ring was up, in its own time: the origin of the network's.
    up: Instant,
    name: Option<String>,
    stations: usize,
    /// What is under way, by its message.
    carried: Vec<(usize, Flight)>,
    scheduled: Option<Instant>,
    frames: u64,
    pub(super) outs: VecDeque<Out>,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    carried: Carried,
    from: usize,
    to: usize,
    /// The station has been told that it may offer another.
    left: bool,
}

impl TokenSpec {
    pub(in crate::network) fn rings(&self) -> Rings<'_> {
        Rings {
            allotment: self.allotment,
            master_allotment: self.allotment,
            ..Rings::one(&self.parameters, self.stations)
        }
    }
}

impl TokenRing {
    pub(in crate::network) fn new(spec: &TokenSpec, root: &Rng) -> Result<Self, SystemError> {
        let network = spec.rings().build(root)?;
        let per_cent = spec.load.as_ref().map_or(0, |load| load.per_cent);
        let idle = LoadPlan::two_groups(spec.stations, Vec::new(), Duration::from_ps(1));
        let plan = spec.load.as_ref().map_or(idle, |load| load.plan.clone());
        let (load, sim, up) = Load::start(network, plan, &root.fork_nth("load", per_cent))?;
        let mut ring = Self {
            load,
            sim,
            up,
            name: spec.load.as_ref().map(|load| load.name.clone()),
            stations: spec.stations,
            carried: Vec::new(),
            scheduled: None,
            frames: 0,
            outs: VecDeque::new(),
        };
        ring.plan_ahead();
        Ok(ring)
    }

    /// The network's time as the ring's.
    fn own(&self, now: Instant) -> Instant {
        self.up.saturating_add(now.since_origin())
    }

    fn theirs(&self, own: Instant) -> Instant {
        Instant::ORIGIN.saturating_add(own.saturating_duration_since(self.up))
    }

    /// Lets the ring come to where the network is.
    fn catch_up(&mut self, now: Instant) {
        let own = self.own(now);
        loop {
            self.sim.run_until(own, &mut self.load);
            // It stops itself where a load is over, and may have more to do.
            if self.sim.now() >= own {
                return;
            }
        }
    }

    pub(super) fn offer(&mut self, station: usize, to: usize, carried: Carried, now: Instant) {
        self.catch_up(now);
        let bytes = carried.frame.body_bytes as usize;
        let class = Class::Asynchronous;
        let message = self
            .load
            .send_apart((station, to), class, bytes, &mut self.sim);
        let flight = Flight {
            carried,
            from: station,
            to,
            left: false,
        };
        self.carried.push((message, flight));
        self.settle();
    }

    pub(super) fn happen(&mut self, code: u64, now: Instant) {
        if code & STEP != 0 {
            if self.scheduled == Some(now) {
                self.scheduled = None;
            }
            self.catch_up(now);
            self.settle();
            return;
        }
        // The last bit of a message has left.
        let message = code as usize;
        let found = self.carried.iter_mut().find(|(one, _)| *one == message);
        if let Some((_, flight)) = found {
            leave(flight, &mut self.outs);
        }
    }

    /// Tells what has become of messages from outside, and when to go on.
    fn settle(&mut self) {
        while let Some(apart) = self.load.poll_apart() {
            match apart {
                Apart::Sent { message, ends } => {
                    let at = self.theirs(ends);
                    let code = message as u64;
                    let order = self.order_of(message);
                    self.outs.push_back(Out::At { at, code, order });
                }
                Apart::Received(message) => {
                    if let Some(mut flight) = self.take(message) {
                        // Before it has left: the ring is that short.
                        leave(&mut flight, &mut self.outs);
                        self.frames += 1;
                        self.outs.push_back(Out::Came {
                            station: flight.to,
                            frame: flight.carried.frame,
                            step: flight.carried.step,
                        });
                    }
                }
            }
        }
        let lost: Vec<usize> = self
            .carried
            .iter()
            .map(|(message, _)| *message)
            .filter(|&message| self.load.is_lost(message))
            .collect();
        for message in lost {
            if let Some(mut flight) = self.take(message) {
                leave(&mut flight, &mut self.outs);
                let frame = flight.carried.frame;
                self.outs.push_back(Out::Lost { frame });
            }
        }
        self.plan_ahead();
    }

    fn order_of(&self, message: usize) -> u16 {
        let found = self.carried.iter().find(|(one, _)| *one == message);
        found.map_or(0, |(_, flight)| flight.from as u16)
    }

    fn take(&mut self, message: usize) -> Option<Flight> {
        let at = self.carried.iter().position(|(one, _)| *one == message)?;
        Some(self.carried.swap_remove(at).1)
    }

    /// Asks to be told when the ring's kernel has something to do.
    fn plan_ahead(&mut self) {
        let Some(next) = self.sim.next_time() else {
            return;
        };
        let at = self.theirs(next);
        if self.scheduled.is_none_or(|before| at < before) {
            self.scheduled = Some(at);
            let (code, order) = (STEP, 0);
            self.outs.push_back(Out::At { at, code, order });
        }
    }

    pub(super) fn is_done(&self, now: Instant) -> bool {
        self.name.is_none() || self.load.is_over(self.own(now))
    }

    pub(super) fn tell(&mut self, name: &str, end: Instant, tables: &mut RingTables) {
        self.catch_up(end);
        let lan = self.load.network().medium.lan();
        let (tokens_lost, slips) = lan.map_or((0, 0), |lan| (lan.tokens_lost, lan.slips()));
        let rotations = self.load.rotations();
        tables.token.row([
            ("ring", "", name.into()),
            ("stations", "", self.stations.into()),
            ("frames carried", "", self.frames.into()),
            ("rotation mean", "us", rotations.mean_us().into()),
            ("rotation longest", "us", rotations.longest_us().into()),
            ("tokens lost", "", tokens_lost.into()),
            ("slips between clocks", "", slips.into()),
        ]);
        let Some(program) = &self.name else { return };
        let (mbps, group) = self.load.first_group();
        tables.messages.row([
            ("program", "", program.as_str().into()),
            ("ring", "", name.into()),
            ("received", "Mbit/s", mbps.into()),
            ("access mean", "us", group.access.mean_us().into()),
            ("access p99", "us", group.access.p99_us().into()),
            ("delay mean", "us", group.delay.mean_us().into()),
            ("delay p99", "us", group.delay.p99_us().into()),
            ("offered", "", group.offered.into()),
        ]);
    }
}

fn leave(flight: &mut Flight, outs: &mut VecDeque<Out>) {
    if !flight.left {
        flight.left = true;
        let (station, step) = (flight.from, flight.carried.step);
        outs.push_back(Out::Left { station, step });
    }
}
