//! Messages to a VIA connection that has too few receive descriptors.
//!
//! A sender sends bursts; the receiving program takes a message, works, and posts the
//! buffer again. With the library's flow control the sender holds a message until it knows
//! of a descriptor for it.

use std::collections::VecDeque;

use barewire_des::dist::exponential_time;
use barewire_des::stats::Histogram;
use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_models::clan::{Credits, Fate, Reliability, ViaReceiver};
use barewire_units::{Duration, Instant, Rng};

/// What happens to a message without a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Card(Reliability),
    Library,
}

impl Level {
    pub const ALL: [(&'static str, Self); 4] = [
        ("unreliable", Self::Card(Reliability::Unreliable)),
        ("reliable delivery", Self::Card(Reliability::Delivery)),
        ("reliable reception", Self::Card(Reliability::Reception)),
        ("library's flow control", Self::Library),
    ];
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub level: Level,
    pub descriptors: u32,
    pub messages: u64,
    /// Messages of a burst, and the mean time between bursts.
    pub burst: u64,
    pub between: Duration,
    /// Between two messages of a burst.
    pub spacing: Duration,
    /// What the receiving program does with a message.
    pub program: Duration,
    pub one_way: Duration,
}

#[derive(Clone, Copy, Debug)]
pub enum ViaEvent {
    Burst,
    /// A message is made; so many follow in the burst.
    Make(u64),
    Arrived(u64),
    Done,
    /// The sender hears how many descriptors were posted.
    Credit(u32),
}

impl Event for ViaEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Burst => 1,
            Self::Make(more) => more << 8 | 2,
            Self::Arrived(message) => message << 8 | 3,
            Self::Done => 4,
            Self::Credit(number) => u64::from(number) << 8 | 5,
        }
    }
}

/// What became of the messages.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    pub made: u64,
    pub received: u64,
    pub dropped: u64,
    /// The one that broke the connection, and those that came after it.
    pub lost: u64,
    /// From being made to being taken, in picoseconds, of those received.
    pub delays: Histogram,
    /// When the connection broke.
    pub broke: Option<Duration>,
    pub hash: u64,
}

struct Pair {
    traffic: Traffic,
    receiver: ViaReceiver,
    /// With the library alone.
    credits: Option<Credits>,
    held: VecDeque<u64>,
    made: Vec<Instant>,
    /// Messages in buffers that the program has not taken.
    filled: VecDeque<u64>,
    working: bool,
    fates: Fates,
    rng: Rng,
}

/// Sends all messages, and waits until something has become of each.
pub fn run(traffic: &Traffic, rng: Rng) -> Fates {
    let receiver = match traffic.level {
        Level::Card(level) => ViaReceiver::new(level, traffic.descriptors),
        Level::Library => {
            ViaReceiver::with_flow_control(Reliability::Reception, traffic.descriptors)
        }
    };
    let mut pair = Pair {
        traffic: *traffic,
        receiver,
        credits: (traffic.level == Level::Library).then(|| Credits::new(traffic.descriptors)),
        held: VecDeque::new(),
        made: Vec::new(),
        filled: VecDeque::new(),
        working: false,
        fates: Fates::default(),
        rng,
    };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, Node(0), ViaEvent::Burst);
    sim.run(&mut pair);
    pair.fates.made = pair.made.len() as u64;
    pair.fates.hash = sim.trace_hash();
    pair.fates
}

impl Pair {
    fn make(&mut self, more: u64, sim: &mut Simulator<ViaEvent>) {
        let message = self.made.len() as u64;
        if message >= self.traffic.messages {
            return;
        }
        self.made.push(sim.now());
        self.held.push_back(message);
        self.send(sim);
        if more > 0 {
            let next = ViaEvent::Make(more - 1);
            sim.after(self.traffic.spacing, Class::NORMAL, Node(0), next);
        }
    }

    fn send(&mut self, sim: &mut Simulator<ViaEvent>) {
        while let Some(message) = self.held.front().copied() {
            if self.credits.as_mut().is_some_and(|credits| !credits.take()) {
                return;
            }
            self.held.pop_front();
            let event = ViaEvent::Arrived(message);
            sim.after(self.traffic.one_way, Class::NORMAL, Node(1), event);
        }
    }

    fn arrived(&mut self, message: u64, sim: &mut Simulator<ViaEvent>) {
        match self.receiver.handle_message() {
            Fate::Received => {
                self.filled.push_back(message);
                self.work(sim);
            }
            Fate::Dropped => self.fates.dropped += 1,
            Fate::Broke => {
                self.fates.broke = Some(sim.now().since_origin());
                self.fates.lost += 1;
            }
            Fate::Lost => self.fates.lost += 1,
        }
    }

    fn work(&mut self, sim: &mut Simulator<ViaEvent>) {
        if self.working {
            return;
        }
        if let Some(message) = self.filled.pop_front() {
            self.working = true;
            self.fates.received += 1;
            let delay = sim.now() - self.made[message as usize];
            self.fates.delays.add(delay.as_ps());
            let time = self.traffic.program;
            sim.after(time, Class::NORMAL, Node(1), ViaEvent::Done);
        }
    }

    fn done(&mut self, sim: &mut Simulator<ViaEvent>) {
        self.working = false;
        self.receiver.post();
        if let Some(number) = self.receiver.tell() {
            let time = self.traffic.one_way;
            sim.after(time, Class::NORMAL, Node(0), ViaEvent::Credit(number));
        }
        self.work(sim);
    }
}

impl World for Pair {
    type Event = ViaEvent;

    fn handle(&mut self, event: ViaEvent, sim: &mut Simulator<ViaEvent>) {
        match event {
            ViaEvent::Burst => {
                self.make(self.traffic.burst - 1, sim);
                if (self.made.len() as u64) < self.traffic.messages {
                    let gap = exponential_time(&mut self.rng, self.traffic.between);
                    sim.after(gap, Class::NORMAL, Node(0), ViaEvent::Burst);
                }
            }
            ViaEvent::Make(more) => self.make(more, sim),
            ViaEvent::Arrived(message) => self.arrived(message, sim),
            ViaEvent::Done => self.done(sim),
            ViaEvent::Credit(number) => {
                if let Some(credits) = &mut self.credits {
                    let heard = credits.hear(number);
                    debug_assert_eq!(heard, Ok(()), "the receiver counts right");
                }
                self.send(sim);
            }
        }
    }
}
