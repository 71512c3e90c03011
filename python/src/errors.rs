//! Errors of the network as exceptions of `barewire.errors`: each has a code, and says whose fault it is.

use barewire::{AccessError, Error, Fault};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// What may go wrong in a call from Python.
pub enum Problem {
    /// The network says so.
    Network(Error),
    /// Another thread is in the middle of a call on the same object.
    Busy(&'static str),
    /// Whatever else Python has an exception for.
    Python(PyErr),
}

/// The result of a method.
pub type Outcome<T = ()> = Result<T, Problem>;

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Network(error)
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Problem {
        Problem::Network(error.into())
    }
}

impl From<PyErr> for Problem {
    fn from(error: PyErr) -> Problem {
        Problem::Python(error)
    }
}

impl From<Problem> for PyErr {
    #[cold]
    fn from(problem: Problem) -> PyErr {
        Python::attach(|py| match problem {
            Problem::Python(error) => error,
            Problem::Network(error) => exception(py, &error),
            Problem::Busy(advice) => {
                made(py, "Busy", advice, "caller").unwrap_or_else(|error| error)
            }
        })
    }
}

/// The exception for an error of the network.
#[cold]
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let fault = match error.fault() {
        Fault::Caller => "caller",
        Fault::Peer => "peer",
        Fault::Environment => "system",
    };
    made(py, code(error), &error.to_string(), fault).unwrap_or_else(|error| error)
}

/// The exception of this code; one that `barewire.errors` does not know is a plain `Error`.
fn made(py: Python<'_>, code: &str, message: &str, fault: &str) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || {
        let module = py.import("barewire.errors")?;
        module.getattr("_of").map(Bound::unbind)
    })?;
    let keywords = PyDict::new(py);
    keywords.set_item("code", code)?;
    keywords.set_item("fault", fault)?;
    let exception = make.bind(py).call((message,), Some(&keywords))?;
    Ok(PyErr::from_value(exception))
}

/// A word for each kind of error, which is also the name of its class.
fn code(error: &Error) -> &'static str {
    match error {
        Error::BadName { .. } => "BadName",
        Error::NameTaken { .. } => "NameTaken",
        Error::NoSuchName { .. } => "NoSuchName",
        Error::OwnName { .. } => "OwnName",
        Error::WrongOwner { .. } => "WrongOwner",
        Error::HostUnreachable { .. } => "HostUnreachable",
        Error::HostLost { .. } => "HostLost",
        Error::Refused { .. } => "Refused",
        Error::Timeout => "Timeout",
        Error::OutOfLimits { .. } => "OutOfLimits",
        Error::LimitReached { .. } => "LimitReached",
        Error::GrantedAlready => "GrantedAlready",
        Error::TooLong { .. } => "TooLong",
        Error::BufferTooSmall { .. } => "BufferTooSmall",
        Error::Finished => "Finished",
        Error::PeerDeaf => "PeerDeaf",
        Error::PeerGone | Error::Access(AccessError::PeerGone) => "PeerGone",
        Error::PeerDied { .. } => "PeerDied",
        Error::PeerMisbehaved(_) => "PeerMisbehaved",
        Error::Closed => "Closed",
        Error::Forked => "Forked",
        Error::OtherNode => "OtherNode",
        Error::Access(AccessError::Revoked) => "Revoked",
        Error::Access(_) => "Access",
        Error::Arm(_) => "Arm",
        Error::BadSetting { .. } => "BadSetting",
        Error::Capture { .. } => "Capture",
        Error::System(_) => "System",
        _ => "Error",
    }
}
