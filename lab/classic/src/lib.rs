//! Protocol cores of classic networks, without clocks, sockets or threads.
//!
//! A core takes `now` and inputs (`handle_*`, or the name of the command) and
//! gives actions back (`poll_*`, or a return value); where it waits for time, it
//! says until when (`next_deadline`). After each input, drain the polls until
//! they return `None`. The same core runs in the laboratory, in `barewire wire` and in a
//! fuzzer. Nothing here panics on any sequence of inputs.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! msdl: blocks and cells of the Cambridge Backbone
//! slotted: the slotted ring of the Cambridge Backbone
//! sar: segmentation and reassembly for ATM
//! token: the timed token ring of Jetstream
//! interworking: between a Jetstream ring and ATM
//! kept: cores that no model needs
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod interworking;
pub mod kept;
pub mod msdl;
pub mod sar;
pub mod slotted;
pub mod token;

pub use kept::msnl;
