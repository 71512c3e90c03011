//! The ring as a world of events: cards, fibre between them, and what their hosts send.
//!
//! | event | node | what happens |
//! |---|---|---|
//! | `Heard` | card | a fill or the first bit of a frame comes out of the fibre |
//! | `Timer` | card | the card's deadline has come |
//! | `Repeat` | line | until the ring is up: every line repeats its fill |
//! | `Offer` | host | a host has a frame |
//! | `Lose` | line | the next token is lost |

use barewire_classic::token::{Class, State, Stats};
use barewire_des::{Class as Order, Event, EventId, Node, Simulator, World};
use barewire_formats::atm::Vc;
use barewire_formats::jetstream::{AddrType, FrameRepr, OVERHEAD_BYTES};
use barewire_models::jetstream::{Card, CardConfig, Output, Signal};
use barewire_units::{Duration, Instant};

use crate::error::SystemError;

/// How often a line repeats its fill; any time below that of a rotation will do.
const FILL_PERIOD: Duration = Duration::from_us(5);
/// Longest time for a ring to come up.
const START_LIMIT: Duration = Duration::from_ms(10);

/// A frame that a host will offer.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// After the ring is up.
    pub after: Duration,
    pub station: usize,
    pub class: Class,
    pub bytes: usize,
    /// There is always another: at once when this one begins (`Some(0)`), or so long after its
    /// end.
    pub again: Option<Duration>,
}

/// What happens on a ring.
pub struct Plan {
    pub cards: Vec<CardConfig>,
    /// Fibre between neighbours.
    pub hop: Duration,
    pub offers: Vec<Offer>,
    /// When tokens are lost, after the ring is up.
    pub losses: Vec<Duration>,
    /// After the ring is up.
    pub run_for: Duration,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    pub station: usize,
    pub class: Class,
    pub bytes: usize,
    pub offered: Instant,
    /// First and last bit sent.
    pub sent: Option<(Instant, Instant)>,
    /// Last bit at the receiver.
    pub received: Option<Instant>,
}

/// A token that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub lost: Instant,
    /// When the master noticed.
    pub noticed: Option<Instant>,
    /// When it issued another.
    pub replaced: Option<Instant>,
}

/// What was seen on a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the token was taken, by station.
    pub tokens: Vec<Vec<Instant>>,
    pub fates: Vec<Fate>,
    pub losses: Vec<Loss>,
    pub stats: Vec<Stats>,
    pub up: Instant,
    pub hash: u64,
}

impl Record {
    /// The longest time of the token once round, seen from any station.
    pub fn longest_rotation(&self) -> Duration {
        let pairs = self.tokens.iter().flat_map(|tokens| tokens.windows(2));
        pairs
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default()
    }

    /// The longest time from the offer of a frame to its first bit.
    pub fn longest_access(&self, class: Class) -> Duration {
        let own = self.fates.iter().filter(|fate| fate.class == class);
        let waits = own.filter_map(|fate| Some(fate.sent?.0 - fate.offered));
        waits.max().unwrap_or_default()
    }

    /// The longest time from the end of a station's frame to the beginning of its next, where
    /// there is always a next.
    pub fn longest_gap(&self) -> Duration {
        let gap = |station| {
            let own = self.fates.iter().filter(|fate| fate.station == station);
            let sent: Vec<_> = own.filter_map(|fate| fate.sent).collect();
            let gaps = sent.windows(2).map(|pair| pair[1].0 - pair[0].1);
            gaps.max().unwrap_or_default()
        };
        (0..self.tokens.len()).map(gap).max().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
enum RingEvent {
    Heard(usize, Signal),
    Timer(usize),
    Repeat,
    Offer(Offer),
    Lose,
}

impl Event for RingEvent {
    fn digest(&self) -> u64 {
        match self {
            Self::Heard(card, Signal::Fill(fill)) => (*fill as u64) << 8 | *card as u64,
            Self::Heard(card, Signal::Frame(transit)) => {
                let token = u64::from(Signal::Frame(*transit).is_token());
                transit.id << 16 | token << 12 | 1 << 11 | *card as u64
            }
            Self::Timer(card) => 2 << 32 | *card as u64,
            Self::Repeat => 3 << 32,
            Self::Offer(offer) => 4 << 32 | (offer.bytes as u64) << 8 | offer.station as u64,
            Self::Lose => 5 << 32,
        }
    }
}

struct Ring {
    cards: Vec<Card>,
    timers: Vec<Option<(Instant, EventId)>>,
    hop: Duration,
    again: Vec<Option<Duration>>,
    tokens_to_lose: usize,
    record: Record,
}

/// Starts the ring of a plan and runs it.
pub fn run(plan: &Plan) -> Result<Record, SystemError> {
    let refused = |error| SystemError::Contradiction(format!("ring: {error}"));
    let made = plan
        .cards
        .iter()
        .map(|card| Card::new(*card, Instant::ORIGIN));
    let cards: Vec<Card> = made.collect::<Result<_, _>>().map_err(refused)?;
    let count = cards.len();
    let mut ring = Ring {
        cards,
        timers: vec![None; count],
        hop: plan.hop,
        again: Vec::new(),
        tokens_to_lose: 0,
        record: Record {
            tokens: vec![Vec::new(); count],
            fates: Vec::new(),
            losses: Vec::new(),
            stats: Vec::new(),
            up: Instant::ORIGIN,
            hash: 0,
        },
    };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Order::NORMAL, Node(0), RingEvent::Repeat);
    sim.run_until(Instant::ORIGIN + START_LIMIT, &mut ring);
    if !ring.is_up() {
        let why = format!("ring: not up after {START_LIMIT}");
        return Err(SystemError::Contradiction(why));
    }
    let up = sim.now();
    ring.record.up = up;
    for offer in &plan.offers {
        let node = Node(offer.station as u16);
        sim.at(
            up + offer.after,
            Order::NORMAL,
            node,
            RingEvent::Offer(*offer),
        );
    }
    for after in &plan.losses {
        sim.at(up + *after, Order::FIRST, Node(0), RingEvent::Lose);
    }
    sim.run_until(up + plan.run_for, &mut ring);
    ring.record.hash = sim.trace_hash();
    ring.record.stats = ring.cards.iter().map(Card::stats).collect();
    Ok(ring.record)
}

impl World for Ring {
    type Event = RingEvent;

    fn handle(&mut self, event: RingEvent, sim: &mut Simulator<RingEvent>) {
        match event {
            RingEvent::Heard(card, signal) => {
                self.cards[card].handle(sim.now(), signal);
                self.drain(card, sim);
            }
            RingEvent::Timer(card) => {
                self.timers[card] = None;
                self.cards[card].handle_timer(sim.now());
                self.drain(card, sim);
            }
            RingEvent::Repeat => self.repeat(sim),
            RingEvent::Offer(offer) => self.offer(offer, sim),
            RingEvent::Lose => self.tokens_to_lose += 1,
        }
    }
}

impl Ring {
    fn is_up(&self) -> bool {
        self.cards.iter().all(Card::is_up)
    }

    /// The lines repeat their fills; once all cards are in service, the start is over.
    fn repeat(&mut self, sim: &mut Simulator<RingEvent>) {
        if self.is_up() {
            return sim.stop();
        }
        for card in 0..self.cards.len() {
            self.cards[card].repeat_fill();
            self.drain(card, sim);
        }
        sim.after(FILL_PERIOD, Order::NORMAL, Node(0), RingEvent::Repeat);
    }

    fn offer(&mut self, offer: Offer, sim: &mut Simulator<RingEvent>) {
        let id = self.record.fates.len();
        // To the next station, which is as good as any.
        let next = (offer.station + 1) % self.cards.len();
        let vc = Vc { vpi: 0, vci: 0 };
        let mut repr = FrameRepr::on_vc(0, vc, offer.bytes.saturating_sub(OVERHEAD_BYTES));
        repr.header.addr_type = AddrType::Rid;
        repr.header.dst_rid = self.cards[next].rid().unwrap_or_default();
        let now = sim.now();
        let taken = self.cards[offer.station].offer(now, id as u64, offer.class, repr);
        if taken.is_ok() {
            self.again.push(offer.again);
            self.record.fates.push(Fate {
                station: offer.station,
                class: offer.class,
                bytes: offer.bytes,
                offered: now,
                sent: None,
                received: None,
            });
        }
        self.drain(offer.station, sim);
    }

    /// Does what a card wants, and keeps its timer up to date.
    fn drain(&mut self, card: usize, sim: &mut Simulator<RingEvent>) {
        while let Some(output) = self.cards[card].poll() {
            match output {
                Output::Line(signal) => self.send(card, signal, sim),
                Output::Begins { id, ends } => self.begins(id as usize, ends, sim),
                Output::Received { id, whole, .. } => {
                    if let Some(fate) = self.record.fates.get_mut(id as usize) {
                        fate.received = Some(whole);
                    }
                }
                Output::Token => self.record.tokens[card].push(sim.now()),
            }
        }
        if card == 0 {
            self.watch_master(sim.now());
        }
        let deadline = self.cards[card].next_deadline();
        if deadline == self.timers[card].map(|(at, _)| at) {
            return;
        }
        if let Some((_, timer)) = self.timers[card].take() {
            sim.cancel(timer);
        }
        self.timers[card] = deadline.map(|at| {
            let node = Node(card as u16);
            (
                at,
                sim.timer(at, Order::NORMAL, node, RingEvent::Timer(card)),
            )
        });
    }

    fn begins(&mut self, id: usize, ends: Instant, sim: &mut Simulator<RingEvent>) {
        let now = sim.now();
        let Some(fate) = self.record.fates.get_mut(id) else {
            return;
        };
        fate.sent = Some((now, ends));
        let Some(pause) = self.again[id] else {
            return;
        };
        let offer = Offer {
            after: Duration::ZERO,
            station: fate.station,
            class: fate.class,
            bytes: fate.bytes,
            again: Some(pause),
        };
        let at = if pause.is_zero() { now } else { ends + pause };
        let node = Node(offer.station as u16);
        sim.at(at, Order::NORMAL, node, RingEvent::Offer(offer));
    }

    fn send(&mut self, card: usize, signal: Signal, sim: &mut Simulator<RingEvent>) {
        if signal.is_token() && self.tokens_to_lose > 0 {
            self.tokens_to_lose -= 1;
            self.record.losses.push(Loss {
                lost: sim.now(),
                noticed: None,
                replaced: None,
            });
            return;
        }
        let next = (card + 1) % self.cards.len();
        let heard = RingEvent::Heard(next, signal);
        sim.after(self.hop, Order::NORMAL, Node(next as u16), heard);
    }

    /// When the master notices that a token was lost, and when it has replaced it.
    fn watch_master(&mut self, now: Instant) {
        let recovering = self.cards[0].state() == State::Recovering;
        let Some(loss) = self.record.losses.last_mut() else {
            return;
        };
        if recovering {
            loss.noticed.get_or_insert(now);
        } else if loss.noticed.is_some() {
            loss.replaced.get_or_insert(now);
        }
    }
}
