//! From the program to the transmit FIFO.
//!
//! ```text
//! call --> for each piece: copies --> sum --> [wait for a slot] --> driver
//!          --> the card fetches it while the program goes on, or
//!          --> the processor fills the FIFO, burst by burst, [waiting for room] --> return
//! ```
//! A program that polls makes no call. What the driver writes back so that the card can read
//! it is the driver's time.

use barewire_models::host::Level;
use barewire_models::workbench::Piece;
use barewire_units::Duration;

use super::super::parameters::{By, Checksum, Send};
use super::super::path::Part;
use super::station::{Doing, Fetching, Sending, Waiting};
use super::{Bench, Note, Sim, What};

impl Bench {
    pub(super) fn begin_send(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(message) = station.outbox.pop_front() else {
            return;
        };
        let cost = station.costs.send_call;
        let to = self.messages[message as usize].to;
        station.sending = Some(Sending {
            message,
            piece: Piece {
                message,
                from: host,
                to,
                offset: 0,
                bytes: 0,
                last: false,
            },
            filled_bytes: 0,
        });
        if station.parameters.notice.by == By::Poll {
            self.next_piece(host, sim);
        } else {
            self.begin(host, Level::Program, Doing::SendCall, cost, sim);
        }
    }

    /// Begins the next piece of the message, or returns.
    pub(super) fn next_piece(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = &mut station.sending else {
            return;
        };
        let message = self.messages[sending.message as usize];
        let offset = sending.piece.offset + sending.piece.bytes;
        let left = message.bytes - offset;
        if left == 0 {
            let cost = station.costs.send_return;
            if station.parameters.notice.by == By::Poll {
                self.send_returned(host);
            } else {
                self.begin(host, Level::Program, Doing::SendReturn, cost, sim);
            }
            return;
        }
        let bytes = station.parameters.piece_bytes(left);
        sending.piece.offset = offset;
        sending.piece.bytes = bytes;
        sending.piece.last = bytes == left;
        sending.filled_bytes = 0;
        let copies = station.parameters.driver.send_copies;
        if copies == 0 {
            self.sum_piece(host, sim);
            return;
        }
        let copy = station.memory.copy(bytes, message.bytes);
        let cost = copy.checked_mul(copies).unwrap_or(Duration::MAX);
        self.begin(host, Level::Program, Doing::SendCopy, cost, sim);
    }

    pub(super) fn sum_piece(&mut self, host: u16, sim: &mut Sim) {
        if self.of(host).card.checksum != Checksum::Processor {
            self.find_slot(host, sim);
            return;
        }
        let station = &self.stations[usize::from(host)];
        let bytes = station.sending.map_or(0, |sending| sending.piece.bytes);
        let cost = station.costs.checksum(bytes);
        self.begin(host, Level::Program, Doing::SendSum, cost, sim);
    }

    /// The driver's turn, once the card takes another piece.
    pub(super) fn find_slot(&mut self, host: u16, sim: &mut Sim) {
        let dma = self.of(host).card.send == Send::Dma;
        let station = &mut self.stations[usize::from(host)];
        if dma && station.slots_used >= station.parameters.card.transmit_slots {
            station.waiting = Waiting::Slot;
            return;
        }
        station.waiting = Waiting::No;
        let bytes = station.sending.map_or(0, |sending| sending.piece.bytes);
        let mut cost = station.costs.send(bytes);
        if dma {
            station.slots_used += 1;
            cost = cost.saturating_add(station.memory.write_back(bytes));
        }
        self.begin(host, Level::Program, Doing::SendDriver, cost, sim);
    }

    pub(super) fn hand_over(&mut self, host: u16, sim: &mut Sim) {
        let descriptor_bytes = self.of(host).card.descriptor.as_bytes();
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = station.sending else {
            return;
        };
        station.transmitter.start(sending.piece);
        if station.parameters.card.send != Send::Dma {
            self.fill(host, sim);
            return;
        }
        station.fetching.push_back(Fetching {
            left_bytes: descriptor_bytes + sending.piece.bytes,
            payload_bytes: sending.piece.bytes,
        });
        self.fetch(host, sim);
        self.next_piece(host, sim);
    }

    /// Moves the next burst of the piece into the FIFO, once there is room.
    fn fill(&mut self, host: u16, sim: &mut Sim) {
        let descriptor_bytes = self.of(host).card.descriptor.as_bytes();
        let burst_bytes = self.of(host).fill_bytes();
        let through = self.of(host).card.send == Send::Aperture;
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = &station.sending else {
            return;
        };
        let whole = descriptor_bytes + sending.piece.bytes;
        let bytes = burst_bytes.min(whole - sending.filled_bytes);
        let payload = payload_of(sending.filled_bytes, bytes, descriptor_bytes);
        if payload > station.transmitter.room_bytes() {
            station.waiting = Waiting::Room;
            return;
        }
        station.waiting = Waiting::No;
        let end = if through {
            station.bus.store(sim.now(), bytes)
        } else {
            station.bus.write(sim.now(), bytes)
        };
        let cost = end.saturating_duration_since(sim.now());
        self.begin(host, Level::Program, Doing::Fill(bytes), cost, sim);
    }

    pub(super) fn filled(&mut self, host: u16, bytes: u64, sim: &mut Sim) {
        let descriptor_bytes = self.of(host).card.descriptor.as_bytes();
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = &mut station.sending else {
            return;
        };
        let payload = payload_of(sending.filled_bytes, bytes, descriptor_bytes);
        sending.filled_bytes += bytes;
        let done = sending.filled_bytes == descriptor_bytes + sending.piece.bytes;
        station.transmitter.arrive(payload);
        self.transmit(host, sim);
        if done {
            self.next_piece(host, sim);
        } else {
            self.fill(host, sim);
        }
    }

    pub(super) fn send_returned(&mut self, host: u16) {
        if let Some(sending) = self.stations[usize::from(host)].sending.take() {
            self.tell(host, Note::Returned(sending.message));
        }
    }

    /// The card fetches the next burst, if it has one to fetch and room for it.
    pub(super) fn fetch(&mut self, host: u16, sim: &mut Sim) {
        let burst_bytes = self.of(host).fill_bytes();
        let station = &mut self.stations[usize::from(host)];
        let (None, Some(next)) = (station.fetch_burst, station.fetching.front()) else {
            return;
        };
        let bytes = burst_bytes.min(next.left_bytes);
        // The descriptor comes first.
        let payload = next.payload_bytes - (next.left_bytes - bytes).min(next.payload_bytes);
        if payload > station.transmitter.room_bytes() {
            return;
        }
        station.fetch_burst = Some((bytes, payload));
        let end = station.bus.burst(sim.now(), bytes);
        self.until(end, Part::Bus, host, What::Fetched, sim);
    }

    pub(super) fn fetched(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let burst = station.fetch_burst.take();
        if let (Some((bytes, payload)), Some(next)) = (burst, station.fetching.front_mut()) {
            next.left_bytes -= bytes;
            next.payload_bytes -= payload;
            if next.left_bytes == 0 {
                station.fetching.pop_front();
            }
            if payload > 0 {
                station.transmitter.arrive(payload);
            }
        }
        self.transmit(host, sim);
        self.fetch(host, sim);
    }

    /// The FIFO has room again, and perhaps a slot is free.
    pub(super) fn room_made(&mut self, host: u16, slot_free: bool, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        if slot_free {
            station.slots_used = station.slots_used.saturating_sub(1);
        }
        match station.waiting {
            Waiting::Slot if slot_free => self.find_slot(host, sim),
            Waiting::Room => self.fill(host, sim),
            _ => {}
        }
        self.fetch(host, sim);
    }
}

/// How many of the next `bytes` are the piece's, when `before` bytes have gone before them
/// and the descriptor goes first.
fn payload_of(before: u64, bytes: u64, descriptor_bytes: u64) -> u64 {
    (before + bytes).saturating_sub(descriptor_bytes.max(before))
}

#[cfg(test)]
mod tests {
    use super::payload_of;

    #[test]
    fn the_descriptor_goes_first() {
        assert_eq!(payload_of(0, 64, 16), 48);
        assert_eq!(payload_of(0, 8, 16), 0);
        assert_eq!(payload_of(8, 16, 16), 8);
        assert_eq!(payload_of(64, 64, 16), 64);
        assert_eq!(payload_of(0, 64, 0), 64);
    }
}
