//! Links of nodes to nodes on other hosts, for `ls` and `stat`.

use barewire_report::number::time;
use barewire_shm::counters::{RemoteCopy, SlotCopy};
use serde::Serialize;

use crate::nodes::NodeView;

/// The links of one node.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// With the numbers of their records; also those that have ended, while connections are left.
    all: Vec<(u32, RemoteCopy)>,
    /// How many more there are.
    uncounted: u64,
}

/// A link, as JSON has it.
#[derive(Debug, Serialize)]
pub struct ListedHost {
    address: String,
    transport: String,
    encrypted: bool,
    /// The name under which the other node has proved itself; `null`: nothing was proved.
    identity: Option<String>,
    pid: u32,
    round_trip_ns: Option<u64>,
}

/// The headings of [`Hosts::cells`].
pub const HEADINGS: [&str; 6] = [
    "address",
    "transport",
    "encrypted",
    "proved to be",
    "its pid",
    "round trip",
];

impl Hosts {
    /// Those of a node, now.
    pub fn of(node: &NodeView) -> Hosts {
        let (all, uncounted) = node.remotes();
        Hosts { all, uncounted }
    }

    fn up(&self) -> impl Iterator<Item = &RemoteCopy> {
        self.all
            .iter()
            .map(|(_, link)| link)
            .filter(|link| link.is_up)
    }

    /// Those that are up.
    pub fn listed(&self) -> Vec<ListedHost> {
        let listed = |link: &RemoteCopy| ListedHost {
            address: link.address.clone(),
            transport: link.transport.clone(),
            encrypted: link.is_encrypted,
            identity: link.identity.clone(),
            pid: link.pid,
            round_trip_ns: link.round_trip_ns,
        };
        self.up().map(listed).collect()
    }

    /// How many links more there are than are listed.
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// A line of a table for each that is up, below [`HEADINGS`].
    pub fn cells(&self) -> Vec<[String; 6]> {
        let cells = |link: &RemoteCopy| {
            let round_trip = link.round_trip_ns.map(|ns| time(ns as f64));
            [
                link.address.clone(),
                link.transport.clone(),
                if link.is_encrypted { "yes" } else { "no" }.to_owned(),
                link.identity.clone().unwrap_or_else(|| "nobody".to_owned()),
                link.pid.to_string(),
                round_trip.unwrap_or_else(|| "-".to_owned()),
            ]
        };
        self.up().map(cells).collect()
    }

    /// The address of the host at the other end of a connection, if it is on another host.
    pub fn of_connection(&self, connection: &SlotCopy) -> Option<&str> {
        let number = connection.remote?;
        let link = self.all.iter().find(|(known, _)| *known == number)?;
        Some(&link.1.address)
    }
}
