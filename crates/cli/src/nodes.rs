//! The nodes of this host, seen from outside: for `ls`, `stat`, `dump` and `set`.
//!
//! A node keeps its counters in memory that whoever may look at its process can map for
//! reading (`barewire_shm::counters`). That does not stop the node, and needs nothing from it.

use std::io::ErrorKind;
use std::time::Duration;

use barewire_report::columns::PrintError;
use barewire_shm::counters::{CounterView, Placed, QUEUE_COUNTERS, RemoteCopy, SlotCopy, UserCopy};
use barewire_sys::clock::monotonic_ns;
use barewire_sys::discover::{Found, find_counter_pages, open_counter_page};

/// Why nothing can be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// It belongs to somebody else.
    #[error("process {0} cannot be inspected: it belongs to another user (try as root)")]
    NoPermission(i32),
    /// It has no node.
    #[error(
        "process {0} has no barewire node (`barewire ls` lists those that have); the sockets of \
         a program under `barewire run` are shown by `barewire ls {0}`"
    )]
    NoNode(i32),
    /// It has nodes, but not this one.
    #[error(
        "process {0} has no node whose number begins with {1} (`barewire ls --json` lists them)"
    )]
    NoSuchNode(i32, String),
    /// It does not have the preload library.
    #[error(
        "process {0} has no preload library: its program was not started with `barewire run`, or \
         cannot be accelerated (`barewire ls --sockets` lists the processes that have it)"
    )]
    NotPreloaded(i32),
    /// What was looked at could not be written.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// It could not be made into JSON.
    #[error("writing the result: {0}")]
    Json(#[from] serde_json::Error),
}

/// The result of looking.
pub type Result<T> = std::result::Result<T, InspectError>;

/// A node of some process.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The process.
    pub found: Found,
    counters: CounterView,
}

impl NodeView {
    fn open(found: Found) -> Option<NodeView> {
        let region = open_counter_page(found.pid, found.fd_number).ok()?;
        let counters = CounterView::open(&region)?;
        Some(NodeView { found, counters })
    }

    /// Its counters, for who looks again.
    pub fn counters(&self) -> &CounterView {
        &self.counters
    }

    /// Its random number.
    pub fn number(&self) -> [u64; 2] {
        self.counters.identity().node_id
    }

    /// The same, as text.
    pub fn id(&self) -> String {
        let [low, high] = self.number();
        format!("{low:016x}{high:016x}")
    }

    /// How the memory that it makes is placed.
    pub fn placed(&self) -> Placed {
        self.counters.placed()
    }

    /// One of its open connections.
    pub fn connection(&self, number: u32) -> Option<SlotCopy> {
        self.counters
            .slot(number)
            .filter(|slot| slot.connection == number)
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        let started_ns = self.counters.identity().started_ns;
        Duration::from_nanos(monotonic_ns().saturating_sub(started_ns))
    }

    /// The counters of its event queue, with their names.
    pub fn queue(&self) -> Vec<(&'static str, u64)> {
        QUEUE_COUNTERS
            .iter()
            .map(|(counter, name)| (*name, self.counters.queue_counter(*counter)))
            .collect()
    }

    /// What the peers of each other user hold, of those who hold something.
    pub fn users(&self) -> Vec<UserCopy> {
        let mut users = self.counters.users();
        users.retain(|user| user.held.iter().any(|held| *held > 0));
        users
    }

    /// One of them.
    pub fn queue_counter(&self, wanted: &str) -> u64 {
        let counters = self.queue();
        let found = counters.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, value)| *value)
    }

    /// Its links to other hosts, with the numbers of their records, and how many more there are.
    pub fn remotes(&self) -> (Vec<(u32, RemoteCopy)>, u64) {
        (self.counters.remotes(), self.counters.remotes_uncounted())
    }

    /// Its open connections, by number.
    pub fn connections(&self) -> Vec<SlotCopy> {
        (0..self.counters.slots_used())
            .filter_map(|number| self.counters.slot(number))
            .collect()
    }
}

/// All nodes that this user may look at, by process and age.
pub fn all() -> Vec<NodeView> {
    let mut nodes: Vec<NodeView> = Vec::new();
    for node in find_counter_pages().into_iter().filter_map(NodeView::open) {
        // A forked child has its parent's page as well; it is the parent's node.
        let pid_of_maker = node.counters.identity().pid;
        match nodes.iter_mut().find(|known| known.id() == node.id()) {
            Some(known) if node.found.pid as u32 == pid_of_maker => *known = node,
            Some(_) => {}
            None => nodes.push(node),
        }
    }
    nodes.sort_by_key(|node| (node.found.pid, node.counters.identity().started_ns));
    nodes
}

/// The nodes of one process.
pub fn of_process(pid: i32) -> Result<Vec<NodeView>> {
    let mut nodes = all();
    nodes.retain(|node| node.found.pid == pid);
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    Err(why_not(pid, InspectError::NoNode(pid)))
}

/// Why a process cannot be looked at, or else what it lacks.
pub fn why_not(pid: i32, lack: InspectError) -> InspectError {
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        return InspectError::NoProcess(pid);
    }
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            InspectError::NoPermission(pid)
        }
        _ => lack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_processes_are_told_from_those_without_a_node() {
        assert!(matches!(
            of_process(i32::MAX),
            Err(InspectError::NoProcess(i32::MAX))
        ));
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(of_process(own), Err(InspectError::NoNode(_))));
    }
}
