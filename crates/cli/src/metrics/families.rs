//! Which metrics there are, and what they say of a sample.

use barewire_shm::counters::{Counter, QUEUE_COUNTERS, SlotCopy};

use super::text::{Family, Kind, Labels};
use crate::delay::{Delays, Histogram, upto_us};
use crate::sample::{NodeSample, Sample};
use crate::sockets::{PreloadedProcess, Socket};

/// Event queue counters that say what is there now. The others count.
const GAUGES: [&str; 8] = [
    "links",
    "connections",
    "foreign_links",
    "foreign_connections",
    "foreign_private_bytes",
    "foreign_mappings",
    "foreign_descriptors",
    "foreign_events",
];

/// The help of an event queue counter.
fn help(name: &str) -> &'static str {
    match name {
        "events" => "Events that the node has handed out.",
        "sleeps" => "Times that the node went to sleep.",
        "spurious_wakes" => "Times that the node woke and found nothing.",
        "spin_hits" => "Waits that were satisfied while polling, but not by the first poll.",
        "wakes_sent" => "Wake-ups that the node has sent to others.",
        "links" => "Links that are open now.",
        "connections" => "Connections that are open now.",
        "violations" => "Links that were closed because the peer broke the protocol.",
        "deaths" => "Peers that died.",
        "refusals" => "Requests of other users' peers that would have exceeded a budget.",
        "foreign_links" => "Links that peers of other users have now.",
        "foreign_connections" => "Connections that peers of other users have now.",
        "foreign_private_bytes" => "Private memory that peers of other users take now.",
        "foreign_mappings" => "Mappings that peers of other users take now.",
        "foreign_descriptors" => "Descriptors that peers of other users take now.",
        "foreign_events" => "Events for peers of other users that have not been handed out.",
        _ => "A counter of the event queue.",
    }
}

/// What there is to tell, with at most `limit` connections of a node and sockets of a process; delays if they are asked for.
pub fn of(sample: &Sample, limit: usize, delays: Option<&Delays>) -> Vec<Family> {
    let mut families = of_nodes(&sample.nodes);
    families.extend(of_hosts(&sample.nodes));
    families.extend(of_connections(&sample.nodes, limit));
    families.extend(of_processes(&sample.processes));
    families.extend(of_sockets(&sample.processes, limit));
    families.extend(
        delays
            .map(|delays| of_delays(sample, limit, delays))
            .into_iter()
            .flatten(),
    );
    let mut took = Family::new(
        "collection_seconds",
        Kind::Gauge,
        "How long it took to collect these metrics.",
    );
    took.add(Labels::new(), sample.took.as_secs_f64());
    families.push(took);
    families
}

fn node_labels(node: &NodeSample) -> Labels {
    vec![
        ("pid", node.pid.to_string()),
        ("command", node.comm.clone()),
        ("node", node.id.clone()),
    ]
}

fn with(mut labels: Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    labels.extend(more);
    labels
}

fn of_nodes(nodes: &[NodeSample]) -> Vec<Family> {
    let mut info = Family::new("node_info", Kind::Gauge, "A node, with its user; always 1.");
    let mut age = Family::new(
        "node_age_seconds",
        Kind::Gauge,
        "How long the node has been there.",
    );
    for node in nodes {
        let labels = node_labels(node);
        age.add(labels.clone(), node.age.as_secs_f64());
        info.add(with(labels, [("user", node.uid.to_string())]), 1);
    }
    let mut families = vec![info, age];
    for (_, name) in QUEUE_COUNTERS {
        let kind = match GAUGES.contains(&name) {
            true => Kind::Gauge,
            false => Kind::Counter,
        };
        let mut family = Family::new(format!("node_{name}"), kind, help(name));
        for node in nodes {
            family.add(node_labels(node), node.counter(name));
        }
        families.push(family);
    }
    families
}

fn of_hosts(nodes: &[NodeSample]) -> Vec<Family> {
    let mut up = Family::new(
        "host_link_up",
        Kind::Gauge,
        "Whether a link to another host is up: 0 if only connections over it are left.",
    );
    let mut encrypted = Family::new(
        "host_link_encrypted",
        Kind::Gauge,
        "Whether what a link to another host carries is encrypted.",
    );
    let mut round_trip = Family::new(
        "host_link_round_trip_seconds",
        Kind::Gauge,
        "How long a sign of life takes to another host and back, smoothed over about eight.",
    );
    let mut uncounted = Family::new(
        "node_host_links_left_out",
        Kind::Gauge,
        "Links to other hosts that the node has no room for in its counters page.",
    );
    for node in nodes {
        uncounted.add(node_labels(node), node.hosts_uncounted);
        for (number, link) in &node.hosts {
            let labels = with(
                node_labels(node),
                [
                    ("link", number.to_string()),
                    ("address", link.address.clone()),
                    ("transport", link.transport.clone()),
                    ("identity", link.identity.clone().unwrap_or_default()),
                ],
            );
            up.add(labels.clone(), u8::from(link.is_up));
            encrypted.add(labels.clone(), u8::from(link.is_encrypted));
            if let Some(ns) = link.round_trip_ns {
                round_trip.add(labels, ns as f64 / 1e9);
            }
        }
    }
    vec![up, encrypted, round_trip, uncounted]
}

/// Counters of a connection: the name of the metric, its direction, its help.
const CONNECTION: [(&str, &str, [Option<Counter>; 2]); 4] = [
    (
        "connection_messages",
        "Messages of a connection; for a stream, writes and reads.",
        [Some(Counter::MessagesOut), Some(Counter::MessagesIn)],
    ),
    (
        "connection_bytes",
        "Bytes of a connection.",
        [Some(Counter::BytesOut), Some(Counter::BytesIn)],
    ),
    (
        "connection_ring_full",
        "Times that a send found the ring full: the receiver did not keep up.",
        [Some(Counter::Full), None],
    ),
    (
        "connection_doorbells",
        "Doorbells rung, by which a sender wakes a receiver that sleeps.",
        [Some(Counter::Bells), None],
    ),
];

fn connection_labels(node: &NodeSample, connection: &SlotCopy) -> Labels {
    with(
        node_labels(node),
        [
            ("connection", connection.connection.to_string()),
            ("name", connection.name.clone()),
            ("peer_pid", connection.peer_pid.to_string()),
        ],
    )
}

fn of_connections(nodes: &[NodeSample], limit: usize) -> Vec<Family> {
    let mut families: Vec<Family> = CONNECTION
        .iter()
        .map(|(name, help, _)| Family::new(*name, Kind::Counter, *help))
        .collect();
    let mut left_out = Family::new(
        "node_connections_left_out",
        Kind::Gauge,
        "Connections of a node that are not told, because of --limit.",
    );
    for node in nodes {
        let told = node.connections.len().min(limit);
        left_out.add(node_labels(node), node.connections.len() - told);
        for connection in &node.connections[..told] {
            let labels = connection_labels(node, connection);
            for (family, (_, _, counters)) in families.iter_mut().zip(CONNECTION) {
                for (direction, counter) in ["out", "in"].into_iter().zip(counters) {
                    let Some(counter) = counter else { continue };
                    let labels = with(labels.clone(), [("direction", direction.to_owned())]);
                    family.add(labels, connection.counters[counter as usize]);
                }
            }
        }
    }
    families.push(left_out);
    families
}

fn process_labels(process: &PreloadedProcess) -> Labels {
    vec![
        ("pid", process.pid.to_string()),
        ("command", process.comm.clone()),
    ]
}

/// How many sockets have each value of a text, in the order of the values.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> std::collections::BTreeMap<&'a str, u64> {
    let mut counts = std::collections::BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    counts
}

fn of_processes(processes: &[PreloadedProcess]) -> Vec<Family> {
    let mut seen = Family::new(
        "process_visible",
        Kind::Gauge,
        "A process with the preload library: 1 if its sockets can be seen, 0 if not.",
    );
    let mut states = Family::new(
        "process_sockets",
        Kind::Gauge,
        "Sockets of a process with the preload library, by their state.",
    );
    let mut reasons = Family::new(
        "process_sockets_not_accelerated",
        Kind::Gauge,
        "Sockets of a process that do not use shared memory, by the reason.",
    );
    for process in processes {
        let labels = process_labels(process);
        seen.add(labels.clone(), u8::from(process.hidden.is_none()));
        let sockets = &process.sockets;
        for (state, count) in counted(sockets.iter().map(|socket| &*socket.state)) {
            states.add(with(labels.clone(), [("state", state.to_owned())]), count);
        }
        let why = sockets.iter().map(|socket| &*socket.why);
        for (why, count) in counted(why.filter(|why| !why.is_empty())) {
            reasons.add(with(labels.clone(), [("reason", why.to_owned())]), count);
        }
    }
    vec![seen, states, reasons]
}

fn is_accelerated(socket: &&Socket) -> bool {
    socket.state == "accelerated"
}

fn socket_labels(process: &PreloadedProcess, socket: &Socket) -> Labels {
    let fd = socket.fds.first().map_or_else(String::new, i32::to_string);
    with(
        process_labels(process),
        [
            ("fd", fd),
            ("local", socket.local.clone().unwrap_or_default()),
            ("remote", socket.remote.clone().unwrap_or_default()),
        ],
    )
}

fn of_sockets(processes: &[PreloadedProcess], limit: usize) -> Vec<Family> {
    let mut bytes = Family::new(
        "socket_ring_bytes",
        Kind::Counter,
        "Bytes of an accelerated socket that went through shared memory.",
    );
    let mut in_ring = Family::new(
        "socket_uses_ring",
        Kind::Gauge,
        "Whether bytes of an accelerated socket go through shared memory now (1) or over the kernel (0).",
    );
    let mut left_out = Family::new(
        "process_sockets_left_out",
        Kind::Gauge,
        "Accelerated sockets of a process that are not told, because of --limit.",
    );
    for process in processes {
        let sockets: Vec<&Socket> = process.sockets.iter().filter(is_accelerated).collect();
        let told = sockets.len().min(limit);
        left_out.add(process_labels(process), sockets.len() - told);
        for socket in &sockets[..told] {
            for (nth, direction) in ["out", "in"].into_iter().enumerate() {
                let labels = with(
                    socket_labels(process, socket),
                    [("direction", direction.to_owned())],
                );
                bytes.add(labels.clone(), socket.ring_bytes[nth]);
                in_ring.add(labels, u8::from(socket.paths[nth] == "ring"));
            }
        }
    }
    vec![bytes, in_ring, left_out]
}

fn of_delays(sample: &Sample, limit: usize, delays: &Delays) -> [Family; 2] {
    let mut connections = Family::new(
        "connection_delay_seconds",
        Kind::Histogram,
        "How long what this end of a connection has sent waits until the other one takes it, by probes.",
    );
    let mut sockets = Family::new(
        "socket_delay_seconds",
        Kind::Histogram,
        "How long what an accelerated socket has sent waits in shared memory until it is read, by probes.",
    );
    let add = |family: &mut Family, labels: Labels, found: &Histogram| {
        let bound = |at| upto_us(at).map(|us| us as f64 / 1e6);
        let counts = found.counts().iter().enumerate();
        let buckets = counts.map(|(at, count)| (bound(at), *count));
        family.add_histogram(&labels, buckets, found.sum_ns as f64 / 1e9);
    };
    for node in &sample.nodes {
        for connection in node.connections.iter().take(limit) {
            if let Some(found) = delays.of(node, connection) {
                let labels = connection_labels(node, connection);
                add(&mut connections, labels, &found.total);
            }
        }
    }
    for process in &sample.processes {
        for socket in process.sockets.iter().filter(is_accelerated).take(limit) {
            if let Some(found) = delays.of_socket(process, socket) {
                add(&mut sockets, socket_labels(process, socket), &found.total);
            }
        }
    }
    [connections, sockets]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_the_event_queue_has_a_help_of_its_own() {
        let mut seen = Vec::new();
        for (_, name) in QUEUE_COUNTERS {
            assert!(!seen.contains(&help(name)), "{name}");
            assert_ne!(help(name), help("another one"), "{name}");
            seen.push(help(name));
        }
        let known = |name: &&str| QUEUE_COUNTERS.iter().any(|(_, known)| known == name);
        assert!(GAUGES.iter().all(known));
    }
}
