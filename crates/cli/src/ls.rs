//! `barewire ls`: every node on this host that one may look at, and the sockets of every
//! unmodified program that runs with the preload library.

mod socket_table;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use barewire_report::columns::{in_columns, print};
use barewire_report::number::age;
use clap::Args;
use serde::Serialize;

use crate::hosts::{HEADINGS, Hosts, ListedHost};
use crate::nodes::{self, InspectError, NodeView, Result};
use crate::sockets;
use crate::stat::seconds;

/// `calls_before` of a program that upgrades streams only.
const NEVER: u64 = u32::MAX as u64;

/// List the nodes on this host, and the sockets of programs under `barewire run`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire ls                        nodes, links to hosts, sockets under `barewire run`
  barewire ls --watch 1              again each second, with events per second
  barewire ls --sockets --json       only sockets, as JSON
  barewire ls 4711                   the sockets of process 4711
`barewire stat PID` shows every connection of a node.")]
pub struct LsArgs {
    /// List only the sockets of programs under `barewire run`
    #[arg(long)]
    pub sockets: bool,
    /// List only the sockets of this process
    #[arg(value_name = "PID")]
    pub pid: Option<i32>,
    /// Print JSON: an array of nodes; with --sockets or PID, of processes
    #[arg(long)]
    pub json: bool,
    /// Repeat every N seconds, with JSON on one line each; with PID, until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,
    /// With --watch, stop after N lists
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
}

/// A node, as listed.
#[derive(Debug, Serialize)]
struct Listed {
    pid: i32,
    comm: String,
    uid: u32,
    node: String,
    age_seconds: f64,
    links: u64,
    connections: u64,
    events: u64,
    /// Links to other hosts.
    hosts: Vec<ListedHost>,
    /// How many more of them there are.
    hosts_uncounted: u64,
    /// With --watch, but for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_second: Option<f64>,
}

/// The events of each node that was seen, and when.
type Seen = HashMap<String, (u64, Instant)>;

impl Listed {
    fn new(node: &NodeView) -> Listed {
        let hosts = Hosts::of(node);
        Listed {
            pid: node.found.pid,
            comm: node.found.comm.clone(),
            uid: node.found.uid,
            node: node.id(),
            age_seconds: node.age().as_secs_f64(),
            links: node.queue_counter("links"),
            connections: node.queue_counter("connections"),
            events: node.queue_counter("events"),
            hosts: hosts.listed(),
            hosts_uncounted: hosts.uncounted(),
            events_per_second: None,
        }
    }

    /// With the rate since it was last seen.
    fn with_rate(mut self, seen: &mut Seen) -> Listed {
        let (events, now) = (self.events, Instant::now());
        if let Some((before, at)) = seen.insert(self.node.clone(), (events, now)) {
            let seconds = (now - at).as_secs_f64().max(1e-6);
            self.events_per_second = Some(events.saturating_sub(before) as f64 / seconds);
        }
        self
    }
}

/// Lists them, once or again and again.
pub fn run(args: &LsArgs) -> Result<()> {
    let mut seen = Seen::new();
    let Some(pause) = args.watch else {
        return Ok(print(&listing(args, &mut seen)?)?);
    };
    let clear = if clears_screen(args) {
        "\x1b[H\x1b[2J"
    } else {
        ""
    };
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        if shown > 0 {
            std::thread::sleep(pause);
        }
        let text = match (listing(args, &mut seen), args.pid) {
            (Err(_), Some(pid)) if shown > 0 => {
                eprintln!("barewire: process {pid} has ended");
                return Ok(());
            }
            (listing, _) => listing?,
        };
        let between = if args.json || !clear.is_empty() {
            ""
        } else {
            "\n"
        };
        print(&format!("{clear}{text}{between}"))?;
        shown += 1;
    }
    Ok(())
}

/// Whether each list takes the place of the last.
fn clears_screen(args: &LsArgs) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !args.json && !dumb && std::io::stdout().is_terminal()
}

/// What is to be said now.
fn listing(args: &LsArgs, seen: &mut Seen) -> Result<String> {
    if args.sockets || args.pid.is_some() {
        return list_sockets(args);
    }
    let nodes = nodes::all();
    let listed = |seen: &mut Seen| -> Vec<Listed> {
        let list = nodes.iter().map(Listed::new);
        match args.watch {
            Some(_) => list.map(|node| node.with_rate(seen)).collect(),
            None => list.collect(),
        }
    };
    if args.json {
        return as_json(args, &listed(seen));
    }
    let preloaded = sockets::all();
    let mut text = match (nodes.is_empty(), preloaded.is_empty()) {
        (true, true) => "no nodes, and no programs under `barewire run`\n".to_owned(),
        (true, false) => socket_table::table(&preloaded),
        (false, true) => table(&nodes, &listed(seen)) + &host_table(&nodes),
        (false, false) => {
            let nodes = table(&nodes, &listed(seen)) + &host_table(&nodes);
            nodes + "\n" + &socket_table::table(&preloaded)
        }
    };
    if barewire_sys::process::own_credentials().uid != 0 {
        text += "(those of other users are shown to root only)\n";
    }
    Ok(text)
}

/// On one line if more of them follow.
fn as_json<T: Serialize>(args: &LsArgs, listed: &T) -> Result<String> {
    let text = match args.watch {
        Some(_) => serde_json::to_string(listed),
        None => serde_json::to_string_pretty(listed),
    };
    Ok(text? + "\n")
}

fn list_sockets(args: &LsArgs) -> Result<String> {
    let processes = match args.pid {
        Some(pid) => vec![
            sockets::of_process(pid)
                .ok_or_else(|| nodes::why_not(pid, InspectError::NotPreloaded(pid)))?,
        ],
        None => sockets::all(),
    };
    if args.json {
        return as_json(args, &processes);
    }
    let mut text = socket_table::table(&processes);
    let settings = processes.iter().find_map(|process| process.settings);
    if let (Some(settings), Some(_)) = (settings, args.pid) {
        let calls_before = match settings.calls_before {
            NEVER => "never".to_owned(),
            calls => calls.to_string(),
        };
        text += &format!(
            "(spin_us = {}, calls_before = {calls_before}, bytes_before = {})\n",
            settings.spin_ns / 1000,
            settings.bytes_before
        );
    }
    if processes.is_empty() {
        text = "no programs under `barewire run`\n".to_owned();
    }
    Ok(text)
}

/// Links to other hosts, if there are any.
fn host_table(nodes: &[NodeView]) -> String {
    let headings = ["pid", "command"].into_iter().chain(HEADINGS);
    let mut lines: Vec<Vec<String>> = vec![headings.map(str::to_owned).collect()];
    let mut uncounted = 0;
    for node in nodes {
        let hosts = Hosts::of(node);
        uncounted += hosts.uncounted();
        for cells in hosts.cells() {
            let of_node = [node.found.pid.to_string(), node.found.comm.clone()];
            lines.push(of_node.into_iter().chain(cells).collect());
        }
    }
    if lines.len() == 1 {
        return String::new();
    }
    let mut text = format!(
        "\nlinks to other hosts\n{}",
        in_columns(&lines, &[1, 2, 3], "")
    );
    if uncounted > 0 {
        text += &format!("and {uncounted} more links to other hosts\n");
    }
    text
}

fn table(nodes: &[NodeView], listed: &[Listed]) -> String {
    let mut heading: Vec<String> = [
        "pid",
        "command",
        "user",
        "age",
        "links",
        "connections",
        "events",
    ]
    .map(str::to_owned)
    .to_vec();
    let rates = listed.iter().any(|node| node.events_per_second.is_some());
    if rates {
        heading.push("events/s".to_owned());
    }
    let mut lines = vec![heading];
    for (node, listed) in nodes.iter().zip(listed) {
        let mut line = vec![
            listed.pid.to_string(),
            listed.comm.clone(),
            listed.uid.to_string(),
            age(node.age()),
            listed.links.to_string(),
            listed.connections.to_string(),
            listed.events.to_string(),
        ];
        if rates {
            let rate = listed.events_per_second;
            line.push(rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")));
        }
        lines.push(line);
    }
    in_columns(&lines, &[1], "")
}
