//! Attacks on a running service, and the service that is attacked.
//!
//! The attackers speak the control protocol and the layouts in shared memory by hand,
//! from the tables in `crates/barewire/src/messages/control.rs`, `crates/fabric/src/frame.rs` and
//! `crates/fabric/src/doorbell.rs`, so that no check of ours stands in their way.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! wait: waits with a deadline
//! wire: the control messages, by hand
//! link: an attacker's end of a link
//! ring: spoiling a ring, a duplex line, a doorbell page, memory at large
//! attack: the kinds of attack
//! stall: descriptors whose close waits
//! users: whether attackers of other users can be had here
//! victim: the service that is attacked
//! ```
#![forbid(unsafe_code)]

pub mod attack;
pub mod link;
pub mod ring;
pub mod stall;
pub mod users;
pub mod victim;
pub mod wait;
pub mod wire;
