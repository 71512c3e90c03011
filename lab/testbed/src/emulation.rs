//! A network that carries packets from outside: it takes a packet at a station at a model time, runs
//! the event kernel to a model time, and gives packets out with the times at which they left it.
//!
//! Models, event kernel and order of events are those of the experiments. Nothing here knows a
//! clock: whoever drives it says what time it is, and may say so as late as he likes. The same
//! packets at the same times leave at the same times.
//!
//! ```text
//! packet --> queue of the station --> host --> interface --> network --> interface --> host --> packet
//! ```
//! Each packet that was taken is in the end given out, or lost at a known place, or still inside
//! ([`Account`]). A packet is known again by its bytes. Most networks keep the packets of two
//! stations in order, so one that a later one has overtaken is lost. The others say what they lose.

mod carrying;
mod packet;

use std::collections::VecDeque;

use barewire_units::Instant;
use barewire_wire::capture::LinkType;

use crate::error::SystemError;
use crate::experiment::LinkCapture;
pub(crate) use carrying::{Carries, Emulation};
pub(crate) use packet::{Losses, SNAP, is_acknowledgement};

/// Most stations of an emulated network.
pub const STATIONS_MAX: u16 = 64;
/// Packets that wait at a station for its host, as in 4.3BSD (`IFQ_MAXLEN`).
pub const QUEUE_PACKETS: usize = 50;
/// Bytes of the shortest packet that a system must carry (RFC 791).
const SHORTEST_MTU_BYTES: usize = 68;

/// What a packet is, to the network.
const RAW_IP: LinkType = LinkType(101);

/// How fast the hosts are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostEra {
    /// As the plan's parameters say: as slow as they were.
    #[default]
    Plan,
    /// They take no time; interfaces and network do.
    None,
}

/// What an emulation is made of, beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Stations on the network, at least; those from 0 on carry packets.
    pub stations: u16,
    /// How fast the hosts are.
    pub host_era: HostEra,
    /// Bytes of the longest packet; `None` for what the system suggests.
    pub mtu_bytes: Option<usize>,
    /// Cells or frames that are lost at random, of those that are sent: 0 to 1.
    pub lose: f64,
    /// Packets to record of each link; 0 records none.
    pub packets_per_link: usize,
}

impl Wanted {
    /// The longest packet, which may be `allowed` bytes long.
    pub(crate) fn mtu(&self, suggested: usize, allowed: usize) -> Result<usize, SystemError> {
        let mtu = self.mtu_bytes.unwrap_or(suggested);
        crate::refuse::within("mtu", mtu, SHORTEST_MTU_BYTES..=allowed)?;
        Ok(mtu)
    }

    /// What is lost at random, by the plan's seed.
    pub(crate) fn losses(&self, seed: u64) -> Losses {
        Losses::share(self.lose, seed)
    }

    /// Refuses what no network can be asked for.
    pub(crate) fn check(&self) -> Result<(), SystemError> {
        crate::refuse::within("stations", self.stations, 2..=STATIONS_MAX)?;
        crate::refuse::within("lose", self.lose, 0.0..=1.0)
    }
}

/// A packet that has left the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// At which station.
    pub station: u16,
    /// When its host had it.
    pub at: Instant,
    /// It.
    pub packet: Vec<u8>,
}

/// What became of the packets: those taken are the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Taken from outside.
    pub taken: u64,
    /// Given out.
    pub given: u64,
    /// Lost since the queue of their station was full.
    pub lost_queue_full: u64,
    /// Lost since they were longer than the network carries.
    pub lost_too_long: u64,
    /// Lost between the sending and the receiving host: a cell or frame of them was.
    pub lost_under_way: u64,
    /// Still inside.
    pub inside: u64,
}

impl Account {
    /// Whether every packet is accounted for.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        let lost = self.lost_queue_full + self.lost_too_long + self.lost_under_way;
        self.taken == self.given + lost + self.inside
    }
}

/// What can be seen of a network at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// What goes round: `frames of the ring`, `token`.
    pub what: &'static str,
    /// The stations, each at its place on the way round, 0 to 1.
    pub stations: Vec<f64>,
    /// What goes round: where it is, and which of its slots are full.
    pub carriers: Vec<(f64, Vec<bool>)>,
    /// What was counted: name and number.
    pub counts: Vec<(&'static str, u64)>,
}

/// A network that carries packets.
pub trait Emulated: Send {
    /// What it is, in a sentence.
    fn describe(&self) -> String;

    /// Bytes of the longest packet that it carries.
    fn mtu_bytes(&self) -> usize;

    /// The model's time.
    fn now(&self) -> Instant;

    /// Takes a packet at station `from` for station `to`. It comes `at` that model time, or at the model's own
    /// if that is later.
    fn send(&mut self, at: Instant, from: u16, to: u16, packet: Vec<u8>);

    /// Lets everything happen up to and at `time`.
    fn run_to(&mut self, time: Instant);

    /// When something happens next; `None` if nothing does until the next packet.
    fn next_at(&mut self) -> Option<Instant>;

    /// The next packet that has left, in the order of times.
    fn poll(&mut self) -> Option<Departure>;

    /// What became of the packets so far.
    fn account(&self) -> Account;

    /// What can be seen now.
    fn view(&self) -> View;

    /// What went over the links, and the packets taken and given out, if they are recorded. Afterwards
    /// nothing more is.
    fn take_links(&mut self) -> Vec<LinkCapture>;
}

/// The stations of an emulated network, as the outside sees them: queues, account, captures.
pub(crate) struct Stations {
    mtu_bytes: usize,
    queues: Vec<VecDeque<(u16, Vec<u8>)>>,
    /// Packets that hosts have begun with: from, to, bytes.
    under_way: VecDeque<(u16, u16, Vec<u8>)>,
    departures: VecDeque<Departure>,
    account: Account,
    /// Taken from outside, and given out.
    captures: Option<[LinkCapture; 2]>,
}

impl Stations {
    pub(crate) fn new(wanted: &Wanted, mtu_bytes: usize) -> Self {
        let capture = |name: &str| LinkCapture::new(name, RAW_IP, wanted.packets_per_link);
        let captures = ["IP, into the network", "IP, out of the network"].map(capture);
        Self {
            mtu_bytes,
            queues: vec![VecDeque::new(); usize::from(wanted.stations)],
            under_way: VecDeque::new(),
            departures: VecDeque::new(),
            account: Account::default(),
            captures: (wanted.packets_per_link > 0).then_some(captures),
        }
    }

    pub(crate) const fn mtu_bytes(&self) -> usize {
        self.mtu_bytes
    }

    /// Takes a packet, or counts why not.
    pub(crate) fn take(&mut self, now: Instant, from: u16, to: u16, packet: Vec<u8>) {
        self.account.taken += 1;
        if let Some([into, _]) = &mut self.captures {
            into.record(now, || packet.clone());
        }
        let Some(queue) = self.queues.get_mut(usize::from(from)) else {
            self.account.lost_too_long += 1;
            return;
        };
        if packet.len() > self.mtu_bytes {
            self.account.lost_too_long += 1;
        } else if queue.len() >= QUEUE_PACKETS {
            self.account.lost_queue_full += 1;
        } else {
            queue.push_back((to, packet));
        }
    }

    /// The packet that the host of `station` would send next: to whom, and how long it is.
    pub(crate) fn waiting(&self, station: usize) -> Option<(u16, usize)> {
        let (to, packet) = self.queues.get(station)?.front()?;
        Some((*to, packet.len()))
    }

    /// The host of `station` begins with it.
    pub(crate) fn begin(&mut self, station: usize) -> Option<Vec<u8>> {
        let (to, packet) = self.queues.get_mut(station)?.pop_front()?;
        self.under_way
            .push_back((station as u16, to, packet.clone()));
        Some(packet)
    }

    /// The host of `station` has received a packet, of a network that keeps the packets of two stations in order.
    pub(crate) fn give(&mut self, now: Instant, station: usize, packet: Vec<u8>) {
        let station = station as u16;
        let is_it = |(_, to, bytes): &(u16, u16, Vec<u8>)| *to == station && *bytes == packet;
        let Some(at) = self.under_way.iter().position(is_it) else {
            // A part of what was sent, which no format of these networks lets through.
            debug_assert!(false, "a packet that nobody has sent");
            return;
        };
        let from = self.under_way[at].0;
        let mut index = 0;
        // Those before it on the same way are lost.
        self.under_way.retain(|&(its_from, its_to, _)| {
            index += 1;
            let is_overtaken = index <= at && (its_from, its_to) == (from, station);
            self.account.lost_under_way += u64::from(is_overtaken);
            !is_overtaken && index != at + 1
        });
        self.depart(now, station, packet);
    }

    /// The host of `station` has received a packet, of a network that says what it loses.
    pub(crate) fn give_in_any_order(&mut self, now: Instant, station: usize, packet: Vec<u8>) {
        let station = station as u16;
        if self.take_off(station, &packet) {
            self.depart(now, station, packet);
        }
    }

    /// The network has lost a packet for `station`.
    pub(crate) fn lose(&mut self, station: usize, packet: &[u8]) {
        if self.take_off(station as u16, packet) {
            self.account.lost_under_way += 1;
        }
    }

    fn take_off(&mut self, station: u16, packet: &[u8]) -> bool {
        let mut all = self.under_way.iter();
        let at = all.position(|(_, to, bytes)| *to == station && bytes == packet);
        let found = at.and_then(|at| self.under_way.remove(at));
        debug_assert!(found.is_some(), "a packet that nobody has sent");
        found.is_some()
    }

    fn depart(&mut self, now: Instant, station: u16, packet: Vec<u8>) {
        self.account.given += 1;
        if let Some([_, out]) = &mut self.captures {
            out.record(now, || packet.clone());
        }
        self.departures.push_back(Departure {
            station,
            at: now,
            packet,
        });
    }

    /// Nothing is on the network and no host is at work: what has not come is lost.
    pub(crate) fn is_over(&mut self) {
        self.account.lost_under_way += self.under_way.len() as u64;
        self.under_way.clear();
    }

    pub(crate) fn poll(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    pub(crate) fn account(&self) -> Account {
        let waiting: usize = self.queues.iter().map(VecDeque::len).sum();
        Account {
            inside: (waiting + self.under_way.len()) as u64,
            ..self.account
        }
    }

    pub(crate) fn take_captures(&mut self) -> impl Iterator<Item = LinkCapture> + use<> {
        self.captures.take().into_iter().flatten()
    }
}
