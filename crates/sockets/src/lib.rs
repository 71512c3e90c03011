//! A library to be preloaded: it carries the TCP connections and Unix stream sockets of a program
//! that knows nothing of it through shared memory, to other such programs on this host.
//!
//! ```text
//! program ── read, write, poll, epoll_wait ... ──► hooks ──► kernel, if it is not ours
//!                                                    │
//!                       stream  wait  epoll  ◄───────┘
//!                          │
//!            fabric::carrier: ring and line, epochs, tokens
//!                          ▲
//!                       upgrade: marks, meeting place, proof
//! ```
//!
//! The kernel's connection stays underneath: it is where a connection begins, what tells of
//! its end, what wakes who sleeps, and what the bytes go back to whenever that is better.
//!
//! Code here runs inside any program, at any time: it takes no memory from the program's
//! allocator, does not unwind, leaves `errno` alone where the kernel would, and keeps no
//! descriptor open, but while a connection looks for its other end.

mod buffers;
mod capture;
mod confinement;
mod epoll;
mod family;
mod fault;
mod hooks;
mod kernel;
mod local;
mod lock;
mod lost;
mod marks;
mod members;
mod memory;
mod order;
mod privilege;
mod process;
mod real;
mod record;
mod relay;
mod report;
mod retire;
mod rings;
mod seeker;
mod settings;
mod spin;
mod status;
mod stream;
mod upgrade;
mod uses;
mod wait;
mod why;
mod worth;

/// Runs before the program's first line.
extern "C" fn begin() {
    real::look_up_all();
    if privilege::is_gained() {
        return privilege::clear_variables();
    }
    if !settings::read() {
        return;
    }
    process::note_own_ids();
    report::set_up();
    why::set_up();
    // Where one of them fails, what was reserved is not used: nothing is on board.
    if memory::may_reserve()
        && memory::set_up()
        && seeker::set_up()
        && epoll::set_up()
        && members::set_up()
        && record::set_up()
    {
        capture::set_up();
        memory::note_reserved();
        kernel::aside::make_room();
        hooks::lifetime::set_up();
        status::publish();
    }
}

/// Runs when the program exits.
extern "C" fn end() {
    hooks::lifetime::at_exit();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
