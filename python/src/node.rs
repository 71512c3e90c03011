//! Nodes.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use barewire::{
    ApertureConfig, ConnectOptions, ConnectionId, Error, ListenOptions, Node as Inner, NodeConfig,
    Rights,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::aperture::Aperture;
use crate::calls::{Data, NEVER, Slot, timeout as seconds, wait};
use crate::config::{Budget, Hosts, SpinGiven, huge_pages as pages, policy, spin as spinning};
use crate::connection::{Connection, or_nothing};
use crate::errors::Outcome;
use crate::event;
use crate::ids::number;
use crate::listening::{Listener, Port, Request};
use crate::peer::Credentials;

/// A program's attachment to the network: its names, connections and queue of events.
///
/// Threads may share a node; each event goes to one of them. A node lives until it is closed and its connections,
/// listeners and apertures are gone. After `fork` a child has to make a node of its own.
#[pyclass(frozen, module = "barewire")]
pub struct Node {
    slot: Slot<()>,
    inner: Inner,
}

impl Node {
    /// The node, unless it was closed.
    fn open(&self) -> Outcome<&Inner> {
        match self.slot.is_closed() {
            false => Ok(&self.inner),
            true => Err(Error::Closed.into()),
        }
    }
}

#[pymethods]
impl Node {
    /// Makes a node. `spin`: how long to poll before sleeping: `"adaptive"`, `"never"`, `"forever"` or seconds.
    /// `huge_pages`: `"never"`, `"try"`, `"require"`. The others are as in the reference of settings.
    #[new]
    #[pyo3(signature = (*, spin = None, ring_bytes = None, message_bytes_max = None, connections_max = None,
        granted_apertures_max = None, user_budget = None, foreign_budget = None, foreign_ring_bytes_max = None,
        bulk_max = None, backlog_max = None, capture = None, lock_memory = false, numa_node = None,
        huge_pages = "never", hosts = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        spin: Option<SpinGiven>,
        ring_bytes: Option<usize>,
        message_bytes_max: Option<usize>,
        connections_max: Option<u32>,
        granted_apertures_max: Option<u32>,
        user_budget: Option<Budget>,
        foreign_budget: Option<Budget>,
        foreign_ring_bytes_max: Option<usize>,
        bulk_max: Option<u32>,
        backlog_max: Option<u32>,
        capture: Option<PathBuf>,
        lock_memory: bool,
        numa_node: Option<u32>,
        huge_pages: &str,
        hosts: Option<Hosts>,
    ) -> Outcome<Node> {
        let usual = NodeConfig::default();
        let config = NodeConfig {
            spin: spinning(spin)?,
            ring_bytes: ring_bytes.unwrap_or(usual.ring_bytes),
            message_bytes_max: message_bytes_max.unwrap_or(usual.message_bytes_max),
            connections_max: connections_max.unwrap_or(usual.connections_max),
            granted_apertures_max: granted_apertures_max.unwrap_or(usual.granted_apertures_max),
            user_budget: user_budget.map_or(usual.user_budget, Into::into),
            foreign_budget: foreign_budget.map_or(usual.foreign_budget, Into::into),
            foreign_ring_bytes_max: foreign_ring_bytes_max.unwrap_or(usual.foreign_ring_bytes_max),
            bulk_max: bulk_max.unwrap_or(usual.bulk_max),
            backlog_max: backlog_max.unwrap_or(usual.backlog_max),
            capture,
            lock_memory,
            numa_node,
            huge_pages: pages(huge_pages)?,
            hosts: hosts.map_or(usual.hosts, |hosts| hosts.0),
        };
        Ok(Node {
            inner: Inner::with_config(config)?,
            slot: Slot::new((), "another thread is closing this node"),
        })
    }

    /// Listens under a name. Whoever wants to connect appears as a `Request`: an event, or from `next_request`. Only
    /// processes of this user may connect, and those that the arguments name.
    #[pyo3(signature = (name, *, users = vec![], groups = vec![], certificates = vec![], anyone = false))]
    fn listen(
        &self,
        name: &str,
        users: Vec<u32>,
        groups: Vec<u32>,
        certificates: Vec<String>,
        anyone: bool,
    ) -> Outcome<Listener> {
        let options = ListenOptions {
            policy: policy(users, groups, certificates, anyone),
        };
        Ok(Listener::new(self.open()?.listen_with(name, options)?))
    }

    /// Lets nodes of other hosts reach this one at an address such as `0.0.0.0:7400`, under all names that it listens to.
    #[pyo3(signature = (address, /))]
    fn listen_on(&self, py: Python<'_>, address: &str) -> Outcome<Port> {
        let node = self.open()?;
        let port = py.detach(|| node.listen_on(address))?;
        Ok(Port::new(port))
    }

    /// Connects to a name, or to `host:port/name`; waits for the answer, and for the name to appear if `wait_for_name`, at
    /// most `timeout` seconds. `owner`: the user who must hold the name; by default the own one. `data`: at most 4096
    /// bytes for the listener.
    #[pyo3(signature = (name, *, timeout = 5.0, wait_for_name = true, owner = None, data = None, ring_bytes = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn connect(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: f64,
        wait_for_name: bool,
        owner: Option<u32>,
        data: Option<Data<'_>>,
        ring_bytes: Option<usize>,
    ) -> Outcome<Connection> {
        let options = ConnectOptions {
            timeout: finite(timeout)?,
            wait_for_name,
            owner,
            data: data.map(Data::into_vec).unwrap_or_default(),
            ring_bytes,
        };
        let (node, name) = (self.open()?.clone(), name.to_owned());
        let (told, answer) = mpsc::channel();
        // A request can not be made in slices: the listener would see one for each. If a signal ends the wait here, the
        // thread ends with the timeout, and what it opens is closed.
        let connecting = move || {
            // If nobody waits for it any more, it is closed.
            let _ = told.send(node.connect_with(&name, &options));
        };
        thread::Builder::new()
            .name("barewire-connect".to_owned())
            .spawn(connecting)
            .map_err(PyErr::from)?;
        let found = wait(py, None, &NEVER, move |slice| {
            match answer.recv_timeout(slice) {
                Ok(answer) => answer.map(Some),
                Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
                Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::Closed),
            }
        })?;
        found.map(Connection::new).ok_or(Error::Timeout.into())
    }

    /// Begins to connect and returns at once. The answer comes as an event `Connected` or `ConnectFailed` with the same
    /// `id`. It does not wait for a name that is not there.
    #[pyo3(signature = (name, *, owner = None, data = None, ring_bytes = None))]
    fn start_connect(
        &self,
        name: &str,
        owner: Option<u32>,
        data: Option<Data<'_>>,
        ring_bytes: Option<usize>,
    ) -> Outcome<Connecting> {
        let options = ConnectOptions {
            owner,
            data: data.map(Data::into_vec).unwrap_or_default(),
            ring_bytes,
            ..ConnectOptions::default()
        };
        let node = self.open()?;
        Ok(Connecting {
            id: node.start_connect(name, &options)?,
            node: node.clone(),
        })
    }

    /// Waits for the next request to connect, at most `timeout` seconds. Other events stay where they are.
    #[pyo3(signature = (timeout = None))]
    fn next_request(&self, py: Python<'_>, timeout: Option<f64>) -> Outcome<Request> {
        let node = self.open()?;
        let found = wait(py, seconds(timeout)?, self.slot.closing(), |slice| {
            or_nothing(node.next_request(slice))
        })?;
        found.map(Request::new).ok_or(Error::Timeout.into())
    }

    /// The events that are there, at most `max`; never waits. After an empty list the descriptor of the node (`fileno`)
    /// becomes readable with the next event.
    #[pyo3(signature = (max = 64))]
    fn poll<'py>(&self, py: Python<'py>, max: usize) -> Outcome<Bound<'py, PyList>> {
        let mut events = Vec::new();
        self.open()?.poll(&mut events, max)?;
        Ok(event::list(py, events)?)
    }

    /// Waits for events, at most `timeout` seconds, and returns at most `max` of them. The list is empty at the time-out,
    /// or when a tripwire with the action `wake` fired.
    #[pyo3(signature = (max = 64, timeout = None))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        timeout: Option<f64>,
    ) -> Outcome<Bound<'py, PyList>> {
        let node = self.open()?;
        let waited = wait(py, seconds(timeout)?, self.slot.closing(), |slice| {
            let begun = std::time::Instant::now();
            let mut events = Vec::new();
            let count = node.wait(&mut events, max, slice)?;
            // Without an event before the time is over: a tripwire woke us.
            Ok((count > 0 || begun.elapsed() < slice).then_some(events))
        })?;
        Ok(event::list(py, waited.unwrap_or_default())?)
    }

    /// Makes memory that peers may be granted: `bytes` long, which they may read, and write unless `rights` is `"read"`.
    #[pyo3(signature = (bytes, *, rights = "read-write", tripwires_max = 1024))]
    fn export(&self, bytes: usize, rights: &str, tripwires_max: u32) -> Outcome<Aperture> {
        let rights = match rights {
            "read" => Rights::Read,
            "read-write" => Rights::ReadWrite,
            other => {
                let problem = format!("rights is \"read\" or \"read-write\"; not \"{other}\"");
                return Err(PyValueError::new_err(problem).into());
            }
        };
        let config = ApertureConfig {
            tripwires_max,
            ..ApertureConfig::new(bytes, rights)
        };
        Ok(Aperture::new(self.open()?.export(config)?))
    }

    /// Its settings that can be changed while it lives, with their values as text.
    fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let settings = self.open()?.settings().into_iter();
        Ok(settings
            .map(|setting| (setting.key, setting.value))
            .collect())
    }

    /// Changes settings, by their names in `settings()`: all of them or, with an error, none.
    #[pyo3(signature = (changes, /))]
    fn set(&self, changes: BTreeMap<String, String>) -> Outcome {
        let changes: Vec<(&str, &str)> = changes
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        Ok(self.open()?.set(&changes)?)
    }

    /// Writes out what the capture has recorded.
    fn flush_capture(&self, py: Python<'_>) -> Outcome {
        let node = self.open()?;
        Ok(py.detach(|| node.flush_capture())?)
    }

    /// What peers see of this process: `pid`, `uid`, `gid`.
    #[getter]
    fn credentials(&self) -> Credentials {
        self.inner.credentials().into()
    }

    /// Its descriptor, for `select`, `poll`, `epoll` or an event loop: readable when there are events, if `poll` has
    /// returned an empty list since.
    fn fileno(&self) -> Outcome<i32> {
        Ok(self.open()?.as_raw_fd())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.slot.is_closed()
    }

    /// Ends all waits and refuses further calls. The node goes when its connections, listeners and apertures are gone, too.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.slot.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<barewire.{:?}>", self.inner)
    }
}

fn finite(timeout: f64) -> PyResult<Duration> {
    seconds(Some(timeout))?
        .ok_or_else(|| PyValueError::new_err("connecting needs a timeout: a number of seconds"))
}

/// A connection that `start_connect` began.
#[pyclass(frozen, module = "barewire")]
pub struct Connecting {
    id: ConnectionId,
    node: Inner,
}

#[pymethods]
impl Connecting {
    /// Its number, as the event with the answer names it.
    #[getter]
    fn id(&self) -> u32 {
        number(self.id)
    }

    /// Gives it up, if no event has reported it yet.
    fn cancel(&self) {
        self.node.cancel_connect(self.id);
    }
}
