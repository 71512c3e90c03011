//! Every system call Barewire makes, behind a safe API.
//!
//! The other crates forbid `unsafe`; what they need from Linux (sealed shared
//! memory, descriptors passed over Unix sockets, wake-ups, fences, processes,
//! clocks) is here. What the preload library asks of the kernel as well is in
//! `barewire-calls`, without `std`. Nothing in this crate panics on what a peer or a user can
//! cause: such things come back as [`SysError`] or [`BadDescriptor`].
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! error: what can go wrong in a system call
//! clock: clocks that cost nanoseconds to read
//! returns: what system calls do to the processor's predictor of returns
//! memory: memfds, their seals and mappings, and whether this process was forked
//! wake: eventfd, epoll, futex and fences
//! process: this process and its children
//! interrupt: that the user wants the program to end
//! exec: other programs in place of this one
//! netns: network namespaces
//! netlink: questions to the kernel about links, addresses, routes and queues
//! links: links, bridges and addresses
//! ethtool: queues and features of interfaces
//! frames: Ethernet frames by TAP devices, packet sockets and AF_XDP sockets
//! lan: hosts that are network namespaces, with cables between them
//! tcp: options of TCP sockets
//! loopback: TCP sockets that meet without an accept
//! socket: Unix sockets that carry descriptors
//! discover: the counters pages of all processes
//! watch: a thread that watches descriptors
//! retire: threads that close descriptors
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("Barewire runs on Linux only: it is built on memfd, eventfd and abstract sockets");

pub mod clock;
pub mod discover;
mod error;
pub mod ethtool;
pub mod exec;
pub mod frames;
pub mod interrupt;
pub mod lan;
pub mod links;
pub mod loopback;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod process;
pub mod retire;
pub mod returns;
pub mod socket;
pub mod tcp;
pub mod wake;
pub mod watch;

pub use error::{BadDescriptor, Errno, Result, SysError};
