//! Capabilities: capabilities(7).

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::error::{Result, on};

/// What a process may keep of root's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// To configure networks (`CAP_NET_ADMIN`).
    NetAdmin,
    /// To open packet sockets (`CAP_NET_RAW`).
    NetRaw,
    /// To load programs into the kernel (`CAP_BPF`).
    Bpf,
    /// To lock memory beyond the limit (`CAP_IPC_LOCK`).
    IpcLock,
}

impl Capability {
    const fn raw(self) -> CapabilitySet {
        match self {
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::Bpf => CapabilitySet::BPF,
            Self::IpcLock => CapabilitySet::IPC_LOCK,
        }
    }
}

/// Has the calling thread, and what it starts from now on, keep only those of these capabilities that it has. It gets
/// none back, neither by starting a program that would give it some. Call it before any thread is started.
///
/// # Errors
/// Only in a sandbox without these calls.
pub fn keep_capabilities(kept: &[Capability]) -> Result<()> {
    const WHAT: &str = "drop capabilities (prctl, capset)";
    let kept = kept
        .iter()
        .fold(CapabilitySet::empty(), |all, one| all | one.raw());
    // What a program that is started could get: nothing, now that it still can be said. It needs CAP_SETPCAP. Without that,
    // the flag below does as much.
    for capability in CapabilitySet::all() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    set_no_new_privs(true).map_err(on(WHAT))?;
    let has = capabilities(None).map_err(on(WHAT))?;
    let kept = has.permitted & kept;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(on(WHAT))
}
