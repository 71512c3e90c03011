//! The counters of nodes, of this process and of others, as `barewire stat` reads them.

use std::collections::BTreeMap;

use barewire_shm::counters::{COUNTERS, CounterView, QUEUE_COUNTERS};
use barewire_sys::discover::{find_counter_pages, open_counter_page};
use pyo3::prelude::*;

/// A node's counters at one moment.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct NodeCounters {
    /// Its process.
    pid: i32,
    /// The name of the program, at most 15 bytes.
    program: String,
    /// The counters of the node, by their names.
    node: BTreeMap<&'static str, u64>,
    /// Those of each open connection, by its number.
    connections: BTreeMap<u32, BTreeMap<&'static str, u64>>,
}

#[pymethods]
impl NodeCounters {
    fn __repr__(&self) -> String {
        format!("<barewire.NodeCounters of process {}>", self.pid)
    }
}

/// The counters of a connection, in the order in which they are kept.
const NAMES: [&str; COUNTERS] = [
    "messages_out",
    "bytes_out",
    "messages_in",
    "bytes_in",
    "full",
    "bells",
];

/// The counters of the nodes of a process, or of all processes that this user may look at. Reading does not disturb them.
#[pyfunction]
#[pyo3(signature = (pid = None))]
pub fn counters(pid: Option<i32>) -> Vec<NodeCounters> {
    let pages = find_counter_pages().into_iter();
    let wanted = pages.filter(|found| pid.is_none_or(|pid| found.pid == pid));
    wanted
        .filter_map(|found| {
            // It may have gone meanwhile.
            let region = open_counter_page(found.pid, found.fd_number).ok()?;
            let view = CounterView::open(&region)?;
            let slots = (0..view.slots_used()).filter_map(|number| view.slot(number));
            Some(NodeCounters {
                pid: found.pid,
                program: found.comm,
                node: QUEUE_COUNTERS
                    .iter()
                    .map(|(counter, name)| (*name, view.queue_counter(*counter)))
                    .collect(),
                connections: slots
                    .map(|slot| {
                        (
                            slot.connection,
                            NAMES.into_iter().zip(slot.counters).collect(),
                        )
                    })
                    .collect(),
            })
        })
        .collect()
}
