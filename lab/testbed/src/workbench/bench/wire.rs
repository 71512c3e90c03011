//! From the transmit FIFO to the receive FIFO: cards, links and the switch.

use barewire_models::workbench::{Frame, Missing};
use barewire_units::{Duration, Instant};

use super::super::capture;
use super::super::path::{Part, StepId};
use super::{Bench, Fate, Handed, Place, Sim, What};

impl Bench {
    /// Lets the next frame go, if there is one and its way is free.
    pub(super) fn transmit(&mut self, host: u16, sim: &mut Sim) {
        let frame_time = self.of(host).card.frame;
        let station = &mut self.stations[usize::from(host)];
        if station.leaving.is_none() {
            let next = if frame_time.is_zero() {
                station.transmitter.poll()
            } else {
                station.made.take()
            };
            if let Some(frame) = next {
                self.leave(host, frame, sim);
            }
        }
        let station = &mut self.stations[usize::from(host)];
        if frame_time.is_zero() || station.making.is_some() || station.made.is_some() {
            return;
        }
        if let Some(frame) = station.transmitter.poll() {
            station.making = Some(frame);
            let end = sim.now().saturating_add(frame_time);
            self.until(end, Part::Card, host, What::Made, sim);
        }
    }

    pub(super) fn frame_made(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        station.made = station.making.take();
        self.transmit(host, sim);
    }

    fn leave(&mut self, host: u16, frame: Frame, sim: &mut Sim) {
        let (now, framing) = (sim.now(), self.station(host).framing);
        if let Some(capture) = self.captures.get_mut(usize::from(host)) {
            capture.record(now, || capture::bytes(&framing, &frame, now));
        }
        let time = framing.frame_time(frame.body_bytes);
        let station = &mut self.stations[usize::from(host)];
        station.leaving = Some(frame);
        if let Some(handed) = &mut self.handed {
            let step = self.cause;
            handed.push_back(Handed::Begins { host, frame, step });
            return;
        }
        station.wire_busy = station.wire_busy.saturating_add(time);
        if self.goes_through_early(host) {
            self.travel(host, frame, now, self.cause, sim);
        }
        let end = now.saturating_add(time);
        self.until(end, Part::Wire, host, What::Sent, sim);
    }

    /// The switch passes a frame on before all of it has come.
    fn goes_through_early(&self, host: u16) -> bool {
        !self.ports.is_empty() && self.of(host).switch.cut_through
    }

    pub(super) fn frame_sent(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(frame) = station.leaving.take() else {
            return;
        };
        station.transmitter.sent(&frame);
        if let Some(handed) = &mut self.handed {
            let step = self.cause;
            handed.push_back(Handed::Ends { host, frame, step });
        } else if !self.goes_through_early(host) {
            self.travel(host, frame, sim.now(), self.cause, sim);
        }
        self.room_made(host, frame.last, sim);
        self.transmit(host, sim);
    }

    /// From the card to the switch and through it, or to the other card.
    fn travel(&mut self, host: u16, frame: Frame, from: Instant, cause: StepId, sim: &mut Sim) {
        let (latency, way) = self.card_and_way(host);
        let mut at = from;
        let mut step = cause;
        let switch_latency = self.of(host).switch.latency;
        let mut delay = |part, time: Duration| {
            step = self.paths.begin(part, host, at, step);
            at = at.saturating_add(time);
        };
        delay(Part::Card, latency);
        delay(Part::Way, way);
        if self.ports.is_empty() {
            let to = frame.piece.to;
            delay(Part::Card, latency);
            self.stations[usize::from(to)].to_card.push_back(frame);
            self.at(at, to, What::Arrived, step, sim);
        } else {
            delay(Part::Switch, switch_latency);
            self.stations[usize::from(host)].to_switch.push_back(frame);
            self.at(at, host, What::Switched, step, sim);
        }
    }

    /// A frame of `host` is at its output.
    pub(super) fn frame_switched(&mut self, host: u16, sim: &mut Sim) {
        let frame = self.stations[usize::from(host)].to_switch.pop_front();
        let Some(frame) = frame else {
            return;
        };
        let to = frame.piece.to;
        let bytes = self.station(host).framing.frame_bytes(frame.body_bytes);
        if self.ports[usize::from(to)].handle_frame(frame, bytes) {
            self.output(to, sim);
        } else {
            self.lose(&frame, Place::Switch);
        }
    }

    fn output(&mut self, port: u16, sim: &mut Sim) {
        let Some(frame) = self.ports[usize::from(port)].poll() else {
            return;
        };
        let (now, framing) = (sim.now(), self.station(port).framing);
        let link = self.stations.len() + usize::from(port);
        if let Some(capture) = self.captures.get_mut(link) {
            capture.record(now, || capture::bytes(&framing, &frame, now));
        }
        self.stations[usize::from(port)].to_card.push_back(frame);
        let end = now.saturating_add(framing.frame_time(frame.body_bytes));
        self.until(end, Part::Wire, port, What::PortSent, sim);
    }

    pub(super) fn port_sent(&mut self, port: u16, sim: &mut Sim) {
        self.ports[usize::from(port)].sent();
        let (latency, way) = self.card_and_way(port);
        let step = self.step(Part::Way, port, sim.now());
        let at = sim.now().saturating_add(way);
        let step = self.paths.begin(Part::Card, port, at, step);
        let at = at.saturating_add(latency);
        self.at(at, port, What::Arrived, step, sim);
        self.output(port, sim);
    }

    pub(super) fn frame_arrived(&mut self, host: u16, sim: &mut Sim) {
        let look_time = self.of(host).card.frame;
        let station = &mut self.stations[usize::from(host)];
        let Some(frame) = station.to_card.pop_front() else {
            return;
        };
        match station.receiver.handle_frame(&frame) {
            Err(Missing::Room) => self.lose(&frame, Place::Fifo),
            Err(Missing::Buffer) => self.lose(&frame, Place::Buffers),
            Ok(()) if look_time.is_zero() => self.take_in(host, frame, sim),
            Ok(()) => {
                station.looking.push_back(frame);
                if station.looking.len() == 1 {
                    self.look(host, sim);
                }
            }
        }
    }

    fn look(&mut self, host: u16, sim: &mut Sim) {
        let end = sim.now().saturating_add(self.of(host).card.frame);
        self.until(end, Part::Card, host, What::Looked, sim);
    }

    pub(super) fn frame_looked_at(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let Some(frame) = station.looking.pop_front() else {
            return;
        };
        if !station.looking.is_empty() {
            self.look(host, sim);
        }
        self.take_in(host, frame, sim);
    }

    fn take_in(&mut self, host: u16, frame: Frame, sim: &mut Sim) {
        let receiver = &mut self.stations[usize::from(host)].receiver;
        let before = receiver.waiting();
        receiver.store(frame);
        let whole = receiver.waiting() - before;
        self.tell_host(host, whole, sim);
        self.store(host, sim);
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

    /// The latency of the card of `host`, and the way to the next end.
    fn card_and_way(&self, host: u16) -> (Duration, Duration) {
        let parameters = self.of(host);
        (parameters.card.latency, parameters.propagation())
    }
}
