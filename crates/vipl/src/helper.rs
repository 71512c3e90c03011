//! Threads of a NIC: one that makes progress when the program does not, and one that calls the program's functions.
//!
//! The helper thread waits for the node. While the program itself polls, it looks only now and then whether that goes
//! on: a node that nobody waits for need not be rung for each message. A thread of the program that goes to sleep has it
//! wait for the node again.
//!
//! The thread for calls is started with the first function that is to be called. The lock is not held while a function
//! of the program runs, so that may call the library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_proto::via::descriptor::Side;

use crate::nic::Nic;
use crate::nic::state::{Due, Inner};
use crate::raw::{Code, ErrorDescriptor, RESOURCE_VI};

/// Events that are taken at once.
const EVENTS_MAX: usize = 64;
/// How long the program must not have polled before the helper thread waits for the node.
const QUIET: Duration = Duration::from_millis(1);

/// Starts the thread that makes progress.
pub(crate) fn start(nic: &Arc<Nic>) -> Result<(), Code> {
    let of = Arc::clone(nic);
    let thread = std::thread::Builder::new().name("vipl".to_owned());
    let started = thread.spawn(move || help(&of));
    started.map(drop).map_err(|_| Code::ErrorResource)
}

fn help(nic: &Nic) {
    let node = nic.lock().node.clone();
    let mut events = Vec::new();
    let mut seen_polls = 0;
    loop {
        let mut locked = nic.lock();
        locked.handle_all(&mut events);
        while locked.drain_busy() {
            // Others get a turn.
            drop(locked);
            locked = nic.lock();
        }
        while !locked.closed && locked.sleepers == 0 && locked.polls != seen_polls {
            seen_polls = locked.polls;
            locked = nic.sleep(locked, &nic.helper, Some(QUIET));
        }
        if locked.closed {
            return;
        }
        let due = locked.keep_time();
        drop(locked);
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        if node.wait(&mut events, EVENTS_MAX, left).is_err() {
            return;
        }
    }
}

/// Starts the thread that calls the program's functions, if there is none.
pub(crate) fn start_calls(nic: &Arc<Nic>, inner: &mut Inner) -> Result<(), Code> {
    if inner.calls {
        return Ok(());
    }
    let nic = Arc::clone(nic);
    let thread = std::thread::Builder::new().name("vipl-calls".to_owned());
    let started = thread.spawn(move || call_all(&nic));
    started.map_err(|_| Code::ErrorResource)?;
    inner.calls = true;
    Ok(())
}

fn call_all(nic: &Arc<Nic>) {
    let handle = crate::handles::of_nic(nic);
    let mut locked = nic.lock();
    loop {
        match locked.due.pop_front() {
            Some(due) => {
                drop(locked);
                call(due, handle);
                locked = nic.lock();
            }
            None if locked.closed => return,
            None => locked = nic.sleep(locked, &nic.caller, None),
        }
    }
}

/// Calls a function of the program.
fn call(due: Due, nic: usize) {
    let pointer = crate::handles::pointer;
    match due {
        Due::Descriptor(handler, context, vi, descriptor) => {
            // SAFETY: the program gave the function, which is there as long as the NIC is open.
            unsafe {
                handler(
                    pointer(context),
                    pointer(nic),
                    pointer(vi),
                    pointer(descriptor.0),
                );
            }
        }
        Due::Entry(handler, context, vi, side) => {
            let received = (side == Side::Receive).into();
            // SAFETY: as above.
            unsafe { handler(pointer(context), pointer(nic), pointer(vi), received) };
        }
        Due::Error(handler, context, vi, error) => {
            let mut told = ErrorDescriptor {
                NicHandle: pointer(nic),
                ViHandle: pointer(vi),
                CQHandle: std::ptr::null_mut(),
                DescriptorPtr: std::ptr::null_mut(),
                OpCode: 0,
                ResourceCode: RESOURCE_VI,
                ErrorCode: error as i32,
            };
            // SAFETY: as above; what is told lives until the function has returned.
            unsafe { handler(pointer(context), &raw mut told) };
        }
    }
}
