//! From the receive FIFO to the program.
//!
//! ```text
//! interrupt --> handler: entry --> for each piece: [words] --> driver --> [sum]
//!           --> when there is no more: the program that slept wakes up --> return --> copies
//! ```
//! A program that polls does the handler's work itself, without the entry. Interrupts that
//! come from the card that the handler is at are taken care of by the handler, which looks again.
//! Those of the host's other cards wait until it is done there, and it enters anew for each.

use barewire_models::host::{Level, Notice};
use barewire_models::workbench::Taker;
use barewire_units::Duration;

use super::super::parameters::Checksum;
use super::super::path::Part;
use super::station::{At, Doing, Taking, Waiting};
use super::{Bench, Fate, Note, Place, Sim, What};

impl Bench {
    /// The card moves the next burst into the host, if it has one to move.
    pub(super) fn store(&mut self, at: At, sim: &mut Sim) {
        let burst_bytes = self.of(at).host.bus.burst.as_bytes();
        let card = self.card(at);
        let before = card.receiver.waiting();
        let burst = card.receiver.begin_burst(burst_bytes);
        // A frame without bytes of its own needs no burst, and may end a piece.
        let whole = card.receiver.waiting() - before;
        if let Some(bytes) = burst {
            card.store_burst = bytes;
            let bus = &mut self.stations[usize::from(at.host)].bus;
            let end = bus.burst(sim.now(), bytes);
            self.until(end, Part::Bus, at, What::Stored, sim);
        }
        self.tell_host(at, whole, sim);
    }

    pub(super) fn stored(&mut self, at: At, sim: &mut Sim) {
        let card = self.card(at);
        let before = card.receiver.waiting();
        card.receiver.end_burst(card.store_burst);
        let whole = card.receiver.waiting() - before;
        self.tell_host(at, whole, sim);
        self.store(at, sim);
    }

    /// So many more pieces wait for the host.
    pub(super) fn tell_host(&mut self, at: At, pieces: usize, sim: &mut Sim) {
        for _ in 0..pieces {
            let station = &mut self.stations[usize::from(at.host)];
            if station.polls {
                if station.waiting == Waiting::Message {
                    self.begin_poll(at.host, sim);
                }
                continue;
            }
            if station.is_served(at.card) {
                continue;
            }
            match station.card(at.card).coalescer.note(sim.now()) {
                Notice::Interrupt => self.interrupt(at, sim),
                Notice::Arm(due) => self.until(due, Part::Wait, at, What::Due, sim),
                Notice::Wait => {}
            }
        }
    }

    pub(super) fn interrupt_due(&mut self, at: At, sim: &mut Sim) {
        let fires = self.card(at).coalescer.handle_timer(sim.now());
        if fires && !self.station(at.host).is_served(at.card) {
            self.interrupt(at, sim);
        }
    }

    /// The card interrupts; a handler that is at another card comes later.
    fn interrupt(&mut self, at: At, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(at.host)];
        if !station.levels.is_idle(Level::Handler) {
            station.card(at.card).interrupts = true;
            return;
        }
        station.card(at.card).interrupts = false;
        station.interrupts += 1;
        station.serving = at.card;
        let cost = station.costs.interrupt;
        self.begin(at.host, Level::Handler, Doing::Entry, cost, sim);
    }

    fn begin_poll(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.waiting = Waiting::No;
        let cost = station.costs.poll;
        self.begin(host, Level::Program, Doing::Poll, cost, sim);
    }

    /// Takes the next whole piece from a card, or is done with them. The handler is at one card;
    /// a poll takes the cards in turn.
    pub(super) fn take_piece(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let card = match level {
            Level::Handler => station.serving,
            Level::Program => {
                let mut turn = station.turn(station.polled);
                let has_piece =
                    |card: &u8| station.cards[usize::from(*card)].receiver.waiting() > 0;
                let found = turn.find(has_piece).unwrap_or(station.polled);
                station.polled = station.turn(found).nth(1).unwrap_or(0);
                found
            }
        };
        let from = station.card(card);
        let Some(piece) = from.receiver.take() else {
            self.all_taken(host, level, sim);
            return;
        };
        let descriptor_bytes = from.parameters.card.descriptor.as_bytes();
        let words = from.parameters.receiver().taker == Taker::Processor;
        let left_bytes = if words {
            piece.bytes + descriptor_bytes
        } else {
            0
        };
        station.taking[level as usize] = Some(Taking {
            card,
            piece,
            left_bytes,
        });
        self.read(host, level, sim);
    }

    /// Reads the next words of the piece, or lets the driver look at it.
    fn read(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(taking) = station.taking[level as usize] else {
            return;
        };
        if taking.left_bytes == 0 {
            let cost = station.costs.receive(taking.piece.bytes);
            self.begin(host, level, Doing::TakeDriver, cost, sim);
            return;
        }
        let burst_bytes = station.card(taking.card).parameters.word_burst_bytes();
        let bytes = burst_bytes.min(taking.left_bytes);
        let end = station.bus.read(sim.now(), bytes);
        let cost = end.saturating_duration_since(sim.now());
        self.begin(host, level, Doing::Read(bytes), cost, sim);
    }

    pub(super) fn piece_read(&mut self, host: u16, level: Level, bytes: u64, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        if let Some(taking) = &mut station.taking[level as usize] {
            taking.left_bytes -= bytes;
        }
        self.read(host, level, sim);
    }

    /// Sums over the bytes, if that is the processor's part; over those for others, the hosts at
    /// the ends do.
    pub(super) fn sum_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(Taking { card, piece, .. }) = station.taking[level as usize] else {
            return;
        };
        let sums = station.card(card).parameters.card.checksum == Checksum::Processor;
        if sums && piece.to == host {
            let cost = station.costs.checksum(piece.bytes);
            self.begin(host, level, Doing::TakeSum, cost, sim);
        } else {
            self.piece_taken(host, level, sim);
        }
    }

    pub(super) fn piece_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let taken = station.taking[level as usize].take();
        if let Some(Taking { card, piece, .. }) = taken {
            station.card(card).receiver.release(&piece);
            let message = &mut self.messages[piece.message as usize];
            message.got_bytes += piece.bytes;
            if piece.last && message.got_bytes == message.bytes {
                match message.to == host {
                    true => self.put_in(At { host, card }, piece.message),
                    false => self.pass_on(host, piece.message),
                }
            }
        }
        let station = &mut self.stations[usize::from(host)];
        if station.levels.has_two_processors() && level == Level::Handler {
            self.wake(host, sim);
        }
        let whole = !self.stations[usize::from(host)].inbox.is_empty();
        match level {
            Level::Program if whole => self.look_for_message(host, sim),
            Level::Program => self.take_piece(host, level, sim),
            Level::Handler => self.handler_goes_on(host, sim),
        }
        if let Some(Taking { card, .. }) = taken {
            // The buffer is free again.
            self.store(At { host, card }, sim);
        }
    }

    /// Puts a message before the program, if there is room.
    fn put_in(&mut self, at: At, number: u32) {
        let socket_bytes = self.of(at).driver.socket.as_bytes();
        let station = &mut self.stations[usize::from(at.host)];
        let message = &mut self.messages[number as usize];
        // The first that waits is always taken, however long it is.
        let after = station.inbox_bytes + message.bytes;
        if after <= socket_bytes || station.inbox.is_empty() {
            station.inbox_bytes = after;
            station.inbox.push_back((number, at.card));
        } else {
            message.fate = Fate::Lost(Place::Socket);
            if self.handed.is_some() {
                self.lost.push(number);
            }
        }
    }

    /// The handler passes on what it can, and takes the next piece.
    pub(super) fn handler_goes_on(&mut self, host: u16, sim: &mut Sim) {
        if !self.forward_next(host, sim) {
            self.take_piece(host, Level::Handler, sim);
        }
    }

    fn all_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        if level == Level::Program {
            self.look_for_message(host, sim);
            return;
        }
        let now = sim.now();
        let station = &mut self.stations[usize::from(host)];
        let mut turn = station.turn(station.serving);
        if let Some(card) = turn.find(|card| station.cards[usize::from(*card)].interrupts) {
            // Another card has asked for it meanwhile.
            self.interrupt(At { host, card }, sim);
            return;
        }
        let held_up = station.held_up.take();
        if station.levels.resume(now) {
            if let Some(held_up) = held_up {
                let step = self.paths.go_on(held_up, now, self.cause);
                self.stations[usize::from(host)].step[Level::Program as usize] = step;
            }
            self.schedule_processor(host, sim);
        }
        self.wake(host, sim);
    }

    /// Wakes the program if there is a message for which it sleeps.
    fn wake(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        if station.waiting != Waiting::Message || station.inbox.is_empty() {
            return;
        }
        let wake_up = station.costs.wake_up;
        station.waiting = Waiting::Processor;
        if wake_up.is_zero() {
            self.begin_switch(host, sim);
        } else {
            let end = sim.now().saturating_add(wake_up);
            self.until(end, Part::Wake, At::first(host), What::Woken, sim);
        }
    }

    pub(super) fn begin_switch(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.waiting = Waiting::No;
        let cost = station.costs.context_switch;
        self.begin(host, Level::Program, Doing::Switch, cost, sim);
    }

    /// The program wants a message: it polls, or calls.
    pub(super) fn look_for_message(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.waiting = Waiting::No;
        if !station.polls {
            let cost = station.costs.receive_call;
            self.begin(host, Level::Program, Doing::ReceiveCall, cost, sim);
        } else if !station.inbox.is_empty() {
            self.copy_out(host, sim);
        } else if station.has_pieces() {
            self.begin_poll(host, sim);
        } else {
            self.stay(host, sim);
        }
    }

    /// Nothing to receive now. The program waits for a message, or sends what it has.
    fn stay(&mut self, host: u16, sim: &mut Sim) {
        self.stations[usize::from(host)].waiting = Waiting::Message;
        self.go_on(host, sim);
    }

    pub(super) fn receive_called(&mut self, host: u16, sim: &mut Sim) {
        if self.stations[usize::from(host)].inbox.is_empty() {
            self.stay(host, sim);
        } else {
            self.begin_receive_return(host, sim);
        }
    }

    pub(super) fn begin_receive_return(&mut self, host: u16, sim: &mut Sim) {
        let cost = self.stations[usize::from(host)].costs.receive_return;
        self.begin(host, Level::Program, Doing::ReceiveReturn, cost, sim);
    }

    pub(super) fn copy_out(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(&(message, card)) = station.inbox.front() else {
            return;
        };
        let copies = station.card(card).parameters.driver.receive_copies;
        let bytes = self.messages[message as usize].bytes;
        let copy = station.memory.copy(bytes, bytes);
        let cost = copy.checked_mul(copies).unwrap_or(Duration::MAX);
        self.begin(host, Level::Program, Doing::ReceiveCopy, cost, sim);
    }

    pub(super) fn received(&mut self, host: u16) {
        let station = &mut self.stations[usize::from(host)];
        let Some((number, _)) = station.inbox.pop_front() else {
            return;
        };
        station.received_last = true;
        let message = &mut self.messages[number as usize];
        station.inbox_bytes -= message.bytes;
        message.fate = Fate::Received;
        self.tell(host, Note::Received(number));
    }
}
