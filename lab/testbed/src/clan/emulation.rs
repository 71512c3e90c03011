//! CLAN that carries packets from outside: each IP packet is a message on a queue of the live network, between two
//! hosts, over the modelled cards and switches.
//!
//! On each host runs one program ([`Carrier`]). It sends and receives as the programs of the experiments do, polls for as
//! long as the server does, and then sleeps until a tripwire of its card interrupts. A packet that the host itself
//! sends wakes it without an interrupt. Nothing is lost but by chance, where it arrives: queues have credit.

use barewire_des::{Simulator, World};
use barewire_fabric::frame::region_bytes;
use barewire_fabric::ring::frame_bytes_max;
use barewire_models::clan::Interface;
use barewire_models::parameters::Parameters as _;
use barewire_units::{Duration, Instant};

use super::parameters::Parameters;
use super::program::{Carrier, Role};
use super::world::{Cabinet, ClanEvent, End};
use crate::emulation::{self, Carries, HostEra, Losses, Stations, View, Wanted};
use crate::error::SystemError;
use crate::experiment::LinkCapture;
use crate::refuse::within;

/// The longest packet, unless another is asked for: as on an Ethernet.
const MTU_BYTES: usize = 1500;

/// Hosts that carry packets.
pub(super) type Emulation = emulation::Emulation<Carrying>;

pub(super) struct Carrying {
    cabinet: Cabinet,
    stations: Stations,
    losses: Losses,
    lost: u64,
}

impl Emulation {
    pub(super) fn new(
        mut parameters: Parameters,
        seed: u64,
        wanted: &Wanted,
    ) -> Result<Self, SystemError> {
        wanted.check()?;
        let hosts_max = parameters.hosts_max().min(usize::from(u16::MAX)) as u16;
        within("stations", wanted.stations, 2..=hosts_max)?;
        let ring_bytes = parameters.ring_bytes();
        let mtu = wanted.mtu(MTU_BYTES, frame_bytes_max(ring_bytes))?;
        let is_timeless = wanted.host_era == HostEra::None;
        if is_timeless {
            let mut no_time = |time: &mut Duration| *time = Duration::ZERO;
            parameters.host.times_mut(&mut no_time);
        }
        let mut cabinet = Cabinet::new(&parameters, usize::from(wanted.stations));
        if wanted.packets_per_link > 0 {
            cabinet.record(wanted.packets_per_link);
        }
        let mut sim = Simulator::new();
        let ends = connect(
            &mut cabinet,
            wanted.stations as u8,
            (ring_bytes, mtu),
            is_timeless,
        );
        let ends = ends.ok_or_else(|| {
            let entries = parameters.card.cam_entries;
            let text = format!("card.cam_entries: {entries} are too few for a tripwire each");
            SystemError::Contradiction(text)
        })?;
        for (host, ends) in (0..).zip(ends) {
            let carrier = Carrier::new(parameters.host, is_timeless, ends);
            cabinet.start(&mut sim, host, Role::Carrier(carrier));
        }
        let description = format!(
            "CLAN: {} hosts at two joined switches, {}, an IP packet a message",
            wanted.stations, parameters.link.rate
        );
        Ok(Self {
            sim,
            carrying: Carrying {
                cabinet,
                stations: Stations::new(wanted, mtu),
                losses: wanted.losses(seed),
                lost: 0,
            },
            description,
        })
    }
}

/// A queue each way between any two hosts, with a tripwire on what comes in: for each host, its ends by peer. `None` if
/// a card has too few tripwires.
fn connect(
    cabinet: &mut Cabinet,
    hosts: u8,
    (ring_bytes, message_bytes): (usize, usize),
    is_timeless: bool,
) -> Option<Vec<Vec<Option<End>>>> {
    let none = || (0..hosts).map(|_| None).collect();
    let mut all: Vec<Vec<Option<End>>> = (0..hosts).map(|_| none()).collect();
    // A host that takes no time does not poll for room either: the credit wakes it, which lies before the ring.
    let range = match is_timeless {
        true => (0, region_bytes(ring_bytes)),
        false => (region_bytes(0), ring_bytes),
    };
    for near in 0..hosts {
        for far in near + 1..hosts {
            let (ends, regions) = cabinet.connect([near, far], ring_bytes);
            for (host, region) in [near, far].into_iter().zip(regions) {
                if !cabinet.wake_on(host, region, range) {
                    return None;
                }
            }
            let [here, there] = ends.map(|end| End::new(end, message_bytes));
            all[usize::from(near)][usize::from(far)] = Some(here);
            all[usize::from(far)][usize::from(near)] = Some(there);
        }
    }
    Some(all)
}

impl Carrying {
    fn carrier(&mut self, host: u8) -> Option<&mut Carrier> {
        match self.cabinet.role_mut(host) {
            Role::Carrier(carrier) => Some(carrier),
            _ => None,
        }
    }

    /// Gives the program of a host the next packet, if it has sent the one before.
    fn offer(&mut self, host: u8, sim: &mut Simulator<ClanEvent>) {
        if !self.carrier(host).is_some_and(|it| it.takes()) {
            return;
        }
        let station = usize::from(host);
        let Some((to, _)) = self.stations.waiting(station) else {
            return;
        };
        let Some(packet) = self.stations.begin(station) else {
            return;
        };
        let slept = self.cabinet.rouse(sim, host);
        if let Some(carrier) = self.carrier(host) {
            carrier.offer(usize::from(to), packet);
            if slept {
                carrier.rouse();
            }
        }
    }

    /// What the program of a host has received.
    fn look(&mut self, host: u8, now: Instant) {
        let station = usize::from(host);
        while let Some(packet) = self.carrier(host).and_then(Carrier::take) {
            if self.losses.hit() {
                self.lost += 1;
                self.stations.lose(station, &packet);
            } else {
                self.stations.give_in_any_order(now, station, packet);
            }
        }
    }
}

impl World for Carrying {
    type Event = ClanEvent;

    fn handle(&mut self, event: ClanEvent, sim: &mut Simulator<ClanEvent>) {
        self.cabinet.handle(event, sim);
        if let ClanEvent::Cpu(host) = event {
            self.look(host, sim.now());
            self.offer(host, sim);
        }
    }
}

impl Carries for Carrying {
    fn stations(&self) -> &Stations {
        &self.stations
    }

    fn stations_mut(&mut self) -> &mut Stations {
        &mut self.stations
    }

    fn begin(&mut self, station: usize, sim: &mut Simulator<ClanEvent>) {
        self.offer(station as u8, sim);
    }

    fn view(&self, _now: Instant) -> View {
        let cabinet = &self.cabinet;
        let hosts = &cabinet.hosts;
        let place = |host: usize| host as f64 / hosts.len() as f64;
        let is_awake = |host: usize| match cabinet.role(host as u8) {
            Role::Carrier(carrier) => !carrier.is_asleep(),
            _ => false,
        };
        let refused = |interface: &Interface| interface.refused();
        View {
            what: "hosts that poll or work",
            stations: (0..hosts.len()).map(place).collect(),
            carriers: (0..hosts.len())
                .map(|host| (place(host), vec![is_awake(host)]))
                .collect(),
            counts: vec![
                (
                    "bytes that arrived",
                    hosts.iter().map(|it| it.arrived_bytes as u64).sum(),
                ),
                ("packets between cards", cabinet.on_their_way() as u64),
                (
                    "stores refused",
                    hosts.iter().map(|it| refused(&it.interface)).sum(),
                ),
                ("packets lost at random", self.lost),
            ],
        }
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        self.cabinet.take_captures()
    }
}

#[cfg(test)]
mod tests;
