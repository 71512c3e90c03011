//! The way from everywhere to every host: over as few devices and rings as can be.

use std::collections::VecDeque;

use super::super::description::Description;
use super::super::places::{End, Line};

/// Where frames are passed on.
#[derive(Clone, Copy)]
enum Node {
    Device(usize),
    Ring(usize),
}

/// Notes, at each device and ring, the port or station towards each host.
pub(super) fn find(description: &mut Description) {
    let hosts = description.hosts.len();
    for device in &mut description.devices {
        device.ways = vec![None; hosts];
    }
    for ring in &mut description.rings {
        ring.ways = vec![None; hosts];
    }
    for host in 0..hosts {
        let mut open = VecDeque::new();
        let line = description.hosts[host].line;
        reach(description, line, host, &mut open);
        while let Some(node) = open.pop_front() {
            for line in lines(description, node) {
                reach(description, line, host, &mut open);
            }
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
        Node::Ring(ring) => {
            let ends = description.rings[ring].ends.iter();
            let line = |end: &End| match *end {
                End::Host(host) => Some(description.hosts[usize::from(host)].line),
                End::Port { device, port } => {
                    let port = description.devices[device].ports[port].as_ref();
                    port.map(|port| port.line)
                }
            };
            ends.filter_map(line).collect()
        }
    }
}

/// What is at the other end of `line` has found a way to `host`.
fn reach(description: &mut Description, line: Line, host: usize, open: &mut VecDeque<Node>) {
    match line {
        Line::Link { link, end } => {
            let other = description.links[link].ends[1 - end];
            if let End::Port { device, port } = other {
                set(description, Node::Device(device), port, host, open);
            }
        }
        Line::Station { ring, station } => {
            // From what is at this station onto the ring, and from the ring to the others'.
            set(description, Node::Ring(ring), station, host, open);
            let ends = description.rings[ring].ends.clone();
            for end in ends {
                if let End::Port { device, port } = end {
                    set(description, Node::Device(device), port, host, open);
                }
            }
        }
    }
}

fn set(
    description: &mut Description,
    node: Node,
    port: usize,
    host: usize,
    open: &mut VecDeque<Node>,
) {
    let way = match node {
        Node::Device(device) => &mut description.devices[device].ways[host],
        Node::Ring(ring) => &mut description.rings[ring].ways[host],
    };
    if way.is_none() {
        *way = Some(port as u16);
        open.push_back(node);
    }
}

/// Whether frames of one host come to another.
pub(super) fn leads(description: &Description, from: usize, to: usize) -> bool {
    let mut line = description.hosts[from].line;
    let steps = description.devices.len() + description.rings.len();
    for _ in 0..=2 * steps {
        let end = match line {
            Line::Link { link, end } => description.links[link].ends[1 - end],
            Line::Station { ring, .. } => {
                let ring = &description.rings[ring];
                match ring.ways[to] {
                    Some(station) => ring.ends[usize::from(station)],
                    None => return false,
                }
            }
        };
        match end {
            End::Host(host) => return usize::from(host) == to,
            End::Port { device, .. } => {
                let device = &description.devices[device];
                let port =
                    device.ways[to].and_then(|port| device.ports[usize::from(port)].as_ref());
                match port {
                    Some(port) => line = port.line,
                    None => return false,
                }
            }
        }
    }
    false
}
