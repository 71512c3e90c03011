//! The way from everywhere to every host: over as few devices and hosts that forward as can be.
//!
//! From each host the search goes outwards, and each device, ring and host that forwards notes the
//! port, station or card by which it was found first. So every step of a way is nearer to
//! its end than the one before, and no way goes round in a circle. A host with several cards sends
//! by the one with the fewest devices and hosts on the way; of equals, by the first by name.

use std::collections::{BTreeMap, VecDeque};

use super::super::description::Description;
use super::super::places::{End, Line};
use crate::workbench::bench::At;

/// What a search goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Device(usize),
    Host(usize),
}

/// The search for the ways to one host.
struct Search<'a> {
    description: &'a mut Description,
    to: usize,
    open: VecDeque<Node>,
    /// Of what was found: devices and hosts from there on, itself included. A ring counts as a
    /// link does; its number is that of the devices on it.
    devices: Vec<Option<u32>>,
    rings: Vec<Option<u32>>,
    hosts: BTreeMap<usize, u32>,
}

/// Notes, at each device, ring and host with several cards, the way towards each host.
pub(super) fn find(description: &mut Description) {
    let hosts = description.hosts.len();
    for device in &mut description.devices {
        device.ways = vec![None; hosts];
    }
    for ring in &mut description.rings {
        ring.ways = vec![None; hosts];
    }
    let several = |host: &usize| description.hosts[*host].cards.len() > 1;
    let several: Vec<usize> = (0..hosts).filter(several).collect();
    for &host in &several {
        description.hosts[host].ways = vec![0; hosts];
    }
    for to in 0..hosts {
        let mut search = Search {
            to,
            open: VecDeque::new(),
            devices: vec![None; description.devices.len()],
            rings: vec![None; description.rings.len()],
            hosts: BTreeMap::new(),
            description,
        };
        search.run();
        for &host in several.iter().filter(|host| **host != to) {
            if let Some(card) = search.nearest_card(host) {
                search.description.hosts[host].ways[to] = card;
            }
        }
    }
}

impl Search<'_> {
    fn run(&mut self) {
        for line in lines(self.description, Node::Host(self.to)) {
            self.reach(line, 1);
        }
        while let Some(node) = self.open.pop_front() {
            let hops = match node {
                Node::Device(device) => self.devices[device].map(|hops| hops + 1),
                Node::Host(host) => self.hosts.get(&host).map(|hops| hops + 1),
            };
            for line in lines(self.description, node) {
                self.reach(line, hops.unwrap_or_default());
            }
        }
    }

    /// What is at the other end of `line` has found a way of so many hops.
    fn reach(&mut self, line: Line, hops: u32) {
        match line {
            Line::Link { link, end } => {
                let other = self.description.links[link].ends[1 - end];
                self.found(other, hops);
            }
            Line::Station { ring, station } => {
                if self.rings[ring].is_some() {
                    // All that is on it was found with it.
                    return;
                }
                // From what is at this station onto the ring, and from the ring to the others'.
                self.rings[ring] = Some(hops);
                self.description.rings[ring].ways[self.to] = Some(station as u16);
                for end in self.description.rings[ring].ends.clone() {
                    self.found(end, hops);
                }
            }
        }
    }

    fn found(&mut self, end: End, hops: u32) {
        match end {
            End::Port { device, port } => {
                if self.devices[device].is_none() {
                    self.devices[device] = Some(hops);
                    self.description.devices[device].ways[self.to] = Some(port as u16);
                    self.open.push_back(Node::Device(device));
                }
            }
            End::Card(At { host, .. }) => {
                let host = usize::from(host);
                let forwards = self.description.hosts[host].forwards.is_some();
                if forwards && host != self.to && !self.hosts.contains_key(&host) {
                    self.hosts.insert(host, hops);
                    self.open.push_back(Node::Host(host));
                }
            }
        }
    }

    /// The card of a host with the fewest hops to go.
    fn nearest_card(&self, host: usize) -> Option<u8> {
        let cards = self.description.hosts[host].cards.iter();
        let hops = cards.map(|card| self.hops(card.line));
        let known = hops
            .enumerate()
            .filter_map(|(card, hops)| Some((hops?, card)));
        known.min().map(|(_, card)| card as u8)
    }

    /// Devices and hosts between who sends on `line` and the end of the way.
    fn hops(&self, line: Line) -> Option<u32> {
        match line {
            Line::Link { link, end } => match self.description.links[link].ends[1 - end] {
                End::Card(At { host, .. }) if usize::from(host) == self.to => Some(0),
                End::Card(At { host, .. }) => self.hosts.get(&usize::from(host)).copied(),
                End::Port { device, .. } => self.devices[device],
            },
            Line::Station { ring, .. } => self.rings[ring].map(|hops| hops - 1),
        }
    }
}

/// The lines that a node sends on.
fn lines(description: &Description, node: Node) -> Vec<Line> {
    match node {
        Node::Device(device) => {
            let ports = description.devices[device].ports.iter().flatten();
            ports.map(|port| port.line).collect()
        }
        Node::Host(host) => {
            let cards = description.hosts[host].cards.iter();
            cards.map(|card| card.line).collect()
        }
    }
}

/// Why frames of a host do not come to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoWay {
    /// There is none.
    None,
    /// It leads back to the host that sends: by the card that was named, and not by another.
    Back,
}

/// The cards on the way from one host to another: that of the sender, those of each host between by
/// which a message comes in and goes out, and the receiver's.
pub(super) fn walk(
    description: &Description,
    (from, to): (usize, usize),
    card: Option<u8>,
) -> Result<Vec<At>, NoWay> {
    let card = card.unwrap_or_else(|| description.hosts[from].way(to));
    let mut at = At {
        host: from as u16,
        card,
    };
    let mut cards = vec![at];
    while let Some(next) = next_card(description, at, to) {
        cards.push(next);
        let host = usize::from(next.host);
        if host == to {
            return Ok(cards);
        }
        if host == from {
            return Err(NoWay::Back);
        }
        let between = &description.hosts[host];
        if between.forwards.is_none() || cards.len() > 2 * description.hosts.len() {
            return Err(NoWay::None);
        }
        at = At {
            card: between.way(to),
            ..next
        };
        cards.push(at);
    }
    Err(NoWay::None)
}

/// The card at which frames arrive that leave by `at`, towards a host.
fn next_card(description: &Description, at: At, to: usize) -> Option<At> {
    let card = description.hosts[usize::from(at.host)]
        .cards
        .get(usize::from(at.card));
    let mut line = card?.line;
    let steps = description.devices.len() + description.rings.len();
    for _ in 0..=2 * steps {
        let end = match line {
            Line::Link { link, end } => description.links[link].ends[1 - end],
            Line::Station { ring, station } => {
                let ring = &description.rings[ring];
                let way = usize::from(ring.ways[to]?);
                if way == station {
                    return Some(at);
                }
                ring.ends[way]
            }
        };
        match end {
            End::Card(card) => return Some(card),
            End::Port { device, .. } => {
                let device = &description.devices[device];
                let port = device.ports[usize::from(device.ways[to]?)].as_ref();
                line = port?.line;
            }
        }
    }
    None
}
