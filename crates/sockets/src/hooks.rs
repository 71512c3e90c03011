//! The interposed functions: functions of the C library that this library stands in front of.
//!
//! Each first checks whether the descriptor is a socket that the library carries. That takes a load or two. If
//! it is not, the function calls the C library's function with the program's arguments.

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
