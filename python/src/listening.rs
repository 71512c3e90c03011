//! Names that are listened to, ports, and the requests that come to them.

use std::sync::Mutex;

use barewire::{Listener as InnerListener, Port as InnerPort, Request as InnerRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::calls::Slot;
use crate::connection::Connection;
use crate::errors::Outcome;
use crate::peer::Credentials;

/// A name that is listened to. Closing it gives the name up; connections stay.
#[pyclass(frozen, module = "barewire")]
pub struct Listener {
    slot: Slot<InnerListener>,
    /// The name.
    #[pyo3(get)]
    name: String,
}

impl Listener {
    pub fn new(listener: InnerListener) -> Listener {
        Listener {
            name: listener.name().to_owned(),
            slot: Slot::new(listener, "another thread is closing this listener"),
        }
    }
}

#[pymethods]
impl Listener {
    /// Gives the name up.
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
        format!("<barewire.Listener {}>", self.name)
    }
}

/// An address at which nodes of other hosts reach a node. Closing it leaves links that came by it.
#[pyclass(frozen, module = "barewire")]
pub struct Port {
    slot: Slot<InnerPort>,
    /// Address and port, with the port that the system chose if none was named.
    #[pyo3(get)]
    address: String,
}

impl Port {
    pub fn new(port: InnerPort) -> Port {
        Port {
            address: port.address().to_string(),
            slot: Slot::new(port, "another thread is closing this port"),
        }
    }
}

#[pymethods]
impl Port {
    /// Closes it.
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
}

/// Somebody wants to connect. A request that is forgotten is refused.
#[pyclass(frozen, module = "barewire")]
pub struct Request {
    inner: Mutex<Option<InnerRequest>>,
    /// The process that asks, as the kernel says.
    #[pyo3(get)]
    peer: Credentials,
    /// The name that was asked for.
    #[pyo3(get)]
    name: String,
    data: Vec<u8>,
}

impl Request {
    pub fn new(request: InnerRequest) -> Request {
        Request {
            peer: request.peer().into(),
            name: request.name().to_owned(),
            data: request.data().to_vec(),
            inner: Mutex::new(Some(request)),
        }
    }

    fn take(&self) -> Outcome<InnerRequest> {
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(inner.take().ok_or(barewire::Error::Closed)?)
    }
}

#[pymethods]
impl Request {
    /// What the other side sent along.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.data)
    }

    /// Accepts, with a receive ring of this size or of the node's.
    #[pyo3(signature = (ring_bytes = None))]
    fn accept(&self, ring_bytes: Option<usize>) -> Outcome<Connection> {
        let request = self.take()?;
        let connection = match ring_bytes {
            Some(ring_bytes) => request.accept_with_ring(ring_bytes),
            None => request.accept(),
        };
        Ok(Connection::new(connection?))
    }

    /// Refuses, with a reason that the other side gets to read.
    #[pyo3(signature = (reason = "the listener did not accept"))]
    fn reject(&self, reason: &str) -> Outcome {
        self.take()?.reject(reason);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!(
            "<barewire.Request for {} by {}>",
            self.name,
            self.peer.pid()
        )
    }
}
