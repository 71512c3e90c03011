//! Messages that come for others, at a host that passes them on.
//!
//! ```text
//! whole message --> queue of the card towards the receiver --> for each piece: driver
//!           --> the card fetches it while the handler goes on, or
//!           --> the handler fills the FIFO, burst by burst
//! ```
//! The handler does it, when the message is whole and before it takes the next piece: no program
//! runs, nothing is copied between a program and its system, nobody sums. A card that has no slot
//! or no room is not waited for: the handler goes on, and comes back without an interrupt when the
//! card has sent something. Words of a piece are not mixed with those of another: as long as the
//! program fills a card, the handler leaves that one alone, and the other way round.

use barewire_models::host::Level;

use super::super::parameters::Send;
use super::station::{At, Card, Doing, Sending, Waiting};
use super::{Bench, Fate, Handed, Place, Sim};

impl Bench {
    /// A whole message has come for another host.
    pub(super) fn pass_on(&mut self, host: u16, number: u32) {
        let station = &mut self.stations[usize::from(host)];
        let message = &mut self.messages[number as usize];
        // The next host gets all of it anew.
        message.got_bytes = 0;
        let most_bytes = station.forwards;
        let card = station.way(message.to);
        let queue = &mut station.card(card).queue;
        let after = queue.held_bytes + message.bytes;
        // The first that waits is always taken, however long it is.
        let has_room = |most_bytes| after <= most_bytes || queue.held_bytes == 0;
        if !most_bytes.is_some_and(has_room) {
            station.forwarded.lost += 1;
            message.fate = Fate::Lost(Place::Switch);
            self.lost.push(number);
            return;
        }
        queue.held_bytes = after;
        queue.waiting.push_back(number);
        let highest_bytes = &mut station.forwarded.highest_bytes;
        *highest_bytes = after.max(*highest_bytes);
        if let Some(handed) = &mut self.handed {
            handed.push_back(Handed::Passed { message: number });
        }
    }

    /// Lets the handler go on with what waits for a card, if it has nothing else to do.
    pub(super) fn kick(&mut self, host: u16, sim: &mut Sim) {
        let station = &self.stations[usize::from(host)];
        if station.forwards.is_some() && station.levels.is_idle(Level::Handler) {
            self.forward_next(host, sim);
        }
    }

    /// The handler, which is idle, begins the next thing that can be done for what waits, from
    /// one card to the next; whether there was one.
    pub(super) fn forward_next(&mut self, host: u16, sim: &mut Sim) -> bool {
        let station = &mut self.stations[usize::from(host)];
        if station.forwards.is_none() {
            return false;
        }
        let mut turn = station.turn(station.forwarding);
        let Some(number) = turn.find(|card| station.card(*card).can_forward()) else {
            return false;
        };
        station.forwarding = number;
        let card = station.card(number);
        if let (Some(sending), Some(Level::Handler)) = (card.queue.now, card.filled_by) {
            // It could go on, so there is room.
            let bytes = card.fill_bytes(&sending).unwrap_or_default();
            let cost = station.fill_cost(number, bytes, sim.now());
            self.begin(host, Level::Handler, Doing::ForwardFill(bytes), cost, sim);
            return true;
        }
        let mut sending = match card.queue.now {
            Some(sending) => sending,
            None => {
                let Some(message) = card.queue.waiting.pop_front() else {
                    return false;
                };
                let to = self.messages[message as usize].to;
                Sending::new((message, to), (number, card.id))
            }
        };
        let bytes = self.messages[sending.message as usize].bytes;
        // A message with no piece left is not under way any more.
        sending.next_piece(bytes, &card.parameters);
        card.queue.now = Some(sending);
        let cost = station.driver_cost(&sending, Level::Handler);
        self.begin(host, Level::Handler, Doing::ForwardDriver, cost, sim);
        true
    }

    /// The driver has a piece ready that is passed on.
    pub(super) fn forward_handed_over(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let at = At {
            host,
            card: station.forwarding,
        };
        let card = station.card(at.card);
        if let Some(sending) = card.queue.now {
            if card.start(&sending) {
                self.forward_ended(at);
                self.fetch(at, sim);
            }
        }
        self.handler_goes_on(host, sim);
    }

    /// The handler has moved so many bytes of it to the card.
    pub(super) fn forward_filled(&mut self, host: u16, bytes: u64, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let at = At {
            host,
            card: station.forwarding,
        };
        let card = station.card(at.card);
        if let Some(mut sending) = card.queue.now {
            let done = card.filled(&mut sending, bytes);
            card.queue.now = Some(sending);
            self.transmit(at, sim);
            if done {
                self.forward_ended(at);
                self.free_for_program(at, sim);
            }
        }
        self.handler_goes_on(host, sim);
    }

    /// A piece is the card's matter now; with the last, its message is.
    fn forward_ended(&mut self, at: At) {
        let station = &mut self.stations[usize::from(at.host)];
        let queue = &mut station.card(at.card).queue;
        if let Some(sending) = queue.now.filter(|sending| sending.piece.last) {
            queue.now = None;
            queue.held_bytes -= self.messages[sending.message as usize].bytes;
            station.forwarded.messages += 1;
        }
    }

    /// The handler moves no more words to the card: a program that waits for that goes on.
    fn free_for_program(&mut self, at: At, sim: &mut Sim) {
        let station = &self.stations[usize::from(at.host)];
        let is_here = |sending: &Sending| sending.card == at.card;
        if station.waiting == Waiting::Slot && station.sending.as_ref().is_some_and(is_here) {
            self.find_slot(at.host, sim);
        }
    }
}

impl Card {
    /// Whether the handler can do something for what waits for this card.
    fn can_forward(&self) -> bool {
        match (&self.queue.now, self.parameters.card.send) {
            (Some(sending), Send::Words | Send::Aperture)
                if self.filled_by == Some(Level::Handler) =>
            {
                self.fill_bytes(sending).is_some()
            }
            (now, _) => {
                let has_some = now.is_some() || !self.queue.waiting.is_empty();
                has_some && self.takes_piece()
            }
        }
    }
}
