//! A ring for tests: stations, the delays between them, and time that moves from event to
//! event. Everything is known by its header: a frame arrives when its first bits do.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use barewire_formats::jetstream::link::Fill;
use barewire_formats::jetstream::{AddrType, FrameRepr, Kind, OVERHEAD_BYTES};
use barewire_units::{Duration, Instant, Rng};

use super::{Action, Budget, Class, Config, Offer, Role, State, Station};

/// How often a fill is repeated.
const FILL_PERIOD: Duration = Duration::from_us(5);

/// What reaches a station.
#[derive(Clone, Copy, Debug)]
enum Input {
    PowerUp,
    Fill(Fill),
    Frame(Transit),
    LinkLost,
    Timer,
    /// Time to repeat the fill.
    Repeat,
    /// A source has a frame.
    Arrival {
        source: usize,
    },
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Transit {
    repr: FrameRepr,
    id: u64,
    hops: usize,
}

/// A flow of frames into a station's queue.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub station: usize,
    pub class: Class,
    pub frame_bytes: (usize, usize),
    /// Time between frames, up to twice that; `None`: there is always one more.
    pub gap: Option<Duration>,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub repr: FrameRepr,
    pub class: Class,
    pub offered: Instant,
    pub sent: Option<Instant>,
    pub copies: usize,
    /// Links that it travelled.
    pub hops: usize,
    pub removed: bool,
}

/// A visit of the token that sent something or nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub at: Instant,
    /// Time sent from the allotment, and from THT.
    pub synchronous: Duration,
    pub asynchronous: Duration,
}

pub(super) struct Ring {
    pub now: Instant,
    pub stations: Vec<Station>,
    /// From station to the next: fibre, and the latency of the next.
    pub hop: Vec<Duration>,
    pub visits: Vec<Vec<Visit>>,
    pub fates: Vec<Fate>,
    pub rng: Rng,
    /// Fills and frames are lost with this many in a hundred.
    pub loss_percent: u64,
    /// Tokens to be lost, as they come.
    pub tokens_to_lose: usize,
    /// When the last of them was lost.
    pub token_lost_at: Option<Instant>,
    /// SRC_RID that the next data frame gets on its first link.
    pub corrupt_src: Option<u8>,
    /// Stations in the order of the ring.
    order: Vec<usize>,
    budget: Budget,
    sources: Vec<Source>,
    fills: Vec<Fill>,
    timers: Vec<Option<Instant>>,
    events: BTreeMap<(Instant, u64), (usize, Input)>,
    sequence: u64,
}

impl Ring {
    /// Stations with these configurations, the first the master. Each is switched on at its
    /// time in `power_up`.
    pub fn new(configs: &[Config], power_up: &[Duration], seed: u64) -> Self {
        let budget = configs[0].budget;
        let count = configs.len();
        let make = |config: &Config| Station::new(*config, Instant::ORIGIN).expect("config");
        let mut ring = Self {
            now: Instant::ORIGIN,
            stations: configs.iter().map(make).collect(),
            hop: vec![budget.ring_latency / count as u64; count],
            visits: vec![Vec::new(); count],
            fates: Vec::new(),
            rng: Rng::from_seed(seed),
            loss_percent: 0,
            tokens_to_lose: 0,
            token_lost_at: None,
            corrupt_src: None,
            order: (0..count).collect(),
            budget,
            sources: Vec::new(),
            fills: vec![Fill::Fw0; count],
            timers: vec![None; count],
            events: BTreeMap::new(),
            sequence: 0,
        };
        for (station, delay) in power_up.iter().enumerate() {
            ring.at(*delay, station, Input::PowerUp);
        }
        ring
    }

    /// `count` stations like the paper's, all switched on at once; the first is the master.
    pub fn plain(count: usize, budget: Budget) -> Self {
        let configs = configs(count, budget);
        Self::new(&configs, &vec![Duration::ZERO; count], 1)
    }

    /// Adds a flow; it begins at once.
    pub fn add_source(&mut self, source: Source) {
        let station = source.station;
        self.sources.push(source);
        let source = self.sources.len() - 1;
        self.at(Duration::ZERO, station, Input::Arrival { source });
    }

    /// Offers one frame.
    pub fn offer(&mut self, station: usize, class: Class, repr: FrameRepr) -> usize {
        let id = self.fates.len();
        self.fates.push(Fate {
            repr,
            class,
            offered: self.now,
            sent: None,
            copies: 0,
            hops: 0,
            removed: false,
        });
        let offer = Offer {
            id: id as u64,
            class,
            frame_bytes: repr.buffer_len(),
        };
        let offered = self.stations[station].offer(self.now, offer);
        offered.expect("room in the queue");
        self.drain(station);
        id
    }

    /// Takes `station` off the ring: the two beside it are joined.
    pub fn leave(&mut self, station: usize) {
        let place = self.place(station);
        self.order.remove(place);
        self.events.retain(|_, (to, _)| *to != station);
        let next = self.order[place % self.order.len()];
        self.at(Duration::ZERO, next, Input::LinkLost);
    }

    /// Puts `station`, newly switched on, between `before` and the next.
    pub fn join(&mut self, station: usize, before: usize, config: Config) {
        self.stations[station] = Station::new(config, self.now).expect("config");
        let place = self.place(before) + 1;
        self.order.insert(place, station);
        let next = self.next(station);
        self.at(Duration::ZERO, station, Input::PowerUp);
        self.at(Duration::ZERO, next, Input::LinkLost);
    }

    /// Whether all stations on the ring are in service.
    pub fn is_up(&self) -> bool {
        self.order.iter().all(|&station| {
            !matches!(
                self.stations[station].state(),
                State::Fw0 | State::Fw1 | State::Numbering
            )
        })
    }

    /// Runs until the ring is up; says when.
    #[track_caller]
    pub fn run_up(&mut self, at_most: Duration) -> Instant {
        let end = self.now + at_most;
        while !self.is_up() {
            assert!(self.step(end), "the ring is not up at {end}");
        }
        self.now
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.step(end) {}
        self.now = end;
    }

    /// One event; false where there is none before `end`.
    fn step(&mut self, end: Instant) -> bool {
        let Some(entry) = self.events.first_entry() else {
            return false;
        };
        if entry.key().0 > end {
            return false;
        }
        let ((now, _), (station, input)) = entry.remove_entry();
        self.now = now;
        self.deliver(station, input);
        self.drain(station);
        true
    }

    fn deliver(&mut self, station: usize, input: Input) {
        let now = self.now;
        match input {
            Input::PowerUp => self.at(FILL_PERIOD, station, Input::Repeat),
            Input::Fill(fill) => self.stations[station].handle_fill(now, fill),
            Input::LinkLost => self.stations[station].handle_link_lost(now),
            Input::Frame(transit) => self.frame(station, transit),
            Input::Repeat => {
                // A line does it all the time; here only while somebody is to hear it.
                let sending = self.stations[station].state() == State::Holding;
                if !sending && !self.is_up() {
                    self.send(station, Input::Fill(self.fills[station]));
                }
                self.at(FILL_PERIOD, station, Input::Repeat);
            }
            Input::Timer => {
                // Others were set before and do not count any more.
                if self.timers[station] == Some(now) {
                    self.timers[station] = None;
                    self.stations[station].handle_timer(now);
                }
            }
            Input::Arrival { source } => self.arrival(source),
        }
    }

    fn arrival(&mut self, source: usize) {
        let Source {
            station,
            class,
            frame_bytes: (min, max),
            gap,
        } = self.sources[source];
        let frame_bytes = self.rng.in_range(min as u64..=max as u64) as usize;
        let mut repr = to_rid(1);
        if let Kind::Data { pdu_bytes, .. } = &mut repr.kind {
            *pdu_bytes = frame_bytes - OVERHEAD_BYTES;
        }
        self.offer(station, class, repr);
        if let Some(gap) = gap {
            let gap = Duration::from_ps(self.rng.below(2 * gap.as_ps()) + 1);
            self.at(gap, station, Input::Arrival { source });
        }
    }

    fn frame(&mut self, station: usize, transit: Transit) {
        let tokens = self.stations[station].stats().tokens;
        let verdict = self.stations[station].handle_frame(self.now, transit.repr);
        if self.stations[station].stats().tokens > tokens {
            self.visits[station].push(Visit {
                at: self.now,
                synchronous: Duration::ZERO,
                asynchronous: Duration::ZERO,
            });
        }
        let data = matches!(transit.repr.kind, Kind::Data { .. });
        if data {
            let fate = &mut self.fates[transit.id as usize];
            fate.copies += usize::from(verdict.copy);
            fate.hops = transit.hops;
            fate.removed = verdict.forward.is_none();
        }
        if let Some(repr) = verdict.forward {
            self.send(station, Input::Frame(Transit { repr, ..transit }));
        }
    }

    /// Does what the station wants, and keeps sources and timer up to date.
    fn drain(&mut self, station: usize) {
        while let Some(action) = self.stations[station].poll_action() {
            match action {
                Action::Fill(fill) => {
                    self.fills[station] = fill;
                    self.send(station, Input::Fill(fill));
                }
                Action::Frame(repr) => {
                    let (id, hops) = (u64::MAX, 0);
                    self.send(station, Input::Frame(Transit { repr, id, hops }));
                }
                Action::Send {
                    id,
                    src_rid,
                    paid,
                    ends,
                } => self.send_data(station, id, src_rid, paid, ends - self.now),
            }
        }
        let deadline = self.stations[station].next_deadline();
        if deadline != self.timers[station] {
            self.timers[station] = deadline;
            if let Some(deadline) = deadline {
                self.at(
                    deadline.saturating_duration_since(self.now),
                    station,
                    Input::Timer,
                );
            }
        }
    }

    fn send_data(&mut self, station: usize, id: u64, src_rid: u8, paid: Class, time: Duration) {
        if let Some(visit) = self.visits[station].last_mut() {
            match paid {
                Class::Synchronous => visit.synchronous += time,
                Class::Asynchronous => visit.asynchronous += time,
            }
        }
        let fate = &mut self.fates[id as usize];
        fate.sent = Some(self.now);
        let mut repr = fate.repr;
        let class = fate.class;
        repr.header.src_rid = self.corrupt_src.take().unwrap_or(src_rid);
        self.send(station, Input::Frame(Transit { repr, id, hops: 0 }));
        let endless = |s: &Source| s.station == station && s.class == class && s.gap.is_none();
        if let Some(source) = self.sources.iter().position(endless) {
            self.at(Duration::ZERO, station, Input::Arrival { source });
        }
    }

    /// Puts something on the link behind `station`.
    fn send(&mut self, station: usize, mut input: Input) {
        if !self.order.contains(&station) || self.rng.ratio(self.loss_percent, 100) {
            return;
        }
        if let Input::Frame(transit) = &mut input {
            transit.hops += 1;
            if transit.repr.kind == Kind::Token && self.tokens_to_lose > 0 {
                self.tokens_to_lose -= 1;
                self.token_lost_at = Some(self.now);
                return;
            }
        }
        let next = self.next(station);
        self.at(self.hop[station], next, input);
    }

    fn at(&mut self, delay: Duration, station: usize, input: Input) {
        self.sequence += 1;
        let key = (self.now + delay, self.sequence);
        self.events.insert(key, (station, input));
    }

    fn place(&self, station: usize) -> usize {
        let found = self.order.iter().position(|&other| other == station);
        found.expect("a station on the ring")
    }

    fn next(&self, station: usize) -> usize {
        self.order[(self.place(station) + 1) % self.order.len()]
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The theorem: k rotations take at most (k + 1) · TTRT, for every k and from
    /// every visit, and no TRT is over twice.
    #[track_caller]
    pub fn assert_theorem(&self) {
        let ttrt = i128::from(self.budget.ttrt.as_ps());
        for visits in &self.visits {
            // t_j - t_i <= (j - i + 1) T for all i < j, with the smallest t_i - i T so far.
            let mut least = i128::MAX;
            for (j, visit) in visits.iter().enumerate() {
                let lead = i128::from(visit.at.since_origin().as_ps()) - j as i128 * ttrt;
                least = least.min(lead);
                assert!(lead - least <= ttrt, "rotations up to {}", visit.at);
            }
        }
        for station in &self.stations {
            assert_eq!(station.stats().tokens_late_twice, 0);
        }
    }
}

/// A master and hosts without synchronous traffic.
pub(super) fn configs(count: usize, budget: Budget) -> Vec<Config> {
    let role = |i| if i == 0 { Role::Master } else { Role::Host };
    let config = |i| Config {
        budget,
        ..Config::jetstream(role(i))
    };
    (0..count).map(config).collect()
}

/// A frame of 1 KB to a node.
pub(super) fn to_rid(dst_rid: u8) -> FrameRepr {
    let vc = barewire_formats::atm::Vc { vpi: 0, vci: 0 };
    let mut repr = FrameRepr::on_vc(0, vc, 1024);
    repr.header.addr_type = AddrType::Rid;
    repr.header.dst_rid = dst_rid;
    repr
}
