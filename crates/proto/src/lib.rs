//! Protocol cores without clocks, sockets or threads.
//!
//! A core takes `now` and inputs (`handle_*`, or the name of the command) and
//! gives actions back (`poll_*`, or a return value); where it waits for time, it
//! says until when (`next_deadline`). After each input, drain the polls until
//! they return `None`. The same core runs in the live network, in the laboratory
//! and in a fuzzer. Nothing here panics on any sequence of inputs.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! shaping: queueing disciplines, `tc` commands, admission control
//! matching: messages and receives by source and tag
//! via: the Virtual Interface Architecture
//! evb: sources, builders and manager of the event builder
//! edge: leases, packets and neighbours of the bridge to ordinary hosts
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod edge;
pub mod evb;
pub mod matching;
pub mod shaping;
pub mod via;
