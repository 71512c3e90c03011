//! `poll`, `select` and `epoll_wait`, with byte rings among what is waited for.
//!
//! Each wait first polls the byte rings, and asks the kernel without sleeping. If nothing is ready it
//! polls the rings for a while. Then it arms them and sleeps in the kernel, where a wake-up byte wakes
//! it as anything else does. A socket that is readable only because of a wake-up byte is not reported.

pub mod deadline;
pub mod epoll_ctl;
pub mod epoll_wait;
pub mod events;
pub mod poll;
pub mod ring_events;
pub mod ring_ready;
pub mod sleepers;
