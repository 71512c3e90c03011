//! The C library's functions that a program calls, and that this library stands in front of.
//!
//! Each asks the table whether the descriptor is one of ours: a load or two. If not, the C
//! library's function is called with what the program passed.

mod aliases;
mod confine;
mod io;
mod jump;
mod lifetime;
mod limits;
mod messages;
mod past;
mod reaping;
mod shell;
mod socket;
mod syscall;
mod uring;
mod waits;
