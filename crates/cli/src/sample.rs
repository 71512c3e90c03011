//! Everything on this host at one time: nodes, their links to other hosts and connections, and the sockets of
//! programs with the preload library. For `metrics` and `top`.
//!
//! Nothing that is looked at is disturbed: nodes publish their counters in memory that is mapped for reading, and
//! sockets are read out of the memory of their processes.

use std::time::{Duration, Instant};

use barewire_shm::counters::{CounterView, RemoteCopy, SlotCopy};

use crate::nodes::{self, NodeView};
use crate::sockets::{self, PreloadedProcess};

/// A node at one time.
#[derive(Clone, Debug)]
pub struct NodeSample {
    /// Its process.
    pub pid: i32,
    /// The name of the program.
    pub comm: String,
    /// Its user.
    pub uid: u32,
    /// Its random number.
    pub id: String,
    /// How long it has been there.
    pub age: Duration,
    /// The counters of its event queue, with their names.
    pub queue: Vec<(&'static str, u64)>,
    /// Its links to other hosts, with the numbers of their records; also those that have ended, while connections
    /// over them are left.
    pub hosts: Vec<(u32, RemoteCopy)>,
    /// How many more links there are.
    pub hosts_uncounted: u64,
    /// Its open connections, by number.
    pub connections: Vec<SlotCopy>,
    /// Its counters as they go on; `None` of a sample that was recorded.
    pub view: Option<CounterView>,
}

/// All that could be seen.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How long it took.
    pub took: Duration,
    /// Nodes by process.
    pub nodes: Vec<NodeSample>,
    /// Processes with the preload library, by number.
    pub processes: Vec<PreloadedProcess>,
}

impl NodeSample {
    fn take(node: &NodeView) -> NodeSample {
        let (hosts, hosts_uncounted) = node.remotes();
        NodeSample {
            pid: node.found.pid,
            comm: node.found.comm.clone(),
            uid: node.found.uid,
            id: node.id(),
            age: node.age(),
            queue: node.queue(),
            hosts,
            hosts_uncounted,
            connections: node.connections(),
            view: Some(node.counters().clone()),
        }
    }

    /// A counter of its event queue.
    pub fn counter(&self, wanted: &str) -> u64 {
        let found = self.queue.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, value)| *value)
    }
}

impl Sample {
    /// Looks now.
    pub fn take() -> Sample {
        let at = Instant::now();
        let nodes = nodes::all().iter().map(NodeSample::take).collect();
        let processes = sockets::all();
        Sample {
            took: at.elapsed(),
            nodes,
            processes,
        }
    }
}
