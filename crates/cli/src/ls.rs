//! `barewire ls`: every node on this host that one may look at, and the sockets of every
//! unmodified program that runs with our library.

mod sockets;

use clap::Args;
use serde::Serialize;

use crate::nodes::{self, LookError, NodeView, Result, age, in_columns, print};
use crate::onboard;

/// List the nodes on this host, and the sockets of programs under `barewire run`
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// Only the sockets of programs under `barewire run`
    #[arg(long)]
    pub sockets: bool,
    /// Only the sockets of this process
    #[arg(value_name = "PID")]
    pub pid: Option<i32>,
    /// As JSON: an array of nodes; of processes with --sockets or PID
    #[arg(long)]
    pub json: bool,
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
}

impl Listed {
    fn new(node: &NodeView) -> Listed {
        Listed {
            pid: node.found.pid,
            comm: node.found.comm.clone(),
            uid: node.found.uid,
            node: node.id(),
            age_seconds: node.age().as_secs_f64(),
            links: node.queue_counter("links"),
            connections: node.queue_counter("connections"),
            events: node.queue_counter("events"),
        }
    }
}

/// Lists them.
pub fn run(args: &LsArgs) -> Result<()> {
    if args.sockets || args.pid.is_some() {
        return list_sockets(args);
    }
    let nodes = nodes::all();
    if args.json {
        let listed: Vec<Listed> = nodes.iter().map(Listed::new).collect();
        return print_json(&listed);
    }
    let on_board = onboard::all();
    let mut text = match (nodes.is_empty(), on_board.is_empty()) {
        (true, true) => "no nodes, and no programs under `barewire run`\n".to_owned(),
        (true, false) => sockets::table(&on_board),
        (false, true) => table(&nodes),
        (false, false) => table(&nodes) + "\n" + &sockets::table(&on_board),
    };
    if barewire_sys::process::own_credentials().uid != 0 {
        text += "(those of other users are shown to root only)\n";
    }
    print(&text)
}

fn print_json<T: Serialize>(listed: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(listed).map_err(std::io::Error::from)?;
    print(&(text + "\n"))
}

fn list_sockets(args: &LsArgs) -> Result<()> {
    let processes = match args.pid {
        Some(pid) => vec![
            onboard::of_process(pid)
                .ok_or_else(|| nodes::why_not(pid, LookError::NotOnBoard(pid)))?,
        ],
        None => onboard::all(),
    };
    if args.json {
        return print_json(&processes);
    }
    let mut text = sockets::table(&processes);
    let settings = processes.iter().find_map(|process| process.settings);
    if let (Some(settings), Some(_)) = (settings, args.pid) {
        text += &format!(
            "(spin_us = {}, calls_before = {}, bytes_before = {})\n",
            settings.spin_ns / 1000,
            settings.calls_before,
            settings.bytes_before
        );
    }
    if processes.is_empty() {
        text = "no programs with the sockets' library (see `barewire run --help`)\n".to_owned();
    }
    print(&text)
}

fn table(nodes: &[NodeView]) -> String {
    let heading = [
        "pid",
        "command",
        "user",
        "age",
        "links",
        "connections",
        "events",
    ];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for node in nodes {
        let listed = Listed::new(node);
        lines.push(vec![
            listed.pid.to_string(),
            listed.comm,
            listed.uid.to_string(),
            age(node.age()),
            listed.links.to_string(),
            listed.connections.to_string(),
            listed.events.to_string(),
        ]);
    }
    in_columns(&lines, &[1], "")
}
