//! Nodes, names to listen to, requests to connect.

use std::ffi::{c_char, c_void};
use std::os::fd::AsRawFd;

use barewire::{ConnectionId, Node};

use crate::border::{
    call_on, close, copy_bytes, copy_text, make, put, status, status_on, text, timeout,
};
use crate::failure::{BwE, Failure};
use crate::handles::{enter, take};
use crate::kinds::{BwConnection, BwListener, BwNode, BwPort, BwRequest, NodeObject, Sending};
use crate::messages::length;
use crate::peers::BwCredentials;
use crate::settings::{
    BwConnectOptions, BwListenOptions, BwNodeConfig, connect_options, listen_options, node_config,
};

fn node_object(node: Node) -> NodeObject {
    NodeObject {
        node,
        events: Vec::new(),
        kept: crate::kept::Kept::default(),
    }
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn bw_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Makes a node. config may be null.
///
/// # Safety
/// `config` is null or leads to the structure, `out` to room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_new(config: *const BwNodeConfig, out: *mut BwNode) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe {
        make(out, || {
            Ok(node_object(Node::with_config(node_config(config)?)?))
        })
    })
}

/// Another handle of the same node, for another thread: several threads may wait for its events, and each event goes
/// to one of them. The node lives until its last handle, connection, listener and aperture is closed.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_clone(node: BwNode, out: *mut BwNode) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, || Ok(node_object(enter(node)?.node.clone()))) })
}

/// Closes this handle of the node.
#[unsafe(no_mangle)]
pub extern "C" fn bw_node_close(node: BwNode) -> i32 {
    close(node)
}

/// The descriptor of the node, for select, poll and epoll: readable when there are events, provided that bw_node_poll
/// has returned 0 since the last ones. Do not read from it or close it. Valid as long as the node.
#[unsafe(no_mangle)]
pub extern "C" fn bw_node_descriptor(node: BwNode) -> i32 {
    status_on(node, |n| Ok(n.node.as_raw_fd()))
}

/// The credentials that peers see of us.
///
/// # Safety
/// `out` leads to room for the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_credentials(node: BwNode, out: *mut BwCredentials) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe { put(out, n.node.credentials().into()) })
}

/// Listens under a name. Whoever connects appears with bw_node_next_request or as BW_EVENT_KIND_REQUEST.
/// options may be null: then only processes of the same user may connect.
///
/// # Safety
/// `name` ends with a zero byte, `options` is null or leads to the structure, `out` to room for a handle. One thread
/// at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_listen(
    node: BwNode,
    name: *const c_char,
    options: *const BwListenOptions,
    out: *mut BwListener,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe {
        let (name, options) = (text(name, "the name")?, listen_options(options)?);
        make(out, || Ok(n.node.listen_with(name, options)?))
    })
}

/// Gives the name up. Connections stay.
#[unsafe(no_mangle)]
pub extern "C" fn bw_listener_close(listener: BwListener) -> i32 {
    close(listener)
}

/// Lets nodes of other hosts reach this one at an address, such as "0.0.0.0:7400", under all names that it listens
/// to. Set bw_node_config.security first.
///
/// # Safety
/// `address` ends with a zero byte, `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_listen_on(
    node: BwNode,
    address: *const c_char,
    out: *mut BwPort,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe {
        let address = text(address, "the address")?;
        make(out, || Ok(n.node.listen_on(address)?))
    })
}

/// The address with the port, which the system has chosen if it was 0. Returns its length, without the zero byte at
/// its end.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_port_address(
    port: BwPort,
    into: *mut c_char,
    into_bytes: usize,
) -> i64 {
    // SAFETY: the caller promises it.
    call_on(port, |p| unsafe {
        copy_text(&p.address().to_string(), into, into_bytes)
    })
}

/// Closes the port. Links that came by it stay.
#[unsafe(no_mangle)]
pub extern "C" fn bw_port_close(port: BwPort) -> i32 {
    close(port)
}

/// Connects to a name, such as "prices", or "host:7400/prices" for one on another host; waits up to five seconds, also
/// for the name to appear. options may be null.
///
/// # Safety
/// `name` ends with a zero byte, `options` is null or leads to the structure, `out` to room for a handle. One thread
/// at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_connect(
    node: BwNode,
    name: *const c_char,
    options: *const BwConnectOptions,
    out: *mut BwConnection,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe {
        let (name, options) = (text(name, "the name")?, connect_options(options)?);
        make(out, || {
            Ok(Sending::new(n.node.connect_with(name, &options)?))
        })
    })
}

/// Begins to connect and returns at once with the number that the connection will have. The answer comes as
/// BW_EVENT_KIND_CONNECTED or BW_EVENT_KIND_CONNECT_FAILED with that number. The time-out of the options does not
/// apply, nor does their waiting for a name.
///
/// # Safety
/// `name` ends with a zero byte, `options` is null or leads to the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_start_connect(
    node: BwNode,
    name: *const c_char,
    options: *const BwConnectOptions,
) -> i64 {
    // SAFETY: the caller promises it.
    call_on(node, |n| unsafe {
        let (name, options) = (text(name, "the name")?, connect_options(options)?);
        Ok(length(n.node.start_connect(name, &options)?.index()))
    })
}

/// Gives up what bw_node_start_connect began and no event has reported yet.
#[unsafe(no_mangle)]
pub extern "C" fn bw_node_cancel_connect(node: BwNode, connection_number: u32) -> i32 {
    status_on(node, |n| {
        n.node
            .cancel_connect(ConnectionId::from_index(connection_number));
        Ok(0)
    })
}

/// Waits for the next request to connect to any of our names. Other events stay where they are.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT (then BW_E_TIMEOUT if there is none).
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_next_request(
    node: BwNode,
    timeout_ns: i64,
    out: *mut BwRequest,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe {
        make(out, || Ok(n.node.next_request(timeout(timeout_ns))?))
    })
}

/// The process that asks, as the kernel says.
///
/// # Safety
/// `out` leads to room for the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request_peer(request: BwRequest, out: *mut BwCredentials) -> i32 {
    // SAFETY: the caller promises it.
    status_on(request, |r| unsafe { put(out, r.peer().into()) })
}

/// The name that was asked for. Returns its length, without the zero byte at its end.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request_name(
    request: BwRequest,
    into: *mut c_char,
    into_bytes: usize,
) -> i64 {
    // SAFETY: the caller promises it.
    call_on(request, |r| unsafe {
        copy_text(r.name(), into, into_bytes)
    })
}

/// What the peer sent along. Returns how many bytes that is.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request_data(
    request: BwRequest,
    into: *mut c_void,
    into_bytes: usize,
) -> i64 {
    // SAFETY: the caller promises it.
    call_on(request, |r| unsafe {
        copy_bytes(r.data(), into, into_bytes)
    })
}

/// Accepts. The handle of the request is closed, also if this fails. ring_bytes: size of our receive ring, a power of
/// two; 0 for the node's.
///
/// # Safety
/// `out` leads to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request_accept(
    request: BwRequest,
    ring_bytes: usize,
    out: *mut BwConnection,
) -> i32 {
    let accept = || {
        let request = take(request)?;
        Ok(Sending::new(match ring_bytes {
            0 => request.accept()?,
            _ => request.accept_with_ring(ring_bytes)?,
        }))
    };
    // SAFETY: the caller promises it.
    status(|| unsafe { make(out, accept) })
}

/// Refuses, with a reason that the other side gets to read. The handle of the request is closed.
///
/// # Safety
/// `reason` ends with a zero byte. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request_reject(request: BwRequest, reason: *const c_char) -> i32 {
    status(|| {
        // SAFETY: the caller promises it.
        let reason = unsafe { text(reason, "the reason")? };
        take(request)?.reject(reason);
        Ok(0)
    })
}

/// Refuses without a reason.
#[unsafe(no_mangle)]
pub extern "C" fn bw_request_close(request: BwRequest) -> i32 {
    close(request)
}

/// Changes a setting of a live node, such as "spin" to "20us": those that `barewire set` changes.
///
/// # Safety
/// Both end with a zero byte. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_set(
    node: BwNode,
    key: *const c_char,
    value: *const c_char,
) -> i32 {
    // SAFETY: the caller promises it.
    status_on(node, |n| unsafe {
        n.node
            .set(&[(text(key, "the key")?, text(value, "the value")?)])?;
        Ok(0)
    })
}

/// A setting of a live node, as it is now. Returns the length of its text, without the zero byte at its end.
///
/// # Safety
/// `key` ends with a zero byte, `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_get(
    node: BwNode,
    key: *const c_char,
    into: *mut c_char,
    into_bytes: usize,
) -> i64 {
    call_on(node, |n| {
        // SAFETY: the caller promises it.
        let key = unsafe { text(key, "the key")? };
        let settings = n.node.settings();
        let Some(setting) = settings.iter().find(|setting| setting.key == key) else {
            let keys: Vec<&str> = settings
                .iter()
                .map(|setting| setting.key.as_str())
                .collect();
            return Err(Failure::caller(
                BwE::BadSetting,
                format!(
                    "{key}: there is no such setting; there are: {}",
                    keys.join(", ")
                ),
            ));
        };
        // SAFETY: the caller promises it.
        unsafe { copy_text(&setting.value, into, into_bytes) }
    })
}

/// Writes out what bw_node_config.capture_path has recorded. That is also done when the node goes away.
#[unsafe(no_mangle)]
pub extern "C" fn bw_node_flush_capture(node: BwNode) -> i32 {
    status_on(node, |n| {
        n.node.flush_capture()?;
        Ok(0)
    })
}
