//! Both ends of every connection of a program, and when each gets a packet out.
//!
//! A host has one packet of the program in its queue at a time, and asks for the next when that
//! has gone: so an end makes a packet when it is sent, and knows what has been acknowledged by
//! then. Ends at one host take turns. Deadlines are ticks of the model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use barewire_tcp::{Checked, Config, Counts, Endpoint, State, Tcp};
use barewire_units::{Duration, Instant, Rng};

use super::super::program::Hands;
use super::trips::Trips;
use crate::workbench::bench::Note;

/// Connections of a program times their two ends, at most.
pub(in crate::network) const ENDS_MAX: u64 = 2000;
/// An end that has nothing to send is asked again after this time at the earliest, even where its
/// deadline has passed: otherwise the time of the model would stand still.
const MOMENT: Duration = Duration::from_us(1);
/// The tick of deadlines; below it are those of connections.
const DEADLINE: u32 = u32::MAX;
const FIRST_PORT: u16 = 10_000;
const SERVER_PORT: u16 = 5001;

/// What all programs over TCP have in common.
#[derive(Clone, Debug)]
pub(in crate::network) struct TcpSpec {
    /// Hosts that open connections, and the one that accepts them.
    pub from: Vec<u16>,
    pub to: u16,
    /// Connections of each host in `from`.
    pub connections: u64,
    pub start: Duration,
    /// From the start of one connection to that of the next, of each host.
    pub interval: Duration,
    /// The longest IP packet.
    pub mtu_bytes: usize,
    /// Of each end, to send and to receive.
    pub buffer_bytes: usize,
    /// What an end works on each packet that comes in.
    pub work: Duration,
}

impl TcpSpec {
    pub(super) fn count(&self) -> usize {
        self.from.len() * self.connections as usize
    }

    /// The host of the client of a connection, and when it begins.
    fn client(&self, connection: usize) -> (u16, Instant) {
        let each = (self.connections as usize).max(1);
        let (host, number) = (self.from[connection / each], connection % each);
        let after = self.interval.checked_mul(number as u64);
        let start = self.start.saturating_add(after.unwrap_or(Duration::MAX));
        (host, Instant::ORIGIN.saturating_add(start))
    }

    /// When a connection begins.
    pub(super) fn begun(&self, connection: usize) -> Instant {
        self.client(connection).1
    }

    /// Packets with `bytes` of payload, and as many acknowledgements as there may be.
    pub(super) fn packets(&self, bytes: f64) -> Vec<(f64, u64)> {
        let mss = self.mtu_bytes.saturating_sub(40).max(1) as f64;
        let packets = (bytes / mss).ceil() + 3.0;
        vec![(packets, self.mtu_bytes as u64), (packets, 52)]
    }
}

/// What a program has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A connection's time has come: to begin, or as the program has set it.
    Tick(usize),
    /// Something came to an end, or its deadline has.
    End(usize),
}

/// A program that has ends, and looks at what comes to them.
pub(super) trait Looks {
    fn ends(&mut self) -> &mut Ends;

    /// Does what follows.
    fn look(&mut self, look: Look, desk: &mut Hands<'_>);
}

/// Tells a program what has happened at `host`. Once it has looked at all that follows, packets go
/// out, which may give it more to look at.
pub(super) fn note(program: &mut impl Looks, host: u16, note: Note, desk: &mut Hands<'_>) {
    program.ends().note(host, note, desk);
    loop {
        while let Some(look) = program.ends().looks.pop_front() {
            program.look(look, desk);
        }
        let ends = program.ends();
        ends.send(host, desk);
        if ends.looks.is_empty() {
            return;
        }
    }
}

#[derive(Debug)]
struct End {
    tcp: Option<Tcp>,
    trips: Trips,
    deadline: Option<Instant>,
    is_ready: bool,
    was_closed: bool,
}

/// What a host has of the program's ends.
#[derive(Debug, Default)]
struct Place {
    /// Ends that may have a packet, in turn.
    ready: VecDeque<usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    tick_at: Option<Instant>,
}

/// Both ends of each connection: connection `c` has the client `2 c` and the server `2 c + 1`.
#[derive(Debug)]
pub(super) struct Ends {
    spec: TcpSpec,
    ends: Vec<End>,
    places: BTreeMap<u16, Place>,
    seeds: Rng,
    packet: Vec<u8>,
    looks: VecDeque<Look>,
}

fn address(host: u16, port: u16) -> SocketAddr {
    // 10.0.0.1 for the first host.
    let number = 0x0a00_0001 + u32::from(host);
    SocketAddr::from((Ipv4Addr::from(number), port))
}

impl Ends {
    pub(super) fn new(spec: TcpSpec, rng: &Rng) -> Self {
        let end = |_| End {
            tcp: None,
            trips: Trips::default(),
            deadline: None,
            is_ready: false,
            was_closed: false,
        };
        let hosts = spec.from.iter().chain([&spec.to]);
        Self {
            ends: (0..2 * spec.count()).map(end).collect(),
            places: hosts.map(|&host| (host, Place::default())).collect(),
            seeds: rng.fork("tcp"),
            packet: vec![0; spec.mtu_bytes],
            looks: VecDeque::new(),
            spec,
        }
    }

    /// Sets the times at which the connections begin: [`Look::Tick`].
    pub(super) fn begin(&mut self, desk: &mut Hands<'_>) {
        for connection in 0..self.spec.count() {
            let (_, at) = self.spec.client(connection);
            self.tick(connection, at, desk);
        }
    }

    /// Sets a time for a connection, at its client: [`Look::Tick`].
    pub(super) fn tick(&mut self, connection: usize, at: Instant, desk: &mut Hands<'_>) {
        let (host, _) = self.spec.client(connection);
        desk.tick(host, connection as u32, at);
    }

    fn host(&self, end: usize) -> u16 {
        match end % 2 {
            0 => self.spec.client(end / 2).0,
            _ => self.spec.to,
        }
    }

    fn config(&mut self, end: usize, program: u16) -> Config {
        let port = |end: usize| match end % 2 {
            0 => FIRST_PORT + (end / 2) as u16,
            _ => SERVER_PORT.wrapping_add(program).max(1),
        };
        let at = |end: usize| address(self.host(end), port(end));
        let seed = self.seeds.fork_nth("end", end as u64).next_u64();
        Config {
            mtu: self.spec.mtu_bytes,
            send_buffer_bytes: self.spec.buffer_bytes,
            receive_buffer_bytes: self.spec.buffer_bytes,
            // What is known of plans was found without, and each packet would have 12 bytes less.
            timestamps: false,
            ..Config::new(at(end), at(end ^ 1), seed)
        }
    }

    /// Opens a connection.
    pub(super) fn open(&mut self, connection: usize, desk: &mut Hands<'_>) {
        let client = 2 * connection;
        let config = self.config(client, desk.program);
        // The check of the plan has seen to the settings: a fault here leaves the end closed.
        self.ends[client].tcp = Tcp::connect(&config, desk.now()).ok();
        self.make_ready(client);
    }

    /// An end, if it is there.
    pub(super) fn tcp(&mut self, end: usize) -> Option<&mut Tcp> {
        self.ends[end].tcp.as_mut()
    }

    /// The end may have a packet: to be said after each call of its own.
    pub(super) fn make_ready(&mut self, end: usize) {
        let host = self.host(end);
        let it = &mut self.ends[end];
        if !it.is_ready && it.tcp.is_some() {
            it.is_ready = true;
            if let Some(place) = self.places.get_mut(&host) {
                place.ready.push_back(end);
            }
        }
    }

    /// Takes what a host says, and notes what the program has to look at.
    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        match note {
            Note::Received(message) if !self.spec.work.is_zero() => {
                desk.bench.work(host, message, self.spec.work);
            }
            Note::Received(message) | Note::Worked(message) => self.packet(message, desk),
            Note::Tick(DEADLINE) => self.deadlines(host, desk.now()),
            Note::Tick(connection) => self.looks.push_back(Look::Tick(connection as usize)),
            Note::Returned(_) => {}
        }
    }

    fn packet(&mut self, message: u32, desk: &mut Hands<'_>) {
        let end = desk.bench.messages[message as usize].about as usize;
        let Some(mut packet) = desk.take_packet(message) else {
            return;
        };
        let now = desk.now();
        if self.ends[end].tcp.is_none() {
            let config = self.config(end, desk.program);
            self.ends[end].tcp = Tcp::accept(&config, &packet, Checked::No, now).ok();
        } else {
            let it = &mut self.ends[end];
            it.trips.received(&packet, now);
            if let Some(tcp) = &mut it.tcp {
                tcp.handle_packet(&mut packet, Checked::No, now);
            }
        }
        self.make_ready(end);
        self.looks.push_back(Look::End(end));
    }

    /// Deadlines at a host have come.
    fn deadlines(&mut self, host: u16, now: Instant) {
        let Some(place) = self.places.get_mut(&host) else {
            return;
        };
        if place.tick_at.is_some_and(|at| at <= now) {
            place.tick_at = None;
        }
        let mut due = Vec::new();
        while let Some(&(at, end)) = place.deadlines.first().filter(|(at, _)| *at <= now) {
            place.deadlines.remove(&(at, end));
            due.push(end);
        }
        for end in due {
            self.ends[end].deadline = None;
            self.make_ready(end);
            self.looks.push_back(Look::End(end));
        }
    }

    /// Gives the host of each end its next packet, if it has none.
    fn send(&mut self, host: u16, desk: &mut Hands<'_>) {
        while !desk.has_posted(host) {
            let place = self.places.get_mut(&host);
            let Some(end) = place.and_then(|place| place.ready.pop_front()) else {
                break;
            };
            self.ends[end].is_ready = false;
            self.take_turn(host, end, desk);
        }
        self.set_tick(host, desk);
    }

    fn take_turn(&mut self, host: u16, end: usize, desk: &mut Hands<'_>) {
        let now = desk.now();
        let (to, about) = (self.host(end ^ 1), (end ^ 1) as u64);
        let it = &mut self.ends[end];
        let Some(tcp) = &mut it.tcp else {
            return;
        };
        if let Some(outgoing) = tcp.poll_packet(&mut self.packet, now) {
            let packet = self.packet[..outgoing.bytes].to_vec();
            it.trips.sent(&packet, now);
            desk.post_packet((host, to), packet, about);
            self.make_ready(end);
            return;
        }
        if tcp.state() == State::Closed && !it.was_closed {
            it.was_closed = true;
            self.looks.push_back(Look::End(end));
        }
        let deadline = tcp.next_deadline();
        let deadline = deadline.map(|at| at.max(now.saturating_add(MOMENT)));
        if let Some(place) = self.places.get_mut(&host) {
            if let Some(before) = it.deadline {
                place.deadlines.remove(&(before, end));
            }
            place.deadlines.extend(deadline.map(|at| (at, end)));
            it.deadline = deadline;
        }
    }

    fn set_tick(&mut self, host: u16, desk: &mut Hands<'_>) {
        let Some(place) = self.places.get_mut(&host) else {
            return;
        };
        let Some(&(at, _)) = place.deadlines.first() else {
            return;
        };
        if place.tick_at.is_none_or(|before| at < before) {
            place.tick_at = Some(at);
            desk.tick(host, DEADLINE, at);
        }
    }

    /// The sums over all ends.
    pub(super) fn counts(&self) -> Counts {
        let all = self.ends.iter().filter_map(|end| end.tcp.as_ref());
        all.map(Tcp::counts)
            .fold(Counts::default(), |sum, one| Counts {
                packets_first: sum.packets_first + one.packets_first,
                packets_again: sum.packets_again + one.packets_again,
                repairs: sum.repairs + one.repairs,
                timeouts: sum.timeouts + one.timeouts,
                probes: sum.probes + one.probes,
                duplicates: sum.duplicates + one.duplicates,
            })
    }

    /// Round-trip times of the clients' packets.
    pub(super) fn times_us(&self) -> Vec<f64> {
        let clients = self.ends.iter().step_by(2);
        clients
            .flat_map(|end| end.trips.times_us.iter().copied())
            .collect()
    }
}
