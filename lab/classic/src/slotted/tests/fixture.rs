//! A ring of stations and a monitor on a simulated fibre, with seeded faults, and an oracle
//! that watches every slot and every cell.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use barewire_formats::cbn::{CELL_BYTES, FRAME_BITS, FRAME_BYTES, Frame, HEADER, Msdl, SLOTS};
use barewire_units::{Duration, Instant, Rng};

use crate::slotted::{
    Channel, Config, Duplex, Monitor, Outcome, ROTATION, Report, SlotState, Station, Ticket,
    Verdict,
};

pub(super) fn station(receive_channel: usize) -> Config {
    Config {
        duplex: Duplex::Full,
        ..Config::v1s(Channel::ALL[receive_channel])
    }
}

/// A cell with this word-forming header; the body is `id`, repeated.
pub(super) fn cell(vci: u16, sequence: u8, id: u32) -> [u8; CELL_BYTES] {
    let word = Msdl {
        vci,
        sequence,
        rid: 0,
        part: false,
        start: false,
    };
    let mut cell = [0; CELL_BYTES];
    cell[..4].copy_from_slice(&word.to_word().to_be_bytes());
    for chunk in cell[4..].chunks_mut(4) {
        chunk.copy_from_slice(&id.to_be_bytes());
    }
    cell
}

/// What the oracle knows of a cell that was queued.
#[derive(Debug)]
pub(super) struct Journey {
    pub(super) node: usize,
    pub(super) life: u32,
    ticket: Ticket,
    pub(super) vci: u16,
    pub(super) receivers: BTreeSet<usize>,
    pub(super) outcome: Option<Outcome>,
}

enum Node {
    Station(alloc::boxed::Box<Station>),
    Monitor(Monitor),
    /// A station without power: frames go past it.
    Dead,
}

/// Since when a slot is full, or void, and by whom.
#[derive(Clone, Copy)]
struct Occupied {
    since: Instant,
    /// Node and life of the sender, and when it filled the slot.
    sender: Option<(usize, u32, Instant)>,
}

pub(super) struct Ring {
    nodes: Vec<Node>,
    lives: Vec<u32>,
    frames: Vec<[u8; FRAME_BYTES]>,
    /// Who gets which frame when; time, then node.
    due: BTreeMap<(Instant, usize), usize>,
    /// Flight from each node to the next.
    hops: Vec<Duration>,
    pub(super) now: Instant,
    occupied: Vec<[Option<Occupied>; SLOTS]>,
    monitor_since: Option<Instant>,
    pub(super) journeys: Vec<Journey>,
    by_ticket: BTreeMap<(usize, u32, Ticket), usize>,
    pub(super) last_received: BTreeMap<(usize, u16, usize), u32>,
    /// Chance of damage on a hop, in millionths.
    pub(super) damage_ppm: u64,
    pub(super) rng: Rng,
    pub(super) damaged_hops: u64,
    /// Slots filled by each node on each channel.
    pub(super) filled: Vec<[u64; SLOTS]>,
    pub(super) longest: Duration,
}

pub(super) const MONITOR: usize = 0;

impl Ring {
    /// Node 0 is the monitor; stations follow in the order of the ring, at random distances.
    pub(super) fn new(seed: u64, stations: Vec<Config>) -> Self {
        let frames = stations[0].frames;
        let mut rng = Rng::from_seed(seed).fork("ring");
        let mut nodes = vec![Node::Monitor(Monitor::new())];
        nodes.extend(stations.iter().map(|&config| {
            assert_eq!(config.frames, frames, "stations that disagree on the ring");
            Node::Station(Station::new(config).unwrap().into())
        }));
        let count = nodes.len();
        // The last hop closes the ring.
        let mut cuts: Vec<u64> = (1..count)
            .map(|_| rng.in_range(1..=ROTATION.as_ps() - 1))
            .collect();
        cuts.sort_unstable();
        cuts.push(ROTATION.as_ps());
        let hops = cuts.iter().scan(0, |last, &cut| {
            let hop = cut - *last;
            *last = cut;
            Some(Duration::from_ps(hop))
        });
        let mut empty = [0; FRAME_BYTES];
        Monitor::form_frame(&mut Frame::new_unchecked(&mut empty));
        let spacing = ROTATION / frames as u64;
        let due = (0..frames).map(|frame| ((Instant::ORIGIN + spacing * frame as u64, 0), frame));
        Self {
            hops: hops.collect(),
            lives: vec![0; count],
            nodes,
            frames: vec![empty; frames],
            due: due.collect(),
            now: Instant::ORIGIN,
            occupied: vec![[None; SLOTS]; frames],
            monitor_since: Some(Instant::ORIGIN),
            journeys: Vec::new(),
            by_ticket: BTreeMap::new(),
            last_received: BTreeMap::new(),
            damage_ppm: 0,
            rng,
            damaged_hops: 0,
            filled: vec![[0; SLOTS]; count],
            longest: Duration::ZERO,
        }
    }

    pub(super) fn station(&mut self, node: usize) -> Option<&mut Station> {
        match &mut self.nodes[node] {
            Node::Station(station) => Some(station),
            Node::Monitor(_) | Node::Dead => None,
        }
    }

    pub(super) fn monitor(&self) -> &Monitor {
        match &self.nodes[MONITOR] {
            Node::Monitor(monitor) => monitor,
            _ => panic!("no monitor"),
        }
    }

    pub(super) fn kill(&mut self, node: usize) {
        self.nodes[node] = Node::Dead;
        if node == MONITOR {
            self.monitor_since = None;
        }
    }

    pub(super) fn revive(&mut self, node: usize, config: Config, vcis: &[u16]) {
        let mut station = Station::new(config).unwrap();
        vcis.iter().for_each(|&vci| station.listen(vci));
        self.nodes[node] = Node::Station(station.into());
        self.lives[node] += 1;
    }

    pub(super) fn revive_monitor(&mut self) {
        self.nodes[MONITOR] = Node::Monitor(Monitor::new());
        self.monitor_since = Some(self.now);
    }

    /// Queues a cell if there is room; its body names its journey.
    pub(super) fn send(&mut self, node: usize, channel: usize, vci: u16) -> bool {
        let id = self.journeys.len();
        let life = self.lives[node];
        let bytes = cell(vci, id as u8, id as u32);
        let Some(station) = self.station(node) else {
            return false;
        };
        let Ok(ticket) = station.send(Channel::ALL[channel], bytes) else {
            return false;
        };
        self.by_ticket.insert((node, life, ticket), id);
        self.journeys.push(Journey {
            node,
            life,
            ticket,
            vci,
            receivers: BTreeSet::new(),
            outcome: None,
        });
        true
    }

    /// Lets one frame pass one node.
    pub(super) fn step(&mut self) {
        let ((now, node), frame) = self.due.pop_first().unwrap();
        self.now = now;
        self.pass(node, frame);
        self.collect(node);
        self.fly(frame);
        let next = (node + 1) % self.nodes.len();
        self.due.insert((now + self.hops[node], next), frame);
    }

    fn pass(&mut self, node: usize, frame: usize) {
        let before = self.states(frame);
        let mut view = Frame::new_unchecked(&mut self.frames[frame]);
        let sound = view.header() == HEADER && view.crc_ok();
        match &mut self.nodes[node] {
            Node::Station(station) => {
                let passage = station.handle_frame(self.now, &mut view);
                assert_eq!(passage.damaged, !sound);
                for slot in 0..SLOTS {
                    self.filled[node][slot] += u64::from(passage.filled[slot]);
                }
            }
            Node::Monitor(monitor) => monitor.handle_frame(&mut view),
            Node::Dead => return,
        }
        assert!(view.header() == HEADER && view.crc_ok());
        self.watch_slots(frame, node, before, sound);
    }

    pub(super) fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while self.now < until {
            self.step();
        }
    }

    /// Over the fibre: at most three bits flip, which the CRC always finds.
    fn fly(&mut self, frame: usize) {
        if !self.rng.ratio(self.damage_ppm, 1_000_000) {
            return;
        }
        self.damaged_hops += 1;
        let mut bits = BTreeSet::new();
        for _ in 0..self.rng.in_range(1..=3) {
            bits.insert(self.rng.index(FRAME_BITS));
        }
        for bit in bits {
            self.frames[frame][bit / 8] ^= 0x80 >> (bit % 8);
        }
    }

    fn states(&self, frame: usize) -> [SlotState; SLOTS] {
        let view = Frame::new_unchecked(&self.frames[frame]);
        core::array::from_fn(|slot| SlotState::read(&view, slot))
    }

    /// The theorem on how long a slot stays full.
    fn watch_slots(&mut self, frame: usize, node: usize, before: [SlotState; SLOTS], sound: bool) {
        let after = self.states(frame);
        for slot in 0..SLOTS {
            self.check_age(frame, slot);
            let occupied = &mut self.occupied[frame][slot];
            if after[slot] == SlotState::Empty {
                *occupied = None;
            } else if !sound {
                *occupied = Some(Occupied {
                    since: self.now,
                    sender: occupied.and_then(|occupied| occupied.sender),
                });
            } else if before[slot] == SlotState::Empty {
                *occupied = Some(Occupied {
                    since: self.now,
                    sender: Some((node, self.lives[node], self.now)),
                });
            }
        }
    }

    fn check_age(&mut self, frame: usize, slot: usize) {
        let Some(occupied) = self.occupied[frame][slot] else {
            return;
        };
        if let Some(monitor) = self.monitor_since {
            let age = self.now - occupied.since.max(monitor);
            self.longest = self.longest.max(age);
            assert!(age < ROTATION * 2, "full for {age}, {}", self.seed());
        }
        if let Some((node, life, filled)) = occupied.sender {
            let age = self.now - filled;
            assert!(
                age <= ROTATION || !self.lives(node, life),
                "its sender lives, {}",
                self.seed()
            );
        }
    }

    /// True while the station at `node` is still the one of that life.
    pub(super) fn lives(&self, node: usize, life: u32) -> bool {
        self.lives[node] == life && matches!(self.nodes[node], Node::Station(_))
    }

    fn seed(&self) -> std::string::String {
        std::format!("seed {:#x}", self.rng.seed())
    }

    fn collect(&mut self, node: usize) {
        let life = self.lives[node];
        let (mut cells, mut reports) = (Vec::new(), Vec::new());
        if let Some(station) = self.station(node) {
            cells.extend(core::iter::from_fn(|| station.poll_received()));
            reports.extend(core::iter::from_fn(|| station.poll_report()));
        }
        cells
            .iter()
            .for_each(|bytes| self.note_received(node, bytes));
        for report in reports {
            self.note_report(node, life, report);
        }
    }

    /// A cell arrives whole, once, and in order.
    fn note_received(&mut self, node: usize, bytes: &[u8; CELL_BYTES]) {
        let id = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        let journey = &mut self.journeys[id as usize];
        assert_eq!(*bytes, cell(journey.vci, id as u8, id), "a damaged cell");
        assert!(journey.receivers.insert(node), "received twice");
        let circuit = (node, journey.vci, journey.node);
        let last = self.last_received.insert(circuit, id);
        assert!(last < Some(id), "out of order on {circuit:?}");
    }

    /// A sender is told once, and the truth.
    fn note_report(&mut self, node: usize, life: u32, report: Report) {
        let id = self.by_ticket[&(node, life, report.ticket)];
        let journey = &mut self.journeys[id];
        assert_eq!(journey.ticket, report.ticket);
        assert_eq!(journey.outcome, None, "told twice");
        journey.outcome = Some(report.outcome);
        let received = !journey.receivers.is_empty();
        match report.outcome {
            Outcome::Returned(Verdict::Accepted | Verdict::Marked) => assert!(received),
            Outcome::Returned(Verdict::Nobody | Verdict::Refused) => assert!(!received),
            Outcome::Lost(_) => {}
        }
    }

    pub(super) fn full_slots(&self) -> usize {
        let frames = 0..self.frames.len();
        frames
            .flat_map(|frame| self.states(frame))
            .filter(|&state| state != SlotState::Empty)
            .count()
    }
}
