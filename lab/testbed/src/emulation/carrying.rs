//! What the emulated networks share: the event kernel, what the outside asks of them, and the way of a packet
//! to and from the stations' queues.

use barewire_des::{Simulator, World};
use barewire_units::Instant;

use super::{Account, Departure, Emulated, Stations, View};
use crate::experiment::LinkCapture;

/// The models of a network with stations that carry packets, as events move them.
pub(crate) trait Carries: World {
    /// Queues and account of the stations.
    fn stations(&self) -> &Stations;

    /// The same, to change them.
    fn stations_mut(&mut self) -> &mut Stations;

    /// A packet has come to the queue of a station: its host begins with it, if it has nothing else to do.
    fn begin(&mut self, station: usize, sim: &mut Simulator<Self::Event>);

    /// What can be seen at this time.
    fn view(&self, now: Instant) -> View;

    /// What went over the links, in the network's own time.
    fn take_links(&mut self) -> Vec<LinkCapture>;

    /// When the network was ready, in its own time: time zero, for the outside.
    fn up(&self) -> Instant {
        Instant::ORIGIN
    }

    /// No event is to come.
    fn rest(&mut self) {}
}

/// A network that carries packets.
pub(crate) struct Emulation<C: Carries> {
    pub(crate) sim: Simulator<C::Event>,
    pub(crate) carrying: C,
    pub(crate) description: String,
}

impl<C: Carries> Emulation<C> {
    fn inner(&self, outer: Instant) -> Instant {
        self.carrying.up() + outer.since_origin()
    }

    fn outer(&self, inner: Instant) -> Instant {
        Instant::ORIGIN + inner.saturating_duration_since(self.carrying.up())
    }
}

impl<C> Emulated for Emulation<C>
where
    C: Carries + Send,
    C::Event: Send,
{
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn mtu_bytes(&self) -> usize {
        self.carrying.stations().mtu_bytes()
    }

    fn now(&self) -> Instant {
        self.outer(self.sim.now())
    }

    fn send(&mut self, at: Instant, from: u16, to: u16, packet: Vec<u8>) {
        self.run_to(at);
        let now = self.now();
        self.carrying.stations_mut().take(now, from, to, packet);
        self.carrying.begin(usize::from(from), &mut self.sim);
    }

    fn run_to(&mut self, time: Instant) {
        let time = self.inner(time);
        self.sim.run_until(time, &mut self.carrying);
        if self.sim.pending() == 0 {
            self.carrying.rest();
        }
    }

    fn next_at(&mut self) -> Option<Instant> {
        let next = self.sim.next_at()?;
        Some(self.outer(next))
    }

    fn poll(&mut self) -> Option<Departure> {
        self.carrying.stations_mut().poll()
    }

    fn account(&self) -> Account {
        self.carrying.stations().account()
    }

    fn view(&self) -> View {
        self.carrying.view(self.sim.now())
    }

    fn take_links(&mut self) -> Vec<LinkCapture> {
        let up = self.carrying.up();
        let mut links = self.carrying.take_links();
        for link in &mut links {
            link.packets.retain(|packet| packet.at >= up);
            for packet in &mut link.packets {
                packet.at = Instant::ORIGIN + (packet.at - up);
            }
        }
        let captures = self.carrying.stations_mut().take_captures();
        captures.chain(links).collect()
    }
}
