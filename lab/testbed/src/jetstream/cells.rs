//! The rival: every host on a link of its own to one ATM switch.
//!
//! A message is an AAL5 PDU, cut into cells. Those of one host take turns circuit by circuit,
//! and a circuit is a pair of hosts and a class. The synchronous class goes first at both
//! places where cells wait: in the host's adapter, and in the output of the switch.
//!
//! In place of a host, the first link may have an interworking unit, with the hosts of a ring behind
//! it ([`Cells::behind_unit`]). Then whoever drives this makes the cells, and is given each of them
//! where it has come out of its link ([`NetEvent::CellThere`]), and circuits have no classes.

use barewire_classic::token::Class;
use barewire_des::{Class as Order, Event, Node, Simulator};
use barewire_formats::atm::{
    CELL_BYTES, Cell, HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType, Vc,
};
use barewire_models::jetstream::{AtmAdapter, AtmCell, AtmSwitch, Discard, Noise, Reassembly};
use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use barewire_wire::capture::LinkType;
use barewire_wire::capture::exported::CELL;

use super::traffic::{Happening, NetEvent, Traffic, Why, exported};
use crate::experiment::LinkCapture;
use std::collections::BTreeMap;

/// The first circuit that is not reserved.
const VCI_FIRST: u16 = 32;

/// How the network is made.
#[derive(Clone, Copy, Debug)]
pub struct CellsPlan {
    pub hosts: usize,
    /// Rate of the cells of a link, 53 bytes counted.
    pub rate: Rate,
    /// From a host to the switch, and the other way.
    pub fibre: Duration,
    /// What a cell takes through an idle switch.
    pub latency: Duration,
    pub buffer_cells: usize,
    pub discard: Discard,
    /// Messages that may wait in an adapter.
    pub queue_messages: usize,
    pub errors_per_gigabit: u64,
    pub packets_per_link: usize,
}

struct Host {
    adapter: AtmAdapter,
    sending: bool,
    waiting: usize,
    reassembly: Reassembly,
    to_switch: Noise,
    from_switch: Noise,
    output_busy: bool,
}

/// The cells of a PDU.
struct Cut {
    cells: Vec<[u8; CELL_BYTES]>,
    /// Cells that have neither come nor been lost.
    left: usize,
}

/// An interworking unit at port 0.
struct UnitPort {
    /// Hosts behind it: the first ones.
    hosts: usize,
    /// Bytes of PDUs that may wait in it for the line.
    buffer_bytes: u64,
    held_bytes: u64,
    held_bytes_most: u64,
    /// By message.
    cuts: BTreeMap<u64, Cut>,
}

/// The network.
pub struct Cells {
    plan: CellsPlan,
    cell_time: Duration,
    hosts: Vec<Host>,
    switch: AtmSwitch,
    /// When the first cell of each message left.
    began: Vec<Option<Instant>>,
    pub links: Vec<LinkCapture>,
    /// The PDU that was last recorded on each link.
    pdus: Vec<Option<(u64, Vec<u8>)>>,
    unit: Option<UnitPort>,
}

impl Cells {
    pub fn new(plan: CellsPlan, rng: &Rng) -> Self {
        let noise = |name, host: usize| {
            Noise::new(rng.fork_nth(name, host as u64), plan.errors_per_gigabit)
        };
        let host = |index| Host {
            adapter: AtmAdapter::new(),
            sending: false,
            waiting: 0,
            reassembly: Reassembly::new(),
            to_switch: noise("to switch", index),
            from_switch: noise("from switch", index),
            output_busy: false,
        };
        let link = |index: usize| {
            let host = index / 2;
            let name = match index % 2 {
                0 => format!("host {host} to switch"),
                _ => format!("switch to host {host}"),
            };
            LinkCapture::new(name, LinkType::UPPER_PDU, plan.packets_per_link)
        };
        let recorded = if plan.packets_per_link > 0 {
            2 * plan.hosts
        } else {
            0
        };
        Self {
            plan,
            cell_time: plan.rate.time_to_send(ByteSize::from(CELL_BYTES)),
            hosts: (0..plan.hosts).map(host).collect(),
            switch: AtmSwitch::new(plan.hosts, plan.buffer_cells, plan.discard),
            began: Vec::new(),
            links: (0..recorded).map(link).collect(),
            pdus: vec![None; recorded],
            unit: None,
        }
    }

    /// The first port has an interworking unit, in which `buffer_bytes` of PDUs may wait for the line. The first
    /// `hosts` hosts are behind it.
    pub fn behind_unit(mut self, hosts: usize, buffer_bytes: u64) -> Self {
        self.unit = Some(UnitPort {
            hosts,
            buffer_bytes,
            held_bytes: 0,
            held_bytes_most: 0,
            cuts: BTreeMap::new(),
        });
        for (index, link) in self.links.iter_mut().enumerate() {
            let what = match index / 2 {
                0 => "interworking unit".to_owned(),
                port => format!("station {}", hosts + port - 1),
            };
            link.link = match index % 2 {
                0 => format!("{what} to ATM switch"),
                _ => format!("ATM switch to {what}"),
            };
        }
        self
    }

    /// Where a host is.
    fn port(&self, host: usize) -> usize {
        match &self.unit {
            Some(unit) => (host + 1).saturating_sub(unit.hosts),
            None => host,
        }
    }

    fn circuit(&self, from: usize, to: usize, class: Class) -> u32 {
        let behind = self.unit.as_ref().map_or(0, |unit| unit.hosts - 1);
        let pair = from * (self.plan.hosts + behind) + to;
        (2 * pair + usize::from(self.has_priority(class))) as u32
    }

    fn has_priority(&self, class: Class) -> bool {
        self.unit.is_none() && class == Class::Synchronous
    }

    /// The circuit from a host to another.
    pub fn vc(&self, from: usize, to: usize) -> Vc {
        vc_of(self.circuit(from, to, Class::Asynchronous))
    }

    /// Whether no cell of a message is on its way, where it is known.
    pub fn is_idle(&self) -> bool {
        self.unit.as_ref().is_none_or(|unit| unit.cuts.is_empty())
    }

    /// Most bytes of PDUs that have waited in the unit.
    pub fn held_bytes_most(&self) -> u64 {
        self.unit.as_ref().map_or(0, |unit| unit.held_bytes_most)
    }

    /// The bytes of a cell that has come, or was lost on its way.
    pub fn take(&mut self, cell: AtmCell) -> Option<[u8; CELL_BYTES]> {
        let cuts = &mut self.unit.as_mut()?.cuts;
        let cut = cuts.get_mut(&cell.pdu)?;
        let mut bytes = cut.cells.get(usize::from(cell.index)).copied();
        if let Some(last) = bytes.as_mut().and_then(|bytes| bytes.last_mut()) {
            // One bit, of those that only the check over the PDU protects.
            *last ^= u8::from(cell.broken);
        }
        cut.left -= 1;
        if cut.left == 0 {
            cuts.remove(&cell.pdu);
        }
        bytes
    }

    /// Sends a message whose cells these are.
    pub fn send_cells<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        cells: Vec<[u8; CELL_BYTES]>,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let port = self.port(traffic.messages[index].from);
        let Some(unit) = &mut self.unit else {
            return;
        };
        let bytes = (cells.len() * PAYLOAD_BYTES) as u64;
        if port == 0 && unit.held_bytes + bytes > unit.buffer_bytes {
            return traffic.lose(index, Why::NoRoom);
        }
        if port != 0 && self.hosts[port].waiting >= self.plan.queue_messages {
            return traffic.lose(index, Why::Refused);
        }
        if port == 0 {
            unit.held_bytes += bytes;
            unit.held_bytes_most = unit.held_bytes_most.max(unit.held_bytes);
        }
        let left = cells.len();
        unit.cuts.insert(index as u64, Cut { cells, left });
        self.offer(index, port, traffic, sim);
    }

    /// Cells that the switch dropped.
    pub fn dropped(&self) -> u64 {
        self.switch.dropped()
    }

    pub fn send<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let from = traffic.messages[index].from;
        if self.hosts[from].waiting >= self.plan.queue_messages {
            return traffic.lose(index, Why::Refused);
        }
        self.offer(index, from, traffic, sim);
    }

    /// A message for the adapter of a port.
    fn offer<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        port: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        if self.began.len() <= index {
            self.began.resize(index + 1, None);
        }
        // Of an earlier message, if the numbers have begun anew.
        self.began[index] = None;
        let message = &traffic.messages[index];
        let first = AtmCell {
            pdu: index as u64,
            circuit: self.circuit(message.from, message.to, message.class),
            index: 0,
            of: (message.pdu_bytes() / PAYLOAD_BYTES) as u16,
            priority: self.has_priority(message.class),
            broken: false,
        };
        let host = &mut self.hosts[port];
        host.waiting += 1;
        host.adapter.offer(first);
        if !host.sending {
            self.line(port, traffic, sim);
        }
    }

    pub fn handle<E: Event + From<NetEvent>>(
        &mut self,
        event: NetEvent,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        match event {
            NetEvent::Line(host) => self.line(host, traffic, sim),
            NetEvent::Output(port) => self.output(port, traffic, sim),
            NetEvent::Cell(cell) => self.cell(cell, traffic, sim),
            _ => {}
        }
    }

    /// A host's line is free.
    fn line<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let host = &mut self.hosts[index];
        let next = host.adapter.poll();
        host.sending = next.is_some();
        let Some(mut cell) = next else {
            return;
        };
        cell.broken |= host.to_switch.hits(CELL_BYTES as u64 * 8);
        let now = sim.now();
        let ends = now + self.cell_time;
        let message = cell.pdu as usize;
        let began = *self.began[message].get_or_insert(now);
        if cell.is_last() {
            host.waiting -= 1;
            match &mut self.unit {
                // The host has sent it long ago.
                Some(unit) if index == 0 => {
                    unit.held_bytes -= u64::from(cell.of) * PAYLOAD_BYTES as u64;
                }
                _ => traffic.happenings.push_back(Happening::Sent {
                    message,
                    began,
                    ends,
                }),
            }
        }
        self.record(2 * index, cell, traffic, now);
        let node = Node(index as u16);
        sim.at(ends, Order::NORMAL, node, NetEvent::Line(index).into());
        let there = ends + self.plan.fibre + self.plan.latency;
        sim.at(there, Order::NORMAL, node, NetEvent::Cell(cell).into());
    }

    /// A cell is in the switch.
    fn cell<E: Event + From<NetEvent>>(
        &mut self,
        cell: AtmCell,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let message = cell.pdu as usize;
        let port = self.port(traffic.messages[message].to);
        if !self.switch.handle_cell(port, cell) {
            self.take(cell);
            return traffic.lose(message, Why::NoRoom);
        }
        if !self.hosts[port].output_busy {
            self.output(port, traffic, sim);
        }
    }

    /// An output of the switch is free.
    fn output<E: Event + From<NetEvent>>(
        &mut self,
        port: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let next = self.switch.poll(port);
        let host = &mut self.hosts[port];
        host.output_busy = next.is_some();
        let Some(mut cell) = next else {
            return;
        };
        cell.broken |= host.from_switch.hits(CELL_BYTES as u64 * 8);
        let (message, ends) = (cell.pdu as usize, sim.now() + self.cell_time);
        let node = Node(port as u16);
        let whole = match self.unit {
            None => host.reassembly.handle_cell(cell),
            Some(_) => None,
        };
        if self.unit.is_some() {
            let at = ends + self.plan.fibre;
            let event = NetEvent::CellThere(port, cell);
            sim.at(at, Order::NORMAL, node, event.into());
        } else if cell.broken {
            traffic.lose(message, Why::Damaged);
        } else if whole.is_some() {
            let at = ends + self.plan.fibre;
            sim.at(at, Order::NORMAL, node, NetEvent::Whole(message).into());
        } else if cell.is_last() {
            traffic.lose(message, Why::Spoilt);
        }
        self.record(2 * port + 1, cell, traffic, sim.now());
        sim.at(ends, Order::NORMAL, node, NetEvent::Output(port).into());
    }

    fn record(&mut self, link: usize, cell: AtmCell, traffic: &Traffic, now: Instant) {
        let Some(capture) = self.links.get_mut(link) else {
            return;
        };
        let last = &mut self.pdus[link];
        let cuts = self.unit.as_ref().map(|unit| &unit.cuts);
        let cut = cuts.and_then(|cuts| cuts.get(&cell.pdu));
        capture.record(now, || {
            if let Some(bytes) = cut.and_then(|cut| cut.cells.get(usize::from(cell.index))) {
                return exported(CELL, bytes);
            }
            let pdu = match last {
                Some((pdu, bytes)) if *pdu == cell.pdu => bytes,
                other => {
                    let bytes = traffic.messages[cell.pdu as usize].pdu();
                    &other.insert((cell.pdu, bytes)).1
                }
            };
            let user = match cell.is_last() {
                true => PayloadType::USER_END,
                false => PayloadType::USER,
            };
            let header = HeaderRepr::user(vc_of(cell.circuit), user);
            let mut bytes = [0; CELL_BYTES];
            let mut view = Cell::new_unchecked(&mut bytes);
            header.emit(&mut view, Interface::Uni);
            let at = usize::from(cell.index) * PAYLOAD_BYTES;
            view.payload_mut()
                .copy_from_slice(&pdu[at..at + PAYLOAD_BYTES]);
            exported(CELL, &bytes)
        });
    }
}

fn vc_of(circuit: u32) -> Vc {
    let vci = VCI_FIRST.wrapping_add(circuit as u16);
    Vc { vpi: 0, vci }
}
