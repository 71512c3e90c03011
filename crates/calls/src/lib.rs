//! Raw system calls that both `sys` and the preload library (`sockets`) make, once for both.
//!
//! The preload library runs inside any program, at any point of it: in a signal handler, in a child after `fork` or
//! `vfork`, in a thread that is being cancelled. So every function here keeps this contract:
//!
//! - **It reaches the kernel by an instruction of its own** ([`call`]), never by a function of the C library. The
//!   preload library interposes many of those (`socket`, `sendmsg`, `fcntl`, `syscall` ...) and would call itself.
//!   For the same reason no call here is a point where a thread can be cancelled.
//! - **`errno` stays as the program has it.** Errors are returned.
//! - **It allocates nothing, takes no lock, keeps no state, starts no thread.** There is neither `std` nor `alloc`
//!   here, and no constructor: what links this crate runs nothing of it before `main`.
//! - **It makes the calls that it names, in that order**, since a sandbox may allow no other. Nothing is tried again
//!   after a signal.
//! - **A new descriptor is the caller's to close**, and is closed by `exec`. The preload library has to move it to
//!   a number of its own at once.
//!
//! The exceptions are [`clock`] and [`process::is_secure`], which ask the C library and say why.
//!
//! ```layers
//! call: the instruction
//! clock: nanoseconds of a clock
//! descriptor: what is open, its flags, its file, and closing it
//! process: ids, limits, signals, and whose program this is
//! barrier: fences in the processors of others
//! memory: memfds, seals, mappings
//! option: options of sockets, and who is at the other end
//! message: bytes with descriptors
//! name: Unix sockets under abstract names
//! netlink: attributes in answers of the kernel
//! diag: what the kernel knows of sockets
//! ```

#![no_std]

pub mod barrier;
mod call;
pub mod clock;
pub mod descriptor;
pub mod diag;
pub mod memory;
pub mod message;
pub mod name;
pub mod netlink;
pub mod option;
pub mod process;

pub use call::{Errno, Result, call};
