//! `barewire ls`: every node on this host that one may look at.

use clap::Args;
use serde::Serialize;

use crate::nodes::{self, NodeView, Result, age, in_columns, print};

/// List the nodes on this host
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// As JSON: an array of objects
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
    let nodes = nodes::all();
    if args.json {
        let listed: Vec<Listed> = nodes.iter().map(Listed::new).collect();
        let text = serde_json::to_string_pretty(&listed).map_err(std::io::Error::from)?;
        return print(&(text + "\n"));
    }
    let mut text = table(&nodes);
    if nodes.is_empty() {
        text = "no nodes\n".to_owned();
    }
    if barewire_sys::process::own_credentials().uid != 0 {
        text += "(nodes of other users are shown to root only)\n";
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
