//! What there is to show: tables of nodes, connections, links to other hosts and sockets, with rates from one sample to
//! the next.

use std::collections::HashMap;

use barewire_report::number::{age, time};
use barewire_shm::counters::{Counter, SlotCopy};
use clap::ValueEnum;
use serde_json::json;

use super::cell::{Cell, number, optional, rate, shown};
use super::delays;
use crate::delay::{Delays, Histogram};
use crate::sample::{NodeSample, Sample};
use crate::sockets::{PreloadedProcess, Socket};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Nodes, with the rates of their event queues
    Nodes,
    /// Connections of nodes
    Connections,
    /// Links of nodes to other hosts
    Hosts,
    /// Sockets of unmodified programs under `run`
    Sockets,
}

/// All of them, in their order.
pub const KINDS: [Kind; 4] = [Kind::Nodes, Kind::Connections, Kind::Hosts, Kind::Sockets];

/// A column: its heading, its name in JSON, and whether it has text.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What stands above it.
    pub heading: &'static str,
    /// Its name in JSON.
    pub key: &'static str,
    /// Text goes to the left, numbers to the right.
    pub is_text: bool,
}

const fn text(heading: &'static str, key: &'static str) -> Column {
    Column {
        heading,
        key,
        is_text: true,
    }
}

const fn figure(heading: &'static str, key: &'static str) -> Column {
    Column {
        heading,
        key,
        is_text: false,
    }
}

const NODES: &[Column] = &[
    figure("pid", "pid"),
    text("command", "comm"),
    figure("user", "uid"),
    text("node", "node"),
    figure("age", "age_seconds"),
    text("waits", "waits"),
    figure("events/s", "events_per_second"),
    figure("sleeps/s", "sleeps_per_second"),
    figure("wakes/s", "wakes_sent_per_second"),
    figure("links", "links"),
    figure("connections", "connections"),
    figure("bytes out/s", "bytes_out_per_second"),
    figure("bytes in/s", "bytes_in_per_second"),
    text("note", "note"),
];

const CONNECTIONS: &[Column] = &[
    figure("pid", "pid"),
    text("command", "comm"),
    figure("number", "number"),
    text("name", "name"),
    text("peer", "peer"),
    figure("messages out/s", "messages_out_per_second"),
    figure("messages in/s", "messages_in_per_second"),
    figure("bytes out/s", "bytes_out_per_second"),
    figure("bytes in/s", "bytes_in_per_second"),
    figure("full/s", "full_per_second"),
    figure("delay p50", "delay_p50_us"),
    figure("delay p99", "delay_p99_us"),
    text("delays", "delay_buckets"),
    figure("bells/s", "bells_per_second"),
    text("note", "note"),
];

const HOSTS: &[Column] = &[
    figure("pid", "pid"),
    text("command", "comm"),
    text("address", "address"),
    text("transport", "transport"),
    text("encrypted", "encrypted"),
    text("proved to be", "identity"),
    figure("its pid", "peer_pid"),
    figure("round trip", "round_trip_ns"),
    text("note", "note"),
];

const SOCKETS: &[Column] = &[
    figure("pid", "pid"),
    text("command", "comm"),
    figure("fd", "fd"),
    text("local", "local"),
    text("remote", "remote"),
    figure("peer", "peer_pid"),
    text("state", "state"),
    text("path out", "path_out"),
    text("path in", "path_in"),
    figure("ring out/s", "ring_bytes_out_per_second"),
    figure("ring in/s", "ring_bytes_in_per_second"),
    figure("delay p50", "delay_p50_us"),
    figure("delay p99", "delay_p99_us"),
    text("delays", "delay_buckets"),
    text("note", "note"),
];

impl Kind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nodes => "nodes",
            Kind::Connections => "connections",
            Kind::Hosts => "hosts",
            Kind::Sockets => "sockets",
        }
    }

    /// Its columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Kind::Nodes => NODES,
            Kind::Connections => CONNECTIONS,
            Kind::Hosts => HOSTS,
            Kind::Sockets => SOCKETS,
        }
    }

    /// The column of what is busiest.
    pub fn busiest(self) -> usize {
        let key = match self {
            Kind::Nodes => "events_per_second",
            Kind::Connections => "bytes_out_per_second",
            Kind::Hosts => "round_trip_ns",
            Kind::Sockets => "ring_bytes_out_per_second",
        };
        let columns = self.columns().iter();
        columns.take_while(|column| column.key != key).count()
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Something holds it up, or is wrong.
    pub is_marked: bool,
    /// How long what it sends waits, if that is found out.
    pub delays: Option<Histogram>,
}

/// What there is to show.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// In the order of [`KINDS`].
    pub rows: [Vec<Row>; KINDS.len()],
    /// What the rates are over; `None`: there are none yet.
    pub seconds: Option<f64>,
}

fn process(pid: i32, comm: &str) -> [Cell; 2] {
    let pid = u32::try_from(pid).unwrap_or(0);
    [number(pid), shown(comm)]
}

/// What was counted before, and the seconds since.
struct Before<'a> {
    nodes: HashMap<&'a str, &'a NodeSample>,
    sockets: HashMap<SocketKey<'a>, [u64; 2]>,
    seconds: Option<f64>,
}

type SocketKey<'a> = (i32, &'a [i32], &'a Option<String>, &'a Option<String>);

fn key<'a>(process: &PreloadedProcess, socket: &'a Socket) -> SocketKey<'a> {
    (process.pid, &socket.fds, &socket.local, &socket.remote)
}

impl<'a> Before<'a> {
    fn new(before: Option<(&'a Sample, f64)>) -> Before<'a> {
        let sample = before.map(|(sample, _)| sample);
        let nodes = sample.iter().flat_map(|sample| &sample.nodes);
        let processes = sample.iter().flat_map(|sample| &sample.processes);
        let of_process = |process: &'a PreloadedProcess| {
            let sockets = process.sockets.iter();
            sockets.map(move |socket| (key(process, socket), socket.ring_bytes))
        };
        Before {
            nodes: nodes.map(|node| (&*node.id, node)).collect(),
            sockets: processes.flat_map(of_process).collect(),
            seconds: before.map(|(_, seconds)| seconds),
        }
    }

    /// How much of something there was in a second; all of it is new if it was not there before.
    fn rate(&self, now: u64, before: Option<u64>) -> Option<f64> {
        let counted = now.saturating_sub(before.unwrap_or(0));
        self.seconds.map(|seconds| counted as f64 / seconds)
    }

    fn queue_rate(&self, node: &NodeSample, name: &str) -> Option<f64> {
        let before = self.nodes.get(&*node.id).map(|node| node.counter(name));
        self.rate(node.counter(name), before)
    }

    fn connection_rates(
        &self,
        node: &NodeSample,
        connection: &SlotCopy,
    ) -> Option<[f64; COUNTERS]> {
        let then = self.nodes.get(&*node.id).and_then(|then| {
            let key = |old: &SlotCopy| old.connection;
            let at = (then.connections).binary_search_by_key(&connection.connection, key);
            // Its number may have been given to another since.
            let old = &then.connections[at.ok()?];
            let is_same = (old.peer_pid, &old.name) == (connection.peer_pid, &connection.name);
            is_same.then_some(old)
        });
        let rate = |at: usize| {
            let before = then.map(|old| old.counters[at]);
            self.rate(connection.counters[at], before)
        };
        let mut rates = [0.0; COUNTERS];
        for (at, value) in rates.iter_mut().enumerate() {
            *value = rate(at)?;
        }
        Some(rates)
    }
}

const COUNTERS: usize = barewire_shm::counters::COUNTERS;

impl Tables {
    /// What is now, with rates since a sample so many seconds ago.
    pub fn new(now: &Sample, before: Option<(&Sample, f64)>, found: &Delays) -> Tables {
        let before = Before::new(before);
        let nodes = now.nodes.iter();
        let connections = nodes.clone().flat_map(|node| {
            let all = node.connections.iter();
            all.map(|connection| connection_row(&before, node, connection, found))
        });
        let sockets = now.processes.iter().flat_map(|process| {
            let all = process.sockets.iter();
            all.map(|socket| socket_row(&before, process, socket, found))
        });
        Tables {
            rows: [
                nodes.clone().map(|node| node_row(&before, node)).collect(),
                connections.collect(),
                nodes.flat_map(host_rows).collect(),
                sockets.collect(),
            ],
            seconds: before.seconds,
        }
    }

    /// The rows of a table.
    pub fn of(&self, kind: Kind) -> &[Row] {
        &self.rows[kind as usize]
    }

    /// The sum of a column.
    pub fn sum(&self, kind: Kind, key: &str) -> f64 {
        let columns = kind.columns().iter();
        let at = columns.take_while(|column| column.key != key).count();
        let values = self.of(kind).iter().filter_map(|row| row.cells.get(at));
        let numbers = values.filter_map(|cell| cell.value.as_f64());
        // Not `sum`, which gives -0.0 for none.
        numbers.fold(0.0, |sum, number| sum + number)
    }
}

/// How a node waits, and what went wrong lately.
fn node_state(before: &Before<'_>, node: &NodeSample) -> (&'static str, String) {
    let rate = |name| before.queue_rate(node, name).unwrap_or(0.0);
    let waits = match (rate("events") > 0.0, rate("sleeps") > 0.0) {
        (_, true) => "sleeps",
        (true, false) => "polls",
        (false, false) => "idle",
    };
    let faults = [
        ("deaths", "peers died"),
        ("violations", "peers broke the protocol"),
        ("refusals", "peers were refused"),
    ];
    let faults = faults.iter().filter(|(name, _)| rate(name) > 0.0);
    let faults: Vec<&str> = faults.map(|(_, said)| *said).collect();
    (waits, faults.join(", "))
}

fn node_row(before: &Before<'_>, node: &NodeSample) -> Row {
    let mut bytes = before.seconds.map(|_| [0.0; 2]);
    for connection in &node.connections {
        let rates = before.connection_rates(node, connection);
        if let (Some(bytes), Some(rates)) = (&mut bytes, rates) {
            bytes[0] += rates[Counter::BytesOut as usize];
            bytes[1] += rates[Counter::BytesIn as usize];
        }
    }
    let (waits, faults) = node_state(before, node);
    let rates = ["events", "sleeps", "wakes_sent"];
    let mut cells = process(node.pid, &node.comm).to_vec();
    cells.push(number(node.uid));
    cells.push(shown(&node.id[..node.id.len().min(8)]));
    cells.push(Cell {
        text: age(node.age),
        value: json!(node.age.as_secs_f64()),
    });
    cells.push(shown(if before.seconds.is_some() { waits } else { "" }));
    cells.extend(rates.map(|name| rate(before.queue_rate(node, name))));
    cells.extend(["links", "connections"].map(|name| number(node.counter(name))));
    cells.extend([0, 1].map(|at| rate(bytes.map(|bytes| bytes[at]))));
    cells.push(shown(&faults));
    Row {
        cells,
        is_marked: !faults.is_empty(),
        delays: None,
    }
}

fn connection_row(
    before: &Before<'_>,
    node: &NodeSample,
    connection: &SlotCopy,
    found: &Delays,
) -> Row {
    let rates = before.connection_rates(node, connection);
    let host = node
        .hosts
        .iter()
        .find(|(at, _)| Some(*at) == connection.remote);
    let peer = host.map_or_else(
        || connection.peer_pid.to_string(),
        |(_, link)| link.address.clone(),
    );
    let is_full = rates.is_some_and(|rates| rates[Counter::Full as usize] > 0.0);
    let order = [
        Counter::MessagesOut,
        Counter::MessagesIn,
        Counter::BytesOut,
        Counter::BytesIn,
        Counter::Full,
    ];
    let delays = found.of(node, connection).map(|it| it.recent.clone());
    let of = |counter: Counter| rate(rates.map(|rates| rates[counter as usize]));
    let mut cells = process(node.pid, &node.comm).to_vec();
    cells.push(number(connection.connection));
    cells.push(shown(&connection.name));
    cells.push(shown(&peer));
    cells.extend(order.map(of));
    cells.extend(delays::cells(delays.as_ref()));
    cells.push(of(Counter::Bells));
    cells.push(shown(if is_full { "the peer is slow" } else { "" }));
    Row {
        cells,
        is_marked: is_full,
        delays,
    }
}

fn host_rows(node: &NodeSample) -> impl Iterator<Item = Row> {
    node.hosts.iter().map(|(_, link)| {
        let round_trip = link.round_trip_ns.map(|ns| Cell {
            text: time(ns as f64),
            value: json!(ns),
        });
        let mut cells = process(node.pid, &node.comm).to_vec();
        cells.push(shown(&link.address));
        cells.push(shown(&link.transport));
        cells.push(shown(if link.is_encrypted { "yes" } else { "no" }));
        cells.push(optional(link.identity.as_deref().map(shown)));
        cells.push(number(link.pid));
        cells.push(optional(round_trip));
        let note = if link.is_up {
            ""
        } else {
            "down, connections are left"
        };
        cells.push(shown(note));
        Row {
            cells,
            is_marked: !link.is_up,
            delays: None,
        }
    })
}

fn socket_row(
    before: &Before<'_>,
    process_of: &PreloadedProcess,
    socket: &Socket,
    found: &Delays,
) -> Row {
    let then = before.sockets.get(&key(process_of, socket));
    let bytes = [0, 1].map(|at| {
        let then = then.map(|bytes| bytes[at]);
        rate(before.rate(socket.ring_bytes[at], then))
    });
    let delays = found.of_socket(process_of, socket);
    let delays = delays.map(|it| it.recent.clone());
    let is_accelerated = socket.state == "accelerated";
    let is_held_up = is_accelerated && socket.paths[0] == "kernel";
    let note = match (socket.why.as_str(), is_held_up) {
        ("", true) => "over the kernel: ring full, or reader sleeps",
        (why, _) => why,
    };
    let optional_text = |text: &Option<String>| optional(text.as_deref().map(shown));
    let optional_number = |value: Option<&i32>| {
        let value = value.and_then(|value| u32::try_from(*value).ok());
        optional(value.map(number))
    };
    let mut cells = process(process_of.pid, &process_of.comm).to_vec();
    cells.push(optional_number(socket.fds.first()));
    cells.push(optional_text(&socket.local));
    cells.push(optional_text(&socket.remote));
    cells.push(optional_number(socket.peer_pid.as_ref()));
    cells.push(shown(&socket.state));
    cells.extend(socket.paths.map(shown));
    cells.extend(bytes);
    cells.extend(delays::cells(delays.as_ref()));
    cells.push(shown(note));
    Row {
        cells,
        is_marked: is_held_up,
        delays,
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use barewire_shm::counters::{QUEUE_COUNTERS, RemoteCopy};
    use serde_json::Value;

    use super::*;

    /// A recorded sample, a second after the zeroth at `second`.
    pub fn recorded(second: u64) -> Sample {
        let connection = |number: u32, name: &str, full: u64| SlotCopy {
            state: 1,
            connection: number,
            peer_connection: None,
            peer_pid: 4712,
            peer_uid: 1000,
            remote: None,
            ring_bytes_out: 4096,
            ring_bytes_in: 4096,
            region: None,
            reader: 0,
            counters: [1000, 64_000, 500, 32_000, full, 10].map(|it| it * second),
            name: name.to_owned(),
        };
        let mut far = connection(3, "far", 0);
        far.remote = Some(0);
        let counters = |name: &str| match name {
            "links" => 2,
            "connections" => 3,
            "events" => 2000 * second,
            "sleeps" => 5 * second,
            _ => 0,
        };
        let link = RemoteCopy {
            is_up: true,
            address: "10.0.0.7:7400".to_owned(),
            identity: Some("builder-3".to_owned()),
            transport: "tls".to_owned(),
            pid: 99,
            is_encrypted: true,
            round_trip_ns: Some(120_000),
        };
        let socket = |fd: i32, path: &'static str| Socket {
            fds: vec![fd],
            local: Some("127.0.0.1:6379".to_owned()),
            remote: Some(format!("127.0.0.1:{}", 40_000 + fd)),
            other_inode: None,
            peer_pid: Some(72),
            state: "accelerated".to_owned(),
            why: String::new(),
            paths: [path; 2],
            ring_bytes: [1_000_000 * second, 2_000 * second],
            before: [0; 2],
            counters_out: None,
        };
        Sample {
            took: Duration::ZERO,
            nodes: vec![NodeSample {
                pid: 4711,
                comm: "daq\u{1b}[31m".to_owned(),
                uid: 1000,
                id: "0123456789abcdef0123456789abcdef".to_owned(),
                age: Duration::from_secs(90),
                queue: QUEUE_COUNTERS
                    .map(|(_, name)| (name, counters(name)))
                    .to_vec(),
                hosts: vec![(0, link)],
                hosts_uncounted: 0,
                connections: vec![connection(1, "events", 0), connection(2, "slow", 7), far],
                view: None,
            }],
            processes: vec![PreloadedProcess {
                pid: 71,
                comm: "redis-server".to_owned(),
                uid: 0,
                hidden: None,
                settings: None,
                is_sandboxed: false,
                sockets: vec![socket(5, "ring"), socket(6, "kernel")],
            }],
        }
    }

    /// Two seconds of it.
    pub fn recorded_tables() -> Tables {
        let (before, now) = (recorded(1), recorded(3));
        let node = &now.nodes[0];
        let delays = Delays::one(node, &node.connections[0], &[0, 0, 0, 15_000]);
        Tables::new(&now, Some((&before, 2.0)), &delays)
    }

    fn cell<'a>(tables: &'a Tables, kind: Kind, row: usize, key: &str) -> &'a Cell {
        let at = kind.columns().iter().position(|column| column.key == key);
        &tables.of(kind)[row].cells[at.expect("the column")]
    }

    #[test]
    fn each_row_has_a_cell_for_each_column() {
        for tables in [
            recorded_tables(),
            Tables::new(&recorded(1), None, &Delays::default()),
        ] {
            for kind in KINDS {
                assert!(!tables.of(kind).is_empty(), "{kind:?}");
                for row in tables.of(kind) {
                    assert_eq!(row.cells.len(), kind.columns().len(), "{kind:?}");
                    for cell in &row.cells {
                        assert!(!cell.text.contains(char::is_control), "{cell:?}");
                    }
                }
                assert!(kind.busiest() < kind.columns().len(), "{kind:?}");
            }
        }
    }

    #[test]
    fn rates_are_what_was_counted_in_a_second() {
        let tables = recorded_tables();
        assert_eq!(
            cell(&tables, Kind::Nodes, 0, "events_per_second").value,
            json!(2000.0)
        );
        assert_eq!(
            cell(&tables, Kind::Nodes, 0, "bytes_out_per_second").value,
            json!(192_000.0)
        );
        assert_eq!(cell(&tables, Kind::Nodes, 0, "waits").text, "sleeps");
        assert_eq!(
            cell(&tables, Kind::Connections, 1, "full_per_second").value,
            json!(7.0)
        );
        assert_eq!(
            cell(&tables, Kind::Connections, 2, "peer").text,
            "10.0.0.7:7400"
        );
        assert_eq!(
            cell(&tables, Kind::Connections, 0, "delay_p99_us").value,
            json!(16)
        );
        let ring = cell(&tables, Kind::Sockets, 0, "ring_bytes_out_per_second");
        assert_eq!(ring.value, json!(1_000_000.0));
        // Before the second sample there are none.
        let first = Tables::new(&recorded(1), None, &Delays::default());
        assert_eq!(
            cell(&first, Kind::Nodes, 0, "events_per_second").value,
            Value::Null
        );
        // One whose number was given to another is new.
        let (before, mut now) = (recorded(1), recorded(3));
        now.nodes[0].connections[0].name = "another".to_owned();
        let tables = Tables::new(&now, Some((&before, 1.0)), &Delays::default());
        let messages = cell(&tables, Kind::Connections, 0, "messages_out_per_second");
        assert_eq!(messages.value, json!(3000.0));
    }

    #[test]
    fn who_is_slow_is_marked() {
        let tables = recorded_tables();
        let marks = |kind| -> Vec<bool> {
            let rows = tables.of(kind).iter();
            rows.map(|row| row.is_marked).collect()
        };
        assert_eq!(marks(Kind::Connections), [false, true, false]);
        assert_eq!(marks(Kind::Sockets), [false, true]);
        assert_eq!(marks(Kind::Hosts), [false]);
        assert_eq!(
            cell(&tables, Kind::Connections, 1, "note").text,
            "the peer is slow"
        );
    }
}
