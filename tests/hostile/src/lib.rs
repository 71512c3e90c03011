//! Attacks on a running service, and the service that is attacked.
//!
//! The attackers speak the control protocol and the layouts in shared memory by hand,
//! from the tables in `crates/barewire/src/messages/control.rs`, `crates/fabric/src/frame.rs` and
//! `crates/fabric/src/doorbell.rs`, so that no check of ours stands in their way.
#![forbid(unsafe_code)]

pub mod attack;
pub mod link;
pub mod ring;
pub mod stall;
pub mod users;
pub mod victim;
pub mod wire;
