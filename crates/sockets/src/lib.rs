//! A preload library: it carries the TCP connections and Unix stream sockets of unmodified programs
//! through shared memory, to other such programs on this host.
//!
//! ```text
//! program ── read, write, poll, epoll_wait ... ──► hooks ──► kernel, for every other descriptor
//!                                                    │
//!                      stream  wait  epoll  ◄────────┘
//!                          │
//!            fabric::hybrid: byte ring and kernel connection, epochs, wake-up bytes
//!                          ▲
//!                       upgrade: capability marks, rendezvous socket, proof
//! ```
//!
//! The kernel connection stays for the whole time. Every connection begins there. The kernel reports its end
//! and wakes threads that sleep. The bytes return to the kernel whenever that is better.
//!
//! This code runs inside any program, at any time. So it takes no memory from the program's
//! allocator and does not unwind. It leaves `errno` alone where the kernel would. It keeps no descriptor
//! open, except while a connection looks for its other end, and standard error if it is to log there. What it asks of the kernel for itself, it asks by
//! `barewire-calls`, whose head says what those functions keep to. The C library's real functions are for the program's
//! calls, and what goes on in them.
//!
//! The folders are layers, the lowest first. A file imports only from its own layer and those below:
//!
//! ```layers
//! system: the C library's real functions, questions to the kernel
//! process: threads, forks, signals, memory, locks, settings, user memory, sandbox
//! table: descriptors, socket states, and the processes that share them
//! upgrade: finding the other end, proving it, setting up a hybrid stream
//! epoll: which sockets are registered in which epoll set
//! stream: sending and receiving over both paths, falling back to the kernel
//! wait: poll, select, epoll_wait and epoll_ctl
//! handoff: close, fork, exec, descriptors that are passed, relays
//! io_uring: entries that programs submit to io_uring
//! hooks: one thin function for each interposed function
//! ```

mod epoll;
mod handoff;
mod hooks;
mod io_uring;
mod process;
mod stream;
mod system;
mod table;
mod upgrade;
mod wait;

use barewire_calls::process::is_secure;
use barewire_units::log::Level;
use process::{log, memory, privilege, settings};
use system::{own_descriptors, real};
use table::{
    descriptors, event_log, process_refs, reason_report, report, sockets, status, stream_memory,
    uring_rings,
};
use upgrade::rendezvous;

/// Bytes of the tables that children made by fork share.
const SHARED_BYTES: usize = process_refs::SHARED_BYTES + sockets::SHARED_BYTES;
/// Bytes of those that they have a copy of.
const PRIVATE_BYTES: usize = stream_memory::PRIVATE_BYTES
    + rendezvous::PRIVATE_BYTES
    + epoll::locked::PRIVATE_BYTES
    + sockets::PRIVATE_BYTES
    + descriptors::PRIVATE_BYTES
    + uring_rings::PRIVATE_BYTES
    + stream::capture::PRIVATE_BYTES;

/// Reserves all tables. If that fails, what was reserved is not used: nothing is upgraded.
fn reserve() -> bool {
    // The socket states come right behind what process references have in common.
    memory::may_reserve()
        && memory::begin(SHARED_BYTES, process_refs::MEETING, PRIVATE_BYTES)
        && stream_memory::set_up()
        && rendezvous::set_up()
        && uring_rings::reserve()
        && epoll::locked::set_up()
        && process_refs::set_up()
        && descriptors::set_up()
}

/// Runs before the program's first line.
extern "C" fn begin() {
    real::look_up_all();
    if is_secure() {
        return privilege::clear_variables();
    }
    if let Some(value) = settings::variable(c"BAREWIRE_LOG") {
        log::set_up(value);
    }
    if !settings::read() {
        return log::end();
    }
    if let Some(value) = settings::variable(c"BAREWIRE_EDGE") {
        process::edge::set_up(value);
    }
    process::ids::note_own_ids();
    process::thread_words::set_up();
    report::set_up();
    reason_report::set_up();
    descriptors::observe_lost(|socket| {
        epoll::sets::socket_closed(socket);
        // The capability mark that names its holder went with the socket.
        rendezvous::close(socket);
    });
    event_log::set_up();
    if reserve() {
        stream::capture::set_up();
        memory::note_reserved();
        own_descriptors::make_room();
        handoff::fork::set_up();
        status::publish(stream::capture::addresses());
    } else {
        log::line(
            Level::Warn,
            format_args!(
                "no address space is left for the library's tables: no connection is upgraded"
            ),
        );
    }
}

/// Runs when the program exits.
extern "C" fn end() {
    handoff::program_end::at_exit();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
