//! `barewire stat`: the counters of one process's nodes, once or as rates.

use std::time::{Duration, Instant};

use barewire_report::columns::{in_columns, print};
use barewire_report::number::age;
use barewire_report::number::{bytes, prefixed};
use barewire_shm::counters::{Counter, HELD, Huge, Placed, SlotCopy, UserCopy};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::hosts::{HEADINGS, Hosts};
use crate::nodes::{self, NodeView, Result};

/// Show the counters of a process: its event queues and every connection
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire stat 4711                      all counters, once
  barewire stat 4711 --watch 1 --top 5    each second the rates of the five busiest
  barewire stat 4711 --json | jq '.nodes[0].connections[].messages_in'
`barewire ls` lists the processes that have nodes.")]
pub struct StatArgs {
    /// Process id
    pub pid: i32,
    /// Print JSON: one object; with --watch, one on each line
    #[arg(long)]
    pub json: bool,
    /// Show rates per second every N seconds, until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,
    /// With --watch, stop after N times
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
    /// Show only the N busiest connections [default with --watch: 20]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
}

/// Seconds between two looks, from the command line.
pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.01 to 86400".to_owned()),
    }
}

/// The counters of a connection, with their names.
const COUNTERS: [(Counter, &str); 6] = [
    (Counter::MessagesOut, "messages_out"),
    (Counter::BytesOut, "bytes_out"),
    (Counter::MessagesIn, "messages_in"),
    (Counter::BytesIn, "bytes_in"),
    (Counter::Full, "full"),
    (Counter::Bells, "bells"),
];

/// One node at one time.
struct Snapshot {
    id: String,
    age: Duration,
    placed: Placed,
    queue: Vec<(&'static str, u64)>,
    users: Vec<UserCopy>,
    hosts: Hosts,
    connections: Vec<SlotCopy>,
    at: Instant,
}

impl Snapshot {
    fn take(node: &NodeView) -> Snapshot {
        Snapshot {
            id: node.id(),
            age: node.age(),
            placed: node.placed(),
            queue: node.queue(),
            users: node.users(),
            hosts: Hosts::of(node),
            connections: node.connections(),
            at: Instant::now(),
        }
    }

    /// What a connection has counted since an earlier snapshot; all of it if it is new.
    fn since(&self, earlier: Option<&Snapshot>, connection: &SlotCopy) -> [u64; 6] {
        let before = earlier.and_then(|earlier| {
            let old = &earlier.connections;
            let key = |old: &SlotCopy| old.connection;
            let at = old.binary_search_by_key(&connection.connection, key).ok()?;
            // Its number may have been given to another since.
            let same = (old[at].peer_pid, &old[at].name) == (connection.peer_pid, &connection.name);
            same.then_some(&old[at])
        });
        let before = before.map_or([0; 6], |old| old.counters);
        std::array::from_fn(|i| connection.counters[i].saturating_sub(before[i]))
    }
}

/// Shows them.
pub fn run(args: &StatArgs) -> Result<()> {
    let nodes = nodes::of_process(args.pid)?;
    let Some(pause) = args.watch else {
        let now: Vec<Snapshot> = nodes.iter().map(Snapshot::take).collect();
        let most = args.top.unwrap_or(usize::MAX);
        return Ok(print(&match args.json {
            true => pretty(&object(&nodes[0], &now, &[], most))?,
            false => text(&nodes[0], &now, &[], most),
        })?);
    };
    let most = args.top.unwrap_or(20);
    let mut before: Vec<Snapshot> = nodes.iter().map(Snapshot::take).collect();
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        std::thread::sleep(pause);
        // Nodes come and go; the process may be gone.
        let nodes = match nodes::of_process(args.pid) {
            Ok(nodes) => nodes,
            Err(_) if shown > 0 => {
                eprintln!("barewire: process {} has ended, or its nodes", args.pid);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let now: Vec<Snapshot> = nodes.iter().map(Snapshot::take).collect();
        print(&match args.json {
            true => object(&nodes[0], &now, &before, most).to_string() + "\n",
            false => text(&nodes[0], &now, &before, most) + "\n",
        })?;
        before = now;
        shown += 1;
    }
    Ok(())
}

fn pretty(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(text + "\n")
}

/// The connections to show: the busiest, if not all.
fn chosen<'a>(
    now: &'a Snapshot,
    earlier: Option<&Snapshot>,
    most: usize,
) -> Vec<(&'a SlotCopy, [u64; 6])> {
    let mut connections: Vec<_> = now
        .connections
        .iter()
        .map(|connection| (connection, now.since(earlier, connection)))
        .collect();
    if connections.len() > most {
        let messages = |counted: &[u64; 6]| {
            counted[Counter::MessagesOut as usize] + counted[Counter::MessagesIn as usize]
        };
        connections.sort_by_key(|(_, counted)| std::cmp::Reverse(messages(counted)));
        connections.truncate(most);
    }
    connections
}

/// An earlier snapshot of the same node, and the seconds since.
fn earlier<'a>(now: &Snapshot, before: &'a [Snapshot]) -> Option<(&'a Snapshot, f64)> {
    let old = before.iter().find(|old| old.id == now.id)?;
    Some((old, (now.at - old.at).as_secs_f64().max(1e-6)))
}

fn object(node: &NodeView, now: &[Snapshot], before: &[Snapshot], most: usize) -> Value {
    let nodes: Vec<Value> = now
        .iter()
        .map(|snapshot| {
            let old = earlier(snapshot, before);
            let connections: Vec<Value> = chosen(snapshot, old.map(|(old, _)| old), most)
                .into_iter()
                .map(|(connection, counted)| {
                    let host = snapshot.hosts.of_connection(connection);
                    let seconds = old.map(|(_, seconds)| seconds);
                    connection_object(connection, host, &counted, seconds)
                })
                .collect();
            let queue: Map<String, Value> = snapshot
                .queue
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect();
            let mut object = json!({
                "node": snapshot.id,
                "age_seconds": snapshot.age.as_secs_f64(),
                "memory": {
                    "locked": snapshot.placed.locked,
                    "numa_node": snapshot.placed.numa_node,
                    "huge_pages": huge(snapshot.placed.huge_pages),
                },
                "queue": queue,
                "hosts": snapshot.hosts.listed(),
                "hosts_uncounted": snapshot.hosts.uncounted(),
                "users": snapshot.users.iter().map(user_object).collect::<Vec<_>>(),
                "connections": connections,
            });
            if let Some((_, seconds)) = old {
                object["interval_seconds"] = json!(seconds);
            }
            object
        })
        .collect();
    json!({
        "pid": node.found.pid,
        "comm": node.found.comm,
        "uid": node.found.uid,
        "nodes": nodes,
    })
}

fn huge(huge: Huge) -> &'static str {
    match huge {
        Huge::No => "never",
        Huge::Tried => "try",
        Huge::Required => "require",
    }
}

/// How the node's memory is placed, if not as the kernel likes.
fn placed_line(placed: &Placed) -> String {
    let numa = placed
        .numa_node
        .map(|node| format!("near NUMA node {node}"));
    let huge = match placed.huge_pages {
        Huge::No => None,
        Huge::Tried => Some("on huge pages where there are some"),
        Huge::Required => Some("on huge pages"),
    };
    let locked = placed.locked.then(|| "locked".to_owned());
    let words: Vec<String> = locked
        .into_iter()
        .chain(numa)
        .chain(huge.map(str::to_owned))
        .collect();
    match words.is_empty() {
        true => String::new(),
        false => format!("  memory {}\n", words.join(", ")),
    }
}

/// What the peers of another user hold of the node.
fn user_object(user: &UserCopy) -> Value {
    let mut object = json!({ "uid": user.uid });
    for (what, name) in HELD {
        object[name] = json!(user.held[what as usize]);
    }
    object
}

fn user_line(user: &UserCopy) -> String {
    let held = HELD.map(|(what, name)| {
        let name = name.replace('_', " ");
        format!("{} {name}", user.held[what as usize])
    });
    format!("  user {} holds {}\n", user.uid, held.join(", "))
}

fn connection_object(
    connection: &SlotCopy,
    host: Option<&str>,
    counted: &[u64; 6],
    seconds: Option<f64>,
) -> Value {
    let mut object = json!({
        "number": connection.connection,
        "name": connection.name,
        "peer_host": host,
        "peer_pid": connection.peer_pid,
        "peer_uid": connection.peer_uid,
        "ring_bytes_out": connection.ring_bytes_out,
        "ring_bytes_in": connection.ring_bytes_in,
    });
    for (counter, name) in COUNTERS {
        object[name] = json!(connection.counters[counter as usize]);
        if let Some(seconds) = seconds {
            let rate = counted[counter as usize] as f64 / seconds;
            object[format!("{name}_per_second")] = json!(rate);
        }
    }
    object
}

fn text(node: &NodeView, now: &[Snapshot], before: &[Snapshot], most: usize) -> String {
    let found = &node.found;
    let mut out = format!(
        "process {} ({}), user {}\n",
        found.pid, found.comm, found.uid
    );
    for snapshot in now {
        let old = earlier(snapshot, before);
        let per = if old.is_some() { ", per second" } else { "" };
        out += &format!(
            "\nnode {:.8}, {} old{per}\n",
            snapshot.id,
            age(snapshot.age)
        );
        let queue: Vec<String> = snapshot
            .queue
            .iter()
            .map(|(name, value)| {
                let name = name.replace('_', " ");
                // What is open now is no rate.
                let is_open =
                    ["links", "connections"].contains(&&*name) || name.starts_with("foreign ");
                match old.filter(|_| !is_open) {
                    None => format!("{name} {value}"),
                    Some((old, seconds)) => {
                        let key = name.replace(' ', "_");
                        let then = old.queue.iter().find(|(known, _)| *known == key);
                        let then = then.map_or(0, |(_, value)| *value);
                        let rate = value.saturating_sub(then) as f64 / seconds;
                        format!("{name} {}", prefixed(rate))
                    }
                }
            })
            .collect();
        out += &format!("  {}\n", queue.join(", "));
        out += &placed_line(&snapshot.placed);
        out.extend(snapshot.users.iter().map(user_line));
        out += &hosts_table(&snapshot.hosts);
        out += &connections_table(snapshot, old, most);
    }
    out
}

/// Links to other hosts, if there are any.
fn hosts_table(hosts: &Hosts) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(hosts.cells().into_iter().map(Vec::from));
    if lines.len() == 1 {
        return String::new();
    }
    let mut text = format!(
        "  links to other hosts\n{}",
        in_columns(&lines, &[0, 1], "    ")
    );
    if hosts.uncounted() > 0 {
        text += &format!("    and {} more\n", hosts.uncounted());
    }
    text
}

fn connections_table(now: &Snapshot, old: Option<(&Snapshot, f64)>, most: usize) -> String {
    if now.connections.is_empty() {
        return "  no connections\n".to_owned();
    }
    let heading = [
        "number",
        "name",
        "peer",
        "user",
        "ring out",
        "ring in",
        "messages out",
        "bytes out",
        "messages in",
        "bytes in",
        "full",
        "bells",
    ];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    let connections = chosen(now, old.map(|(old, _)| old), most);
    let hidden = now.connections.len() - connections.len();
    for (connection, counted) in connections {
        // This process itself speaks for a node on another host.
        let host = now.hosts.of_connection(connection);
        let peer = host.map_or_else(|| connection.peer_pid.to_string(), str::to_owned);
        let mut line = vec![
            connection.connection.to_string(),
            connection.name.clone(),
            peer,
            connection.peer_uid.to_string(),
            bytes(connection.ring_bytes_out.into()),
            bytes(connection.ring_bytes_in.into()),
        ];
        line.extend(counted.iter().map(|&value| match old {
            None => value.to_string(),
            Some((_, seconds)) => prefixed(value as f64 / seconds),
        }));
        lines.push(line);
    }
    let mut out = in_columns(&lines, &[1], "  ");
    if hidden > 0 {
        out += &format!("  and {hidden} more connections\n");
    }
    out
}
