//! `barewire set`: settings of a live node, shown and changed.
//!
//! The node itself does it, when it next looks at its sockets ([`barewire::settings::ask`]), and
//! says so. Only its own user and root may.

use std::process::ExitCode;
use std::time::Duration;

use barewire::settings::{NodeAddress, Setting, ask};
use barewire_report::columns::{in_columns, print};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::nodes::{self, InspectError, NodeView, Result};
use crate::stat::seconds;

/// Change settings of a live node, or show those that can be changed
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire set 4711                            all settings with their values
  barewire set 4711 spin=50us backlog_max=64   both, or none if one is wrong
  barewire set 4711 capture=off --node 3f2a    only the node with this number
  barewire set 4711 spin=never --timeout 1
A node handles the request when its program next polls it or waits for it. If that does
not happen in time, this command fails; the request is still handled later.")]
pub struct SetArgs {
    /// Process id
    pub pid: i32,
    /// The settings to change
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub changes: Vec<(String, String)>,
    /// Only the node whose number begins with this (`barewire ls --json` lists the numbers)
    #[arg(long, value_name = "NUMBER")]
    pub node: Option<String>,
    /// How long to wait for the node
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub timeout: Duration,
    /// Print JSON: one object, with all settings of each node
    #[arg(long)]
    pub json: bool,
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write KEY=VALUE".to_owned())
}

/// Changes them on every node of the process, and shows what they are then.
pub fn run(args: &SetArgs) -> Result<ExitCode> {
    let mut nodes = nodes::of_process(args.pid)?;
    if let Some(wanted) = &args.node {
        nodes.retain(|node| node.id().starts_with(wanted));
        if nodes.is_empty() {
            return Err(InspectError::NoSuchNode(args.pid, wanted.clone()));
        }
    }
    let mut objects = Map::new();
    let mut shown = String::new();
    let mut failed = false;
    for node in &nodes {
        match set(node, args) {
            Ok(settings) => {
                shown += &text(node, &settings, args);
                objects.insert(node.id(), object(&settings));
            }
            Err(error) => {
                failed = true;
                eprintln!(
                    "barewire: node {:.8} of process {}: {error}",
                    node.id(),
                    args.pid
                );
            }
        }
    }
    if args.json {
        let object = json!({ "pid": args.pid, "nodes": objects });
        let pretty = serde_json::to_string_pretty(&object)?;
        shown = pretty + "\n";
    }
    print(&shown)?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn set(
    node: &NodeView,
    args: &SetArgs,
) -> std::result::Result<Vec<Setting>, barewire::settings::AskError> {
    let pairs = args.changes.iter();
    let changes: Vec<(&str, &str)> = pairs.map(|(key, value)| (&**key, &**value)).collect();
    let address = NodeAddress {
        pid: node.found.pid,
        node_id: node.number(),
    };
    ask(address, &changes, args.timeout)
}

fn object(settings: &[Setting]) -> Value {
    let pair = |setting: &Setting| (setting.key.clone(), json!(setting.value));
    Value::Object(settings.iter().map(pair).collect())
}

/// All settings if none was to be changed, otherwise those.
fn text(node: &NodeView, settings: &[Setting], args: &SetArgs) -> String {
    let is_wanted = |setting: &&Setting| {
        let changes = &args.changes;
        changes.is_empty() || changes.iter().any(|(key, _)| *key == setting.key)
    };
    let line = |setting: &Setting| {
        vec![
            setting.key.clone(),
            setting.value.clone(),
            setting.about.clone(),
        ]
    };
    let lines: Vec<_> = settings.iter().filter(is_wanted).map(line).collect();
    let heading = format!("node {:.8} of process {}\n", node.id(), args.pid);
    heading + &in_columns(&lines, &[0, 1, 2], "  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_key_and_a_value() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
