//! Who is at the other end.

use barewire::RemotePeer;
use pyo3::prelude::*;

/// A process as the kernel knows it.
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "barewire")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Its process id; 0 if it can not be seen from here.
    pid: i32,
    /// Its user.
    uid: u32,
    /// Its group.
    gid: u32,
}

impl From<barewire::Credentials> for Credentials {
    fn from(who: barewire::Credentials) -> Credentials {
        Credentials {
            pid: who.pid,
            uid: who.uid,
            gid: who.gid,
        }
    }
}

impl Credentials {
    /// Its process id.
    pub fn pid(self) -> i32 {
        self.pid
    }
}

#[pymethods]
impl Credentials {
    fn __repr__(&self) -> String {
        format!(
            "Credentials(pid={}, uid={}, gid={})",
            self.pid, self.uid, self.gid
        )
    }
}

/// A node on another host.
#[pyclass(frozen, get_all, from_py_object, module = "barewire")]
#[derive(Clone)]
pub struct Peer {
    /// Its address and port.
    address: String,
    /// Who it has proved to be.
    identity: String,
    /// How: `certificate`, `secret` or `nobody`.
    how: String,
    /// Its process, as it says.
    pid: u32,
    /// What carries the link, such as `tcp`.
    transport: String,
    /// Whether what the link carries is encrypted.
    is_encrypted: bool,
    /// How long it takes to hear from it, in seconds; `None` before the first time.
    round_trip: Option<f64>,
}

impl From<RemotePeer> for Peer {
    fn from(peer: RemotePeer) -> Peer {
        Peer {
            address: peer.address,
            identity: peer.identity.name,
            how: peer.identity.how.to_string(),
            pid: peer.pid,
            transport: peer.transport,
            is_encrypted: peer.is_encrypted,
            round_trip: peer.round_trip.map(|time| time.as_secs_f64()),
        }
    }
}

#[pymethods]
impl Peer {
    fn __repr__(&self) -> String {
        format!("<barewire.Peer {} at {}>", self.identity, self.address)
    }
}
