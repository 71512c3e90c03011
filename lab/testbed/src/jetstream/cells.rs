//! The rival: every host on a link of its own to one ATM switch.
//!
//! A message is an AAL5 PDU, cut into cells. Those of one host take turns circuit by circuit,
//! and a circuit is a pair of hosts and a class. The synchronous class goes first at both
//! places where cells wait: in the host's adapter, and in the output of the switch.

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
        }
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
        self.began.resize(index + 1, None);
        let message = &traffic.messages[index];
        let from = message.from;
        let host = &mut self.hosts[from];
        if host.waiting >= self.plan.queue_messages {
            return traffic.lose(index, Why::Refused);
        }
        host.waiting += 1;
        let priority = message.class == Class::Synchronous;
        let pair = from * self.plan.hosts + message.to;
        host.adapter.offer(AtmCell {
            pdu: index as u64,
            circuit: (2 * pair + usize::from(priority)) as u32,
            index: 0,
            of: (message.pdu_bytes() / PAYLOAD_BYTES) as u16,
            priority,
            broken: false,
        });
        if !host.sending {
            self.line(from, traffic, sim);
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
            traffic.happenings.push_back(Happening::Sent {
                message,
                began,
                ends,
            });
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
        let port = traffic.messages[message].to;
        if !self.switch.handle_cell(port, cell) {
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
        let whole = host.reassembly.handle_cell(cell);
        let (message, ends) = (cell.pdu as usize, sim.now() + self.cell_time);
        let node = Node(port as u16);
        if cell.broken {
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
        capture.record(now, || {
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
            let vci = VCI_FIRST.wrapping_add(cell.circuit as u16);
            let header = HeaderRepr::user(Vc { vpi: 0, vci }, user);
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
