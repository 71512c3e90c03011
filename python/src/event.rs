//! The events of a node, each a class of its own.

use barewire::Event;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::aperture::RemoteAperture;
use crate::connection::Connection;
use crate::errors::exception;
use crate::ids::{aperture_number, number};
use crate::listening::Request;

/// A connection begun with `start_connect` is open.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Connected {
    id: u32,
    connection: Py<Connection>,
}

/// A connection begun with `start_connect` failed.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct ConnectFailed {
    id: u32,
    error: Py<PyAny>,
}

/// Try this connection: there may be something to receive, room to send, or an end.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Ready {
    id: u32,
}

/// The peer of a connection closed it, died or broke the protocol. What it sent before can still be received.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Closed {
    id: u32,
    reason: Py<PyAny>,
}

/// A message outside the queue.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct OutOfBand {
    id: u32,
    data: Py<PyBytes>,
}

/// The peer granted us an aperture.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Granted {
    id: u32,
    cookie: u64,
    aperture: Py<RemoteAperture>,
}

/// A tripwire with the action `event` fired, at least once since its last event.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct TripwireFired {
    cookie: u64,
    /// The `id` of the aperture.
    aperture: String,
}

/// A bulk transfer has ended: with these bytes, or with an error.
#[pyclass(frozen, get_all, module = "barewire")]
pub struct Completion {
    cookie: u64,
    data: Option<Py<PyBytes>>,
    error: Option<Py<PyAny>>,
}

#[pymethods]
impl Connected {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str) = ("id", "connection");
}

#[pymethods]
impl ConnectFailed {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str) = ("id", "error");
}

#[pymethods]
impl Ready {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str,) = ("id",);
}

#[pymethods]
impl Closed {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str) = ("id", "reason");
}

#[pymethods]
impl OutOfBand {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str) = ("id", "data");
}

#[pymethods]
impl Granted {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str, &'static str) = ("id", "cookie", "aperture");
}

#[pymethods]
impl TripwireFired {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str) = ("cookie", "aperture");
}

#[pymethods]
impl Completion {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str, &'static str) = ("cookie", "data", "error");
}

/// These events as a list.
pub fn list(py: Python<'_>, events: Vec<Event>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for event in events {
        if let Some(object) = object(py, event)? {
            list.append(object)?;
        }
    }
    Ok(list)
}

fn object(py: Python<'_>, event: Event) -> PyResult<Option<Bound<'_, PyAny>>> {
    Ok(Some(match event {
        Event::Ready(id) => Bound::new(py, Ready { id: number(id) })?.into_any(),
        Event::Request(request) => Bound::new(py, Request::new(request))?.into_any(),
        Event::Connected(connection) => {
            let connected = Connected {
                id: number(connection.id()),
                connection: Py::new(py, Connection::new(*connection))?,
            };
            Bound::new(py, connected)?.into_any()
        }
        Event::ConnectFailed { connection, error } => {
            let failed = ConnectFailed {
                id: number(connection),
                error: exception(py, &error).into_value(py).into_any(),
            };
            Bound::new(py, failed)?.into_any()
        }
        Event::Closed { connection, reason } => {
            let closed = Closed {
                id: number(connection),
                reason: exception(py, &reason).into_value(py).into_any(),
            };
            Bound::new(py, closed)?.into_any()
        }
        Event::OutOfBand { connection, data } => {
            let out_of_band = OutOfBand {
                id: number(connection),
                data: PyBytes::new(py, &data).unbind(),
            };
            Bound::new(py, out_of_band)?.into_any()
        }
        Event::Granted {
            connection,
            cookie,
            aperture,
        } => {
            let granted = Granted {
                id: number(connection),
                cookie,
                aperture: Py::new(py, RemoteAperture::new(aperture))?,
            };
            Bound::new(py, granted)?.into_any()
        }
        Event::Tripwire { cookie, aperture } => {
            let aperture = aperture_number(aperture);
            Bound::new(py, TripwireFired { cookie, aperture })?.into_any()
        }
        Event::Completion { cookie, result } => {
            let (data, error) = match result {
                Ok(bytes) => (Some(PyBytes::new(py, &bytes).unbind()), None),
                Err(error) => {
                    let error = exception(py, &error).into_value(py).into_any();
                    (None, Some(error))
                }
            };
            let completion = Completion {
                cookie,
                data,
                error,
            };
            Bound::new(py, completion)?.into_any()
        }
        // A kind that this package does not know yet.
        _ => return Ok(None),
    }))
}
