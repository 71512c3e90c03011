//! KEK's PCs that carry packets from outside: each IP packet is one Ethernet frame, through the processors, cards
//! and switch of the experiments, and through the queueing discipline of its PC.
//!
//! The programs of the experiments do not run: packets take their place. A host does what it did for them, one
//! operation at a time:
//! ```text
//! send     data: call, copy to the socket, TCP, IP and driver.   No data: an acknowledgement's output
//! receive  interrupt, then data: driver, IP and TCP, the program wakes, call, copy.   No data: an acknowledgement's input
//! ```
//! A packet without data is one of TCP with headers only. The discipline sees the true headers of a packet, but for the
//! addresses: as in the plan's `tc` commands, PC n has 10.0.0.n there.
//!
//! Packets are lost in a full discipline, card, output of the switch or socket, each of which says so: classes of
//! a discipline may change their order.

use barewire_des::{Simulator, World};
use barewire_models::kek::{Body, Frame, Pc, Switch};
use barewire_units::Instant;

use super::parameters::Parameters;
use super::plan::Plan;
use super::world::{Builder, KekEvent};
use crate::emulation::{self, Carries, HostEra, Stations, View, Wanted, is_acknowledgement};
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use crate::refuse::within;

/// Of a packet, what filters may look at.
const HEADERS_BYTES_MAX: usize = 128;
/// The flow of packets from outside, which is no stream's.
const FLOW: u8 = u8::MAX;

/// PCs that carry packets.
pub(super) type Emulation = emulation::Emulation<Carrying>;

pub(super) struct Carrying {
    builder: Builder,
    stations: Stations,
    next_id: u64,
}

impl Emulation {
    pub(super) fn new(
        (parameters, plan): (Parameters, Plan),
        seed: u64,
        wanted: &Wanted,
    ) -> Result<Self, SystemError> {
        wanted.check()?;
        let hosts = plan.hosts.len();
        within("stations", wanted.stations, 2..=hosts as u16)?;
        let longest = plan.mtu as usize;
        let mtu = wanted.mtu(longest, longest)?;
        let parameters = match wanted.host_era {
            HostEra::Plan => parameters,
            HostEra::None => parameters.without_hosts(),
        };
        let description = describe(&parameters, &plan);
        let mut sim = Simulator::new();
        let plan = plan.recorded(wanted.packets_per_link);
        let mut builder = Builder::new(&parameters, &plan, seed, &mut sim)?;
        if wanted.lose > 0.0 {
            builder.lose = Some(wanted.losses(seed));
        }
        Ok(Self {
            sim,
            carrying: Carrying {
                builder,
                stations: Stations::new(wanted, mtu),
                next_id: 0,
            },
            description,
        })
    }
}

fn describe(parameters: &Parameters, plan: &Plan) -> String {
    let between = match plan.switched {
        true => "a switch",
        false => "a link",
    };
    let shapes = (0..plan.hosts.len() as u8).filter(|pc| plan.commands(parameters, *pc).is_some());
    let shaped: Vec<String> = shapes.map(|pc| pc.to_string()).collect();
    let shaped = match shaped.is_empty() {
        true => "no traffic is shaped".to_owned(),
        false => format!("traffic is shaped at PC {}", shaped.join(", ")),
    };
    format!(
        "KEK: {} PCs and {between}, Ethernet of {} with frames of {} B; {shaped}",
        plan.hosts.len(),
        parameters.card.rate,
        plan.mtu
    )
}

/// What the discipline of a PC sees of a packet.
fn headers(packet: &[u8], from: u8, to: u8) -> Vec<u8> {
    let mut headers = packet[..packet.len().min(HEADERS_BYTES_MAX)].to_vec();
    if let Some(addresses) = headers.get_mut(12..20) {
        addresses.copy_from_slice(&[10, 0, 0, from, 10, 0, 0, to]);
    }
    headers
}

impl Carrying {
    /// The PC begins with the next packet, if it has taken the one before.
    fn offer(&mut self, number: usize, sim: &mut Simulator<KekEvent>) {
        let from = number as u8;
        while self.builder.pcs[number].takes_packet() {
            let Some((to, _)) = self.stations.waiting(number) else {
                return;
            };
            let Some(packet) = self.stations.begin(number) else {
                return;
            };
            let id = self.next_id;
            self.next_id += 1;
            let to = to as u8;
            let frame = Frame {
                from,
                to,
                flow: FLOW,
                body: Body::Packet {
                    id,
                    len: packet.len() as u64,
                    is_ack: is_acknowledgement(&packet),
                },
            };
            let headers = headers(&packet, from, to);
            self.builder.packets.insert(id, packet);
            self.builder.pcs[number].offer_packet(frame, headers);
            self.builder.handle_pc(from, KekEvent::Start(from), sim);
        }
    }

    fn packet(&mut self, frame: Frame) -> Option<Vec<u8>> {
        let Body::Packet { id, .. } = frame.body else {
            return None;
        };
        self.builder.packets.remove(&id)
    }

    fn lost(&mut self, frame: Frame) {
        if let Some(packet) = self.packet(frame) {
            self.stations.lose(usize::from(frame.to), &packet);
        }
    }

    /// What has come out, what is lost, and what can begin.
    fn look(&mut self, sim: &mut Simulator<KekEvent>) {
        while let Some(frame) = self.builder.lost.pop_front() {
            self.lost(frame);
        }
        for number in 0..self.builder.pcs.len() {
            while let Some(frame) = self.builder.pcs[number].take_lost_packet() {
                self.lost(frame);
            }
            while let Some(frame) = self.builder.pcs[number].take_packet() {
                if let Some(packet) = self.packet(frame) {
                    self.stations.give_in_any_order(sim.now(), number, packet);
                }
            }
            self.offer(number, sim);
        }
    }
}

impl World for Carrying {
    type Event = KekEvent;

    fn handle(&mut self, event: KekEvent, sim: &mut Simulator<KekEvent>) {
        self.builder.handle(event, sim);
        self.look(sim);
    }
}

impl Carries for Carrying {
    fn stations(&self) -> &Stations {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations {
        &mut self.stations
    }

    fn begin(&mut self, station: usize, sim: &mut Simulator<KekEvent>) {
        self.offer(station, sim);
    }

    fn view(&self, _now: Instant) -> View {
        let builder = &self.builder;
        let count = builder.pcs.len();
        let place = |pc: usize| pc as f64 / count as f64;
        let stats = || builder.pcs.iter().map(Pc::stats);
        View {
            what: "processors at work",
            stations: (0..count).map(place).collect(),
            carriers: (0..count)
                .map(|pc| (place(pc), vec![builder.pcs[pc].is_busy()]))
                .collect(),
            counts: vec![
                ("interrupts", stats().map(|it| it.interrupts).sum()),
                (
                    "packets lost in full disciplines",
                    stats().map(|it| it.dropped).sum(),
                ),
                ("frames lost in cards", stats().map(|it| it.overruns).sum()),
                (
                    "frames lost in the switch",
                    builder.switch.as_ref().map_or(0, Switch::lost),
                ),
            ],
        }
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        std::mem::take(&mut self.builder.captures)
    }
}

#[cfg(test)]
mod tests;
