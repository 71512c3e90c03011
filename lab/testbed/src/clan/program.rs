//! What runs on the hosts: each program is a sequence of operations, and looks at its
//! memory, through the queues of the live network, when one of them is over.

use std::collections::VecDeque;

use barewire_des::stats::{Histogram, Tally};
use barewire_fabric::memory::{Incoming, Outgoing};
use barewire_fabric::queue::Next;
use barewire_fabric::{StreamReceiver, StreamSender};
use barewire_models::clan::{HostCosts, Loads, Stores, Transfer};
use barewire_units::{Duration, Instant};

use super::end::End;
pub use super::step::Step;
use crate::figures::us;

mod caller;
mod carrier;
mod server;

pub use caller::{Caller, Demand, Picker};
pub use carrier::Carrier;
pub use server::{Ears, Endpoints, Events, Server};

/// A program.
pub enum Role {
    /// None.
    Idle,
    /// A single word, back and forth.
    Word(Word),
    /// One transfer by the card.
    Transfer(Option<Transfer>),
    /// Sends requests.
    Client(Client),
    /// Calls some of many endpoints.
    Caller(Caller),
    /// Answers them.
    Server(Server),
    /// Writes into a byte queue.
    Writer(Writer),
    /// Reads from it.
    Reader(Reader),
    /// Carries packets from outside.
    Carrier(Carrier),
}

impl Role {
    /// The operation before is over.
    pub fn step(&mut self, now: Instant) -> Step {
        match self {
            Self::Idle => Step::Rest,
            Self::Word(word) => word.step(now),
            Self::Transfer(transfer) => transfer.take().map_or(Step::Rest, Step::Transfer),
            Self::Client(client) => client.step(now),
            Self::Caller(caller) => caller.step(now),
            Self::Server(server) => server.step(now),
            Self::Writer(writer) => writer.step(),
            Self::Reader(reader) => reader.step(now),
            Self::Carrier(carrier) => carrier.step(now),
        }
    }
}

/// Stores a word and waits for it to come back, or the other way round.
pub struct Word {
    pub costs: HostCosts,
    pub out: Stores,
    pub inn: Loads,
    pub begins: bool,
    /// The word that is to be seen next.
    pub next: u64,
    pub rounds: u64,
    pub sent: Instant,
    pub round_trip: Tally,
}

impl Word {
    fn step(&mut self, now: Instant) -> Step {
        if self.begins && self.next == 0 {
            self.store(1, now);
        } else if self.inn.observe_u64(0) == self.next {
            if self.begins {
                self.round_trip.add(us(now - self.sent));
            }
            if self.begins && self.next == self.rounds {
                return Step::End;
            }
            let answer = if self.begins {
                self.next + 1
            } else {
                self.next
            };
            self.store(answer, now);
        }
        Step::Run(self.costs.poll)
    }

    fn store(&mut self, value: u64, now: Instant) {
        self.out.publish_u64(0, value);
        self.sent = now;
        self.next = if self.begins { value } else { value + 1 };
    }
}

/// A connection of a client.
pub struct Line {
    end: End,
    /// When the requests that have no answer were made.
    asked: VecDeque<Instant>,
    /// When the next may be.
    due: Instant,
}

#[derive(Clone, Copy)]
enum ClientPhase {
    Choosing,
    Looking(usize),
    Receiving(usize),
    Sending(usize),
}

/// Sends requests over its connections and polls for the answers.
pub struct Client {
    costs: HostCosts,
    message: Vec<u8>,
    lines: Vec<Line>,
    /// From an answer to the next request on the same connection.
    gap: Duration,
    phase: ClientPhase,
    turn: usize,
    /// Answers to leave out, and to count before the run ends.
    warm_up: u64,
    answers_max: Option<u64>,
    pub answers: u64,
    pub round_trip: Tally,
    /// In picoseconds.
    pub round_trips: Histogram,
}

impl Client {
    pub fn new(costs: HostCosts, message_bytes: usize, ends: Vec<End>, gap: Duration) -> Self {
        let line = |end| Line {
            end,
            asked: VecDeque::new(),
            due: Instant::ORIGIN,
        };
        Client {
            costs,
            message: vec![0x5a; message_bytes],
            lines: ends.into_iter().map(line).collect(),
            gap,
            phase: ClientPhase::Choosing,
            turn: 0,
            warm_up: 0,
            answers_max: None,
            answers: 0,
            round_trip: Tally::default(),
            round_trips: Histogram::default(),
        }
    }

    /// Measures `answers` answers after `warm_up`, and ends the run.
    pub fn until(mut self, warm_up: u64, answers: u64) -> Self {
        (self.warm_up, self.answers_max) = (warm_up, Some(warm_up + answers));
        self
    }

    fn step(&mut self, now: Instant) -> Step {
        match self.phase {
            ClientPhase::Looking(line) if self.lines[line].end.rx.maybe_ready() => {
                self.phase = ClientPhase::Receiving(line);
                return Step::Run(self.costs.receive(self.message.len()));
            }
            ClientPhase::Looking(_) | ClientPhase::Choosing => {}
            ClientPhase::Receiving(line) => self.receive(line, now),
            ClientPhase::Sending(line) => self.send(line, now),
        }
        if self.answers_max.is_some_and(|max| self.answers >= max) {
            return Step::End;
        }
        self.choose(now)
    }

    fn receive(&mut self, line: usize, now: Instant) {
        let line = &mut self.lines[line];
        let next = line.end.rx.next_message().expect("an honest peer");
        let Next::InPlace(located) = next else {
            return;
        };
        line.end.rx.copy_out(&located, &mut self.message);
        line.end.rx.done(&next);
        line.due = now + self.gap;
        if let Some(asked) = line.asked.pop_front() {
            self.answers += 1;
            if self.answers > self.warm_up {
                self.round_trip.add(us(now - asked));
                self.round_trips.add((now - asked).as_ps());
            }
        }
    }

    fn send(&mut self, line: usize, now: Instant) {
        let line = &mut self.lines[line];
        let sent = line.end.tx.send_frame(&self.message);
        if !sent.expect("an honest peer") {
            return;
        }
        let begun = now.checked_sub(self.costs.send).unwrap_or(now);
        let asked = line.due.max(begun);
        line.asked.push_back(asked);
    }

    /// Looks at each connection in turn, and sends between two looks.
    fn choose(&mut self, now: Instant) -> Step {
        let due = |line: &Line| line.asked.is_empty() && line.due <= now;
        if let Some(line) = self.lines.iter().position(due) {
            self.phase = ClientPhase::Sending(line);
            return Step::Run(self.costs.send);
        }
        self.turn += 1;
        self.phase = ClientPhase::Looking(self.turn % self.lines.len());
        Step::Run(self.costs.poll)
    }
}

/// Writes transfer after transfer into a byte queue.
pub struct Writer {
    costs: HostCosts,
    tx: StreamSender<Stores, Loads>,
    transfer: Vec<u8>,
    written: usize,
}

impl Writer {
    pub fn new(costs: HostCosts, tx: StreamSender<Stores, Loads>, transfer_bytes: usize) -> Self {
        Writer {
            costs,
            tx,
            transfer: vec![0x77; transfer_bytes],
            written: 0,
        }
    }

    fn step(&mut self) -> Step {
        let rest = &self.transfer[self.written..];
        self.written += self.tx.write(rest).expect("an honest peer");
        if self.written < self.transfer.len() {
            return Step::Run(self.costs.poll);
        }
        self.written = 0;
        Step::Run(self.costs.send)
    }
}

/// Reads transfers from a byte queue.
pub struct Reader {
    costs: HostCosts,
    rx: StreamReceiver<Loads, Stores>,
    transfer: Vec<u8>,
    read: usize,
    /// Bytes to leave out, and to read after that.
    warm_up: usize,
    measured: usize,
    pub total: usize,
    from: Option<(Instant, usize)>,
    /// What was read when the run ended, and how long it took.
    pub found: Option<(usize, Duration)>,
}

impl Reader {
    pub fn new(
        costs: HostCosts,
        rx: StreamReceiver<Loads, Stores>,
        transfer_bytes: usize,
        (warm_up, measured): (usize, usize),
    ) -> Self {
        Reader {
            costs,
            rx,
            transfer: vec![0; transfer_bytes],
            read: 0,
            warm_up,
            measured,
            total: 0,
            from: None,
            found: None,
        }
    }

    fn step(&mut self, now: Instant) -> Step {
        if let (Some((from, before)), true) = (self.from, self.read == 0) {
            if self.total - before >= self.measured {
                self.found = Some((self.total - before, now - from));
                return Step::End;
            }
        }
        if self.read == 0 && self.from.is_none() && self.total >= self.warm_up {
            self.from = Some((now, self.total));
        }
        let into = &mut self.transfer[self.read..];
        let read = self.rx.read(into).expect("an honest peer");
        if read == 0 {
            return Step::Run(self.costs.poll);
        }
        assert!(into[..read].iter().all(|byte| *byte == 0x77), "other bytes");
        self.read += read;
        self.total += read;
        let lines = self.costs.line * read.div_ceil(64) as u64;
        if self.read < self.transfer.len() {
            return Step::Run(lines);
        }
        self.read = 0;
        Step::Run(self.costs.receive + lines)
    }
}
