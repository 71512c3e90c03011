//! From the receive FIFO to the program.
//!
//! ```text
//! interrupt --> handler: entry --> for each piece: [words] --> driver --> [sum]
//!           --> when there is no more: the program that slept wakes up --> return --> copies
//! ```
//! A program that polls does the handler's work itself, without the entry. Interrupts that
//! come while the handler works are taken care of by the handler, which looks again.

use barewire_models::host::{Level, Notice};
use barewire_models::workbench::Taker;
use barewire_units::Duration;

use super::super::parameters::{By, Checksum};
use super::super::path::Part;
use super::station::{Doing, Taking, Waiting};
use super::{Bench, Fate, Note, Place, Sim, What};

impl Bench {
    /// The card moves the next burst into the host, if it has one to move.
    pub(super) fn store(&mut self, host: u16, sim: &mut Sim) {
        let burst_bytes = self.of(host).host.bus.burst.as_bytes();
        let station = &mut self.stations[usize::from(host)];
        let before = station.receiver.waiting();
        let burst = station.receiver.begin_burst(burst_bytes);
        // A frame without bytes of its own needs no burst, and may end a piece.
        let whole = station.receiver.waiting() - before;
        if let Some(bytes) = burst {
            station.store_burst = bytes;
            let end = station.bus.burst(sim.now(), bytes);
            self.until(end, Part::Bus, host, What::Stored, sim);
        }
        self.tell_host(host, whole, sim);
    }

    pub(super) fn stored(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let before = station.receiver.waiting();
        station.receiver.end_burst(station.store_burst);
        let whole = station.receiver.waiting() - before;
        self.tell_host(host, whole, sim);
        self.store(host, sim);
    }

    /// So many more pieces wait for the host.
    pub(super) fn tell_host(&mut self, host: u16, pieces: usize, sim: &mut Sim) {
        for _ in 0..pieces {
            let station = &mut self.stations[usize::from(host)];
            if station.parameters.notice.by == By::Poll {
                if station.waiting == Waiting::Message {
                    self.begin_poll(host, sim);
                }
                continue;
            }
            if !station.levels.is_idle(Level::Handler) {
                continue;
            }
            match station.coalescer.note(sim.now()) {
                Notice::Interrupt => self.interrupt(host, sim),
                Notice::Arm(due) => self.until(due, Part::Wait, host, What::Due, sim),
                Notice::Wait => {}
            }
        }
    }

    pub(super) fn interrupt_due(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        if station.coalescer.handle_timer(sim.now()) && station.levels.is_idle(Level::Handler) {
            self.interrupt(host, sim);
        }
    }

    fn interrupt(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.interrupts += 1;
        let cost = station.costs.interrupt;
        self.begin(host, Level::Handler, Doing::Entry, cost, sim);
    }

    fn begin_poll(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.waiting = Waiting::No;
        let cost = station.costs.poll;
        self.begin(host, Level::Program, Doing::Poll, cost, sim);
    }

    /// Takes the next whole piece from the card, or is done with them.
    pub(super) fn take_piece(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let descriptor_bytes = self.of(host).card.descriptor.as_bytes();
        let station = &mut self.stations[usize::from(host)];
        let Some(piece) = station.receiver.take() else {
            self.all_taken(host, level, sim);
            return;
        };
        let words = station.parameters.receiver().taker == Taker::Processor;
        let left_bytes = if words {
            piece.bytes + descriptor_bytes
        } else {
            0
        };
        station.taking[level as usize] = Some(Taking { piece, left_bytes });
        self.read(host, level, sim);
    }

    /// Reads the next words of the piece, or lets the driver look at it.
    fn read(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let burst_bytes = self.of(host).word_burst_bytes();
        let station = &mut self.stations[usize::from(host)];
        let Some(taking) = station.taking[level as usize] else {
            return;
        };
        if taking.left_bytes == 0 {
            let cost = station.costs.receive(taking.piece.bytes);
            self.begin(host, level, Doing::TakeDriver, cost, sim);
            return;
        }
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

    pub(super) fn sum_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let bytes = station.taking[level as usize].map_or(0, |taking| taking.piece.bytes);
        if station.parameters.card.checksum == Checksum::Processor {
            let cost = station.costs.checksum(bytes);
            self.begin(host, level, Doing::TakeSum, cost, sim);
        } else {
            self.piece_taken(host, level, sim);
        }
    }

    pub(super) fn piece_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        let socket_bytes = self.of(host).driver.socket.as_bytes();
        let station = &mut self.stations[usize::from(host)];
        if let Some(Taking { piece, .. }) = station.taking[level as usize].take() {
            station.receiver.release(&piece);
            let message = &mut self.messages[piece.message as usize];
            message.got_bytes += piece.bytes;
            if piece.last && message.got_bytes == message.bytes {
                // The first that waits is always taken, however long it is.
                let after = station.inbox_bytes + message.bytes;
                if after <= socket_bytes || station.inbox.is_empty() {
                    station.inbox_bytes = after;
                    station.inbox.push_back(piece.message);
                } else {
                    message.fate = Fate::Lost(Place::Socket);
                    if self.handed.is_some() {
                        self.lost.push(piece.message);
                    }
                }
            }
        }
        if self.of(host).host.processors == 2 && level == Level::Handler {
            self.wake(host, sim);
        }
        let whole = !self.stations[usize::from(host)].inbox.is_empty();
        if level == Level::Program && whole {
            self.look_for_message(host, sim);
        } else {
            self.take_piece(host, level, sim);
        }
        // The buffer is free again.
        self.store(host, sim);
    }

    fn all_taken(&mut self, host: u16, level: Level, sim: &mut Sim) {
        if level == Level::Program {
            self.look_for_message(host, sim);
            return;
        }
        let now = sim.now();
        let station = &mut self.stations[usize::from(host)];
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
            self.until(end, Part::Wake, host, What::Woken, sim);
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
        if station.parameters.notice.by == By::Interrupt {
            let cost = station.costs.receive_call;
            self.begin(host, Level::Program, Doing::ReceiveCall, cost, sim);
        } else if !station.inbox.is_empty() {
            self.copy_out(host, sim);
        } else if station.receiver.waiting() > 0 {
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
        let copies = self.of(host).driver.receive_copies;
        let station = &mut self.stations[usize::from(host)];
        let Some(&message) = station.inbox.front() else {
            return;
        };
        let bytes = self.messages[message as usize].bytes;
        let copy = station.memory.copy(bytes, bytes);
        let cost = copy.checked_mul(copies).unwrap_or(Duration::MAX);
        self.begin(host, Level::Program, Doing::ReceiveCopy, cost, sim);
    }

    pub(super) fn received(&mut self, host: u16) {
        let station = &mut self.stations[usize::from(host)];
        let Some(number) = station.inbox.pop_front() else {
            return;
        };
        station.received_last = true;
        let message = &mut self.messages[number as usize];
        station.inbox_bytes -= message.bytes;
        message.fate = Fate::Received;
        self.tell(host, Note::Received(number));
    }
}
