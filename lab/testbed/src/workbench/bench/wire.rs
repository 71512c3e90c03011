//! From the transmit FIFO to the receive FIFO: cards, links and the switch.

use barewire_models::workbench::{Frame, Missing};
use barewire_units::{Duration, Instant};

use super::super::capture;
use super::super::path::{Part, StepId};
use super::station::At;
use super::{Bench, Fate, Handed, Place, Sim, What};

impl Bench {
    /// Lets the next frame go, if there is one and its way is free.
    pub(super) fn transmit(&mut self, at: At, sim: &mut Sim) {
        let frame_time = self.of(at).card.frame;
        let card = self.card(at);
        if card.leaving.is_none() {
            let next = if frame_time.is_zero() {
                card.transmitter.poll()
            } else {
                card.made.take()
            };
            if let Some(frame) = next {
                self.leave(at, frame, sim);
            }
        }
        let card = self.card(at);
        if frame_time.is_zero() || card.making.is_some() || card.made.is_some() {
            return;
        }
        if let Some(frame) = card.transmitter.poll() {
            card.making = Some(frame);
            let end = sim.now().saturating_add(frame_time);
            self.until(end, Part::Card, at, What::Made, sim);
        }
    }

    pub(super) fn frame_made(&mut self, at: At, sim: &mut Sim) {
        let card = self.card(at);
        card.made = card.making.take();
        self.transmit(at, sim);
    }

    fn leave(&mut self, at: At, frame: Frame, sim: &mut Sim) {
        let (now, framing) = (sim.now(), self.card(at).framing);
        if let Some(capture) = self.captures.get_mut(usize::from(at.host)) {
            capture.record(now, || capture::bytes(&framing, &frame, now));
        }
        let time = framing.frame_time(frame.body_bytes);
        self.card(at).leaving = Some(frame);
        if let Some(handed) = &mut self.handed {
            let step = self.cause;
            handed.push_back(Handed::Begins { at, frame, step });
            return;
        }
        let card = self.card(at);
        card.wire_busy = card.wire_busy.saturating_add(time);
        if self.goes_through_early(at) {
            self.travel(at, frame, now, self.cause, sim);
        }
        let end = now.saturating_add(time);
        self.until(end, Part::Wire, at, What::Sent, sim);
    }

    /// The switch passes a frame on before all of it has come.
    fn goes_through_early(&self, at: At) -> bool {
        !self.ports.is_empty() && self.of(at).switch.cut_through
    }

    pub(super) fn frame_sent(&mut self, at: At, sim: &mut Sim) {
        let card = self.card(at);
        let Some(frame) = card.leaving.take() else {
            return;
        };
        card.transmitter.sent(&frame);
        if let Some(handed) = &mut self.handed {
            let step = self.cause;
            handed.push_back(Handed::Ends { at, frame, step });
        } else if !self.goes_through_early(at) {
            self.travel(at, frame, sim.now(), self.cause, sim);
        }
        self.room_made(at, frame.last, sim);
        self.transmit(at, sim);
    }

    /// From the card to the switch and through it, or to the other card.
    fn travel(&mut self, of: At, frame: Frame, from: Instant, cause: StepId, sim: &mut Sim) {
        let (latency, way) = self.card_and_way(of);
        let mut at = from;
        let mut step = cause;
        let switch_latency = self.of(of).switch.latency;
        let mut delay = |part, time: Duration| {
            step = self.paths.begin(part, of.host, at, step);
            at = at.saturating_add(time);
        };
        delay(Part::Card, latency);
        delay(Part::Way, way);
        if self.ports.is_empty() {
            let to = At::first(frame.piece.to);
            delay(Part::Card, latency);
            self.card(to).to_card.push_back(frame);
            self.at(at, to, What::Arrived, step, sim);
        } else {
            delay(Part::Switch, switch_latency);
            self.card(of).to_switch.push_back(frame);
            self.at(at, of, What::Switched, step, sim);
        }
    }

    /// A frame of a card is at its output.
    pub(super) fn frame_switched(&mut self, at: At, sim: &mut Sim) {
        let Some(frame) = self.card(at).to_switch.pop_front() else {
            return;
        };
        let to = frame.piece.to;
        let bytes = self.card(at).framing.frame_bytes(frame.body_bytes);
        if self.ports[usize::from(to)].handle_frame(frame, bytes) {
            self.output(At::first(to), sim);
        } else {
            self.lose(&frame, Place::Switch);
        }
    }

    fn output(&mut self, to: At, sim: &mut Sim) {
        let Some(frame) = self.ports[usize::from(to.host)].poll() else {
            return;
        };
        let (now, framing) = (sim.now(), self.card(to).framing);
        let link = self.stations.len() + usize::from(to.host);
        if let Some(capture) = self.captures.get_mut(link) {
            capture.record(now, || capture::bytes(&framing, &frame, now));
        }
        self.card(to).to_card.push_back(frame);
        let end = now.saturating_add(framing.frame_time(frame.body_bytes));
        self.until(end, Part::Wire, to, What::PortSent, sim);
    }

    pub(super) fn port_sent(&mut self, to: At, sim: &mut Sim) {
        self.ports[usize::from(to.host)].sent();
        let (latency, way) = self.card_and_way(to);
        let step = self.step(Part::Way, to.host, sim.now());
        let at = sim.now().saturating_add(way);
        let step = self.paths.begin(Part::Card, to.host, at, step);
        let at = at.saturating_add(latency);
        self.at(at, to, What::Arrived, step, sim);
        self.output(to, sim);
    }

    pub(super) fn frame_arrived(&mut self, at: At, sim: &mut Sim) {
        let look_time = self.of(at).card.frame;
        let card = self.card(at);
        let Some(frame) = card.to_card.pop_front() else {
            return;
        };
        match card.receiver.handle_frame(&frame) {
            Err(Missing::Room) => self.lose(&frame, Place::Fifo),
            Err(Missing::Buffer) => self.lose(&frame, Place::Buffers),
            Ok(()) if look_time.is_zero() => self.take_in(at, frame, sim),
            Ok(()) => {
                card.looking.push_back(frame);
                if card.looking.len() == 1 {
                    self.look(at, sim);
                }
            }
        }
    }

    fn look(&mut self, at: At, sim: &mut Sim) {
        let end = sim.now().saturating_add(self.of(at).card.frame);
        self.until(end, Part::Card, at, What::Looked, sim);
    }

    pub(super) fn frame_looked_at(&mut self, at: At, sim: &mut Sim) {
        let card = self.card(at);
        let Some(frame) = card.looking.pop_front() else {
            return;
        };
        if !card.looking.is_empty() {
            self.look(at, sim);
        }
        self.take_in(at, frame, sim);
    }

    fn take_in(&mut self, at: At, frame: Frame, sim: &mut Sim) {
        let receiver = &mut self.card(at).receiver;
        let before = receiver.waiting();
        receiver.store(frame);
        let whole = receiver.waiting() - before;
        self.tell_host(at, whole, sim);
        self.store(at, sim);
    }

    /// A frame is lost, and with it its message: nothing is sent again.
    pub(crate) fn lose(&mut self, frame: &Frame, place: Place) {
        let message = &mut self.messages[frame.piece.message as usize];
        if message.fate == Fate::UnderWay {
            message.fate = Fate::Lost(place);
            if self.handed.is_some() {
                self.lost.push(frame.piece.message);
            }
        }
    }

    /// The latency of a card, and the way to the next end.
    fn card_and_way(&self, at: At) -> (Duration, Duration) {
        let parameters = self.of(at);
        (parameters.card.latency, parameters.propagation())
    }
}
