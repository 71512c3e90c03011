//! Settings, from Python's values.

use std::path::PathBuf;

use barewire::{Budget as InnerBudget, HostsConfig, HugePages, Policy, Security, Spin, Transport};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::timeout as seconds;

/// One of a few words.
fn word<T: Clone>(what: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == given) {
        return Ok(value.clone());
    }
    let known: Vec<String> = words
        .iter()
        .map(|(word, _)| format!("\"{word}\""))
        .collect();
    Err(PyValueError::new_err(format!(
        "{what} is {}; not \"{given}\"",
        known.join(", ")
    )))
}

/// How long to spin: a word or seconds.
#[derive(FromPyObject)]
pub enum SpinGiven {
    /// Exactly so many seconds.
    Seconds(f64),
    /// `never`, `forever`, `adaptive`.
    Word(String),
}

pub fn spin(given: Option<SpinGiven>) -> PyResult<Spin> {
    let adaptive = Spin::Adaptive { at_most: None };
    match given {
        None => Ok(adaptive),
        Some(SpinGiven::Seconds(time)) => Ok(seconds(Some(time))?.map_or(Spin::Forever, Spin::For)),
        Some(SpinGiven::Word(given)) => {
            let words = [
                ("never", Spin::Never),
                ("forever", Spin::Forever),
                ("adaptive", adaptive),
            ];
            word("spin", &given, &words)
        }
    }
}

pub fn huge_pages(given: &str) -> PyResult<HugePages> {
    let words = [
        ("never", HugePages::Never),
        ("try", HugePages::Try),
        ("require", HugePages::Require),
    ];
    word("huge_pages", given, &words)
}

/// What peers of other users may use up of a node.
#[pyclass(frozen, get_all, from_py_object, module = "barewire")]
#[derive(Clone)]
pub struct Budget {
    links: u64,
    connections: u64,
    private_bytes: u64,
    mappings: u64,
    descriptors: u64,
    events: u64,
}

#[pymethods]
impl Budget {
    #[new]
    #[pyo3(signature = (*, links, connections, private_bytes, mappings, descriptors, events))]
    fn new(
        links: u64,
        connections: u64,
        private_bytes: u64,
        mappings: u64,
        descriptors: u64,
        events: u64,
    ) -> Budget {
        Budget {
            links,
            connections,
            private_bytes,
            mappings,
            descriptors,
            events,
        }
    }
}

impl From<Budget> for InnerBudget {
    fn from(budget: Budget) -> InnerBudget {
        InnerBudget {
            links: budget.links,
            connections: budget.connections,
            private_bytes: budget.private_bytes,
            mappings: budget.mappings,
            descriptors: budget.descriptors,
            events: budget.events,
        }
    }
}

/// How a node talks to nodes on other hosts.
#[pyclass(frozen, from_py_object, module = "barewire")]
#[derive(Clone)]
pub struct Hosts(pub HostsConfig);

#[pymethods]
impl Hosts {
    /// `security`: `"none"` (no link to another host), `"keys"` (TLS 1.3 with what `barewire node keygen` makes, in
    /// `keys_folder` or where that puts them), `"insecure"` (nothing is proved or encrypted; private addresses only),
    /// `"insecure-anywhere"`. `transport`: `"stream"`, or `"libfabric"` with a `provider`. `timeout`: seconds of silence
    /// after which a link is lost. `shortcut`: whether two nodes on one host talk through shared memory.
    #[new]
    #[pyo3(signature = (*, security = "none", keys_folder = None, transport = "stream", provider = None, timeout = 5.0,
        ring_bytes = 65536, shortcut = true))]
    fn new(
        security: &str,
        keys_folder: Option<PathBuf>,
        transport: &str,
        provider: Option<String>,
        timeout: f64,
        ring_bytes: usize,
        shortcut: bool,
    ) -> PyResult<Hosts> {
        let securities = [
            ("none", Security::None),
            (
                "keys",
                Security::Keys {
                    folder: keys_folder,
                },
            ),
            ("insecure", Security::Insecure),
            ("insecure-anywhere", Security::InsecureAnywhere),
        ];
        let transports = [
            ("stream", Transport::Stream),
            ("libfabric", Transport::Libfabric { provider }),
        ];
        let timeout = seconds(Some(timeout))?
            .ok_or_else(|| PyValueError::new_err("timeout is a number of seconds"))?;
        Ok(Hosts(HostsConfig {
            security: word("security", security, &securities)?,
            transport: word("transport", transport, &transports)?,
            timeout,
            ring_bytes,
            shortcut,
        }))
    }
}

/// Who may connect, beside the own user.
pub fn policy(
    users: Vec<u32>,
    groups: Vec<u32>,
    certificates: Vec<String>,
    anyone: bool,
) -> Policy {
    let mut policy = match anyone {
        true => Policy::anyone(),
        false => Policy::same_user(),
    };
    for user in users {
        policy = policy.and_user(user);
    }
    for group in groups {
        policy = policy.and_group(group);
    }
    for name in certificates {
        policy = policy.and_certificate(&name);
    }
    policy
}
