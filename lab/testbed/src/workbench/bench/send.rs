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
use barewire_units::{Duration, Instant};

use super::super::parameters::{Checksum, Parameters, Send};
use super::super::path::Part;
use super::station::{At, Card, Doing, Fetching, Sending, Station, Waiting};
use super::{Bench, Message, Note, Sim, What};

impl Bench {
    pub(super) fn begin_send(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(message) = station.outbox.pop_front() else {
            return;
        };
        let cost = station.costs.send_call;
        let Message { to, card, .. } = self.messages[message as usize];
        let card = card.unwrap_or_else(|| station.way(to));
        let from = station.card(card).id;
        station.sending = Some(Sending::new((message, to), (card, from)));
        if station.polls {
            self.next_piece(host, sim);
        } else {
            self.begin(host, Level::Program, Doing::SendCall, cost, sim);
        }
    }

    /// Begins the next piece of the message, or returns.
    pub(super) fn next_piece(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(mut sending) = station.sending else {
            return;
        };
        let message = self.messages[sending.message as usize];
        let Card { parameters, .. } = station.card(sending.card);
        if !sending.next_piece(message.bytes, parameters) {
            let cost = station.costs.send_return;
            if station.polls {
                self.send_returned(host);
            } else {
                self.begin(host, Level::Program, Doing::SendReturn, cost, sim);
            }
            return;
        }
        let bytes = sending.piece.bytes;
        let copies = parameters.driver.send_copies;
        station.sending = Some(sending);
        if copies == 0 {
            self.sum_piece(host, sim);
            return;
        }
        let copy = station.memory.copy(bytes, message.bytes);
        let cost = copy.checked_mul(copies).unwrap_or(Duration::MAX);
        self.begin(host, Level::Program, Doing::SendCopy, cost, sim);
    }

    pub(super) fn sum_piece(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = station.sending else {
            return;
        };
        let parameters = &station.card(sending.card).parameters;
        if parameters.card.checksum != Checksum::Processor {
            self.find_slot(host, sim);
            return;
        }
        let cost = station.costs.checksum(sending.piece.bytes);
        self.begin(host, Level::Program, Doing::SendSum, cost, sim);
    }

    /// The driver's turn, once the card takes another piece.
    pub(super) fn find_slot(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = station.sending else {
            return;
        };
        if !station.card(sending.card).takes_piece() {
            station.waiting = Waiting::Slot;
            return;
        }
        station.waiting = Waiting::No;
        let cost = station.driver_cost(&sending, Level::Program);
        self.begin(host, Level::Program, Doing::SendDriver, cost, sim);
    }

    pub(super) fn hand_over(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = station.sending else {
            return;
        };
        let at = At {
            host,
            card: sending.card,
        };
        if station.card(sending.card).start(&sending) {
            self.fetch(at, sim);
            self.next_piece(host, sim);
        } else {
            self.fill(host, sim);
        }
    }

    /// Moves the next burst of the piece into the FIFO, once there is room.
    fn fill(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(sending) = station.sending else {
            return;
        };
        let Some(bytes) = station.card(sending.card).fill_bytes(&sending) else {
            station.waiting = Waiting::Room;
            return;
        };
        station.waiting = Waiting::No;
        let cost = station.fill_cost(sending.card, bytes, sim.now());
        self.begin(host, Level::Program, Doing::Fill(bytes), cost, sim);
    }

    pub(super) fn filled(&mut self, host: u16, bytes: u64, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(mut sending) = station.sending else {
            return;
        };
        let done = station.card(sending.card).filled(&mut sending, bytes);
        station.sending = Some(sending);
        let at = At {
            host,
            card: sending.card,
        };
        self.transmit(at, sim);
        if done {
            // What others wait for goes first: the program takes the card again at once.
            self.kick(host, sim);
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
    pub(super) fn fetch(&mut self, at: At, sim: &mut Sim) {
        let burst_bytes = self.of(at).fill_bytes();
        let card = self.card(at);
        let (None, Some(next)) = (card.fetch_burst, card.fetching.front()) else {
            return;
        };
        let bytes = burst_bytes.min(next.left_bytes);
        // The descriptor comes first.
        let payload = next.payload_bytes - (next.left_bytes - bytes).min(next.payload_bytes);
        if payload > card.transmitter.room_bytes() {
            return;
        }
        card.fetch_burst = Some((bytes, payload));
        let bus = &mut self.stations[usize::from(at.host)].bus;
        let end = bus.burst(sim.now(), bytes);
        self.until(end, Part::Bus, at, What::Fetched, sim);
    }

    pub(super) fn fetched(&mut self, at: At, sim: &mut Sim) {
        let card = self.card(at);
        let burst = card.fetch_burst.take();
        if let (Some((bytes, payload)), Some(next)) = (burst, card.fetching.front_mut()) {
            next.left_bytes -= bytes;
            next.payload_bytes -= payload;
            if next.left_bytes == 0 {
                card.fetching.pop_front();
            }
            if payload > 0 {
                card.transmitter.arrive(payload);
            }
        }
        self.transmit(at, sim);
        self.fetch(at, sim);
    }

    /// The FIFO has room again, and perhaps a slot is free.
    pub(super) fn room_made(&mut self, at: At, slot_free: bool, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(at.host)];
        if slot_free {
            let card = station.card(at.card);
            card.slots_used = card.slots_used.saturating_sub(1);
        }
        // What has come for others goes first.
        self.kick(at.host, sim);
        let station = &mut self.stations[usize::from(at.host)];
        let is_here = |sending: &Sending| sending.card == at.card;
        if station.sending.as_ref().is_some_and(is_here) {
            match station.waiting {
                Waiting::Slot if slot_free => self.find_slot(at.host, sim),
                Waiting::Room => self.fill(at.host, sim),
                _ => {}
            }
        }
        self.fetch(at, sim);
    }
}

impl Sending {
    /// A message, and whom it is for; the card that it leaves by, and what that calls itself.
    pub(super) const fn new((message, to): (u32, u16), (card, from): (u8, u16)) -> Self {
        Self {
            message,
            card,
            piece: Piece {
                message,
                from,
                to,
                offset: 0,
                bytes: 0,
                last: false,
            },
            filled_bytes: 0,
        }
    }

    /// Goes to the next piece of a message of `message_bytes`; `false` behind the last.
    pub(super) fn next_piece(&mut self, message_bytes: u64, parameters: &Parameters) -> bool {
        let offset = self.piece.offset + self.piece.bytes;
        let left = message_bytes - offset;
        if left == 0 {
            return false;
        }
        let bytes = parameters.piece_bytes(left);
        self.piece.offset = offset;
        self.piece.bytes = bytes;
        self.piece.last = bytes == left;
        self.filled_bytes = 0;
        true
    }
}

impl Card {
    /// Whether it takes another piece: it has a slot, or nobody else moves words to it.
    pub(super) fn takes_piece(&self) -> bool {
        match self.parameters.card.send {
            Send::Dma => self.slots_used < self.parameters.card.transmit_slots,
            Send::Words | Send::Aperture => self.filled_by.is_none(),
        }
    }

    /// The driver has the piece ready; whether the card fetches it by itself.
    pub(super) fn start(&mut self, sending: &Sending) -> bool {
        self.transmitter.start(sending.piece);
        let fetches = self.parameters.card.send == Send::Dma;
        if fetches {
            self.fetching.push_back(Fetching {
                left_bytes: self.parameters.card.descriptor.as_bytes() + sending.piece.bytes,
                payload_bytes: sending.piece.bytes,
            });
        }
        fetches
    }

    /// What the processor moves next of the piece, if the FIFO has room for it.
    pub(super) fn fill_bytes(&self, sending: &Sending) -> Option<u64> {
        let descriptor_bytes = self.parameters.card.descriptor.as_bytes();
        let whole = descriptor_bytes + sending.piece.bytes;
        let bytes = self.parameters.fill_bytes();
        let bytes = bytes.min(whole - sending.filled_bytes);
        let payload = payload_of(sending.filled_bytes, bytes, descriptor_bytes);
        (payload <= self.transmitter.room_bytes()).then_some(bytes)
    }

    /// The processor has moved `bytes` of the piece; whether that was all.
    pub(super) fn filled(&mut self, sending: &mut Sending, bytes: u64) -> bool {
        let descriptor_bytes = self.parameters.card.descriptor.as_bytes();
        let payload = payload_of(sending.filled_bytes, bytes, descriptor_bytes);
        sending.filled_bytes += bytes;
        self.transmitter.arrive(payload);
        let done = sending.filled_bytes == descriptor_bytes + sending.piece.bytes;
        if done {
            self.filled_by = None;
        }
        done
    }
}

impl Station {
    /// The driver of a card that takes another piece makes it ready: what that costs.
    pub(super) fn driver_cost(&mut self, sending: &Sending, level: Level) -> Duration {
        let bytes = sending.piece.bytes;
        let cost = self.costs.send(bytes);
        let card = &mut self.cards[usize::from(sending.card)];
        match card.parameters.card.send {
            Send::Dma => {
                card.slots_used += 1;
                cost.saturating_add(self.memory.write_back(bytes))
            }
            Send::Words | Send::Aperture => {
                card.filled_by = Some(level);
                cost
            }
        }
    }

    /// The processor moves `bytes` to a card: what that costs, with the wait for the bus.
    pub(super) fn fill_cost(&mut self, card: u8, bytes: u64, now: Instant) -> Duration {
        let end = match self.cards[usize::from(card)].parameters.card.send {
            Send::Aperture => self.bus.store(now, bytes),
            Send::Words | Send::Dma => self.bus.write(now, bytes),
        };
        end.saturating_duration_since(now)
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
