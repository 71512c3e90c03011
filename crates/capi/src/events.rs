//! The event queue: events as plain structures.

use std::ffi::{c_char, c_void};
use std::ptr;

use barewire::{ConnectionId, Error, Event};

use crate::border::{call_on, null, status, timeout};
use crate::failure::{BwE, BwFault, Failure, Result, code_of, fault_of};
use crate::handles::{Handle, open, take};
use crate::kept::Kept;
use crate::kinds::{BwConnection, BwNode, BwRemoteAperture, BwRequest, NodeObject, Sending};

/// What an event is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BwEventKind {
    /// One that this version of the library has no word for. Pass over it.
    Other = 0,
    /// Somebody wants to connect to one of our names: request.
    Request = 1,
    /// What bw_node_start_connect began is open: connection, connection_number.
    Connected = 2,
    /// What bw_node_start_connect began has failed: connection_number, error_code, error_fault, text.
    ConnectFailed = 3,
    /// Try connection_number: there may be something to receive, room to send, or an end. It comes again if you receive
    /// and stop before BW_E_WOULD_BLOCK.
    Ready = 4,
    /// The peer of connection_number closed it, died or broke the protocol: error_code, error_fault, text. What it had
    /// sent before can still be received. Comes once.
    Closed = 5,
    /// A message outside the queue: connection_number, data, data_bytes.
    OutOfBand = 6,
    /// The peer granted an aperture: connection_number, cookie, aperture.
    Granted = 7,
    /// A tripwire with BW_ACTION_ENQUEUE fired: cookie, aperture_number.
    Tripwire = 8,
    /// A bulk transfer has ended: cookie, and data with data_bytes; or error_code, error_fault and text.
    Completion = 9,
}

/// Something that happened on a node. What its kind does not name is zero.
/// You own the handles in it: accept or reject a request, close a connection or an aperture, or have
/// bw_event_discard do that.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwEvent {
    /// A value of bw_event_kind.
    pub kind: i32,
    /// The number of a connection on this node: small, and used again, so that it can index a table.
    pub connection_number: u32,
    /// Of a grant, a tripwire or a bulk transfer.
    pub cookie: u64,
    /// The aperture that a tripwire was set on, as bw_aperture_number says it.
    pub aperture_number: u64,
    /// A request to connect.
    pub request: BwRequest,
    /// A connection that was opened.
    pub connection: BwConnection,
    /// An aperture that was granted.
    pub aperture: BwRemoteAperture,
    /// Bytes, until the next wait or poll with the same handle of the node.
    pub data: *const c_void,
    /// How many.
    pub data_bytes: usize,
    /// A value of bw_e; 0 if nothing failed.
    pub error_code: i32,
    /// A value of bw_fault.
    pub error_fault: i32,
    /// What failed, until the next wait or poll with the same handle of the node; null if nothing did.
    pub text: *const c_char,
}

const NOTHING: BwEvent = BwEvent {
    kind: BwEventKind::Other as i32,
    connection_number: 0,
    cookie: 0,
    aperture_number: 0,
    request: BwRequest { id: 0 },
    connection: BwConnection { id: 0 },
    aperture: BwRemoteAperture { id: 0 },
    data: ptr::null(),
    data_bytes: 0,
    error_code: 0,
    error_fault: 0,
    text: ptr::null(),
};

/// The event for C; `kept` keeps what it points to.
fn for_c(event: Event, kept: &mut Kept) -> BwEvent {
    let of = |kind: BwEventKind| BwEvent {
        kind: kind as i32,
        ..NOTHING
    };
    let on = |kind, number: ConnectionId| BwEvent {
        connection_number: number.index() as u32,
        ..of(kind)
    };
    match event {
        Event::Ready(number) => on(BwEventKind::Ready, number),
        Event::Request(request) => {
            let mut event = of(BwEventKind::Request);
            event.request = handle(&mut event, open(request), kept);
            event
        }
        Event::Connected(connection) => {
            let mut event = on(BwEventKind::Connected, connection.id());
            event.connection = handle(&mut event, open(Sending::new(*connection)), kept);
            event
        }
        Event::ConnectFailed { connection, error } => {
            failed(on(BwEventKind::ConnectFailed, connection), &error, kept)
        }
        Event::Closed { connection, reason } => {
            failed(on(BwEventKind::Closed, connection), &reason, kept)
        }
        Event::OutOfBand { connection, data } => {
            with_data(on(BwEventKind::OutOfBand, connection), data, kept)
        }
        Event::Granted {
            connection,
            cookie,
            aperture,
        } => {
            let mut event = on(BwEventKind::Granted, connection);
            event.cookie = cookie;
            event.aperture = handle(&mut event, open(aperture), kept);
            event
        }
        Event::Tripwire { cookie, aperture } => BwEvent {
            cookie,
            aperture_number: aperture.number(),
            ..of(BwEventKind::Tripwire)
        },
        Event::Completion { cookie, result } => {
            let mut event = of(BwEventKind::Completion);
            event.cookie = cookie;
            match result {
                Ok(data) => with_data(event, data, kept),
                Err(error) => failed(event, &error, kept),
            }
        }
        _ => NOTHING,
    }
}

/// The handle that was opened for an event. If there are too many, the event says so, and what it was for is gone.
fn handle<H: Handle>(event: &mut BwEvent, opened: Result<H>, kept: &mut Kept) -> H {
    opened.unwrap_or_else(|failure| {
        event.error_code = failure.keep();
        event.error_fault = BwFault::Caller as i32;
        event.text = kept.text("too many handles are open; close some");
        H::from_number(0)
    })
}

fn failed(event: BwEvent, error: &Error, kept: &mut Kept) -> BwEvent {
    BwEvent {
        error_code: code_of(error) as i32,
        error_fault: fault_of(error) as i32,
        text: kept.text(&error.to_string()),
        ..event
    }
}

fn with_data(event: BwEvent, data: Vec<u8>, kept: &mut Kept) -> BwEvent {
    let data = kept.data(data);
    BwEvent {
        data: data.as_ptr().cast(),
        data_bytes: data.len(),
        ..event
    }
}

/// Hands out the events that were found.
///
/// # Safety
/// `events` leads to room for so many.
unsafe fn hand_out(node: &mut NodeObject, events: *mut BwEvent) -> i64 {
    let count = node.events.len();
    for (nth, event) in node.events.drain(..).enumerate() {
        let event = for_c(event, &mut node.kept);
        // SAFETY: the caller promises room.
        unsafe { events.add(nth).write_unaligned(event) };
    }
    count as i64
}

/// Waits for events, and stores at most events_max of them. Returns how many: 0 when the time has passed, or when a
/// tripwire with BW_ACTION_WAKE fired. A signal does not end the wait.
/// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
///
/// # Safety
/// `events` leads to room for so many. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_wait(
    node: BwNode,
    events: *mut BwEvent,
    events_max: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(node, |n| {
        check_room(events, events_max)?;
        n.kept.clear();
        let NodeObject {
            node,
            events: found,
            ..
        } = &mut **n;
        node.wait(found, events_max, timeout(timeout_ns))?;
        // SAFETY: the caller promises it.
        Ok(unsafe { hand_out(n, events) })
    })
}

/// Stores events that are there, at most events_max, and returns how many; never waits. After a 0, the node's
/// descriptor becomes readable with the next event. Poll until 0, and only then wait for the descriptor.
///
/// # Safety
/// `events` leads to room for so many. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_node_poll(
    node: BwNode,
    events: *mut BwEvent,
    events_max: usize,
) -> i64 {
    call_on(node, |n| {
        check_room(events, events_max)?;
        n.kept.clear();
        let NodeObject {
            node,
            events: found,
            ..
        } = &mut **n;
        node.poll(found, events_max)?;
        // SAFETY: the caller promises it.
        Ok(unsafe { hand_out(n, events) })
    })
}

fn check_room(events: *mut BwEvent, events_max: usize) -> Result<()> {
    if events.is_null() {
        return Err(null("the array of events"));
    }
    if events_max == 0 {
        return Err(Failure::caller(
            BwE::Argument,
            "events_max is 0: give room for at least one event",
        ));
    }
    Ok(())
}

/// Closes whatever handle an event brings, for events that a program does not want: a request is refused, a
/// connection closed, an aperture given back.
///
/// # Safety
/// `event` is null or leads to an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_event_discard(event: *const BwEvent) -> i32 {
    status(|| {
        if event.is_null() {
            return Err(null("the event"));
        }
        // SAFETY: the caller promises it.
        let event = unsafe { event.read_unaligned() };
        discard(event.request)?;
        discard(event.connection)?;
        discard(event.aperture)?;
        Ok(0)
    })
}

fn discard<H: Handle>(handle: H) -> Result<()> {
    if handle.number() != 0 {
        take(handle)?;
    }
    Ok(())
}
