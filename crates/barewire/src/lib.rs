//! A user-level network: programs on one Linux host talk through shared memory, without
//! the kernel on the data path.
#![forbid(unsafe_code)]

mod aperture;
mod arena;
mod bulk;
mod capture;
pub mod config;
mod conform;
mod connection;
mod control;
mod error;
mod event;
mod exports;
mod half;
mod link;
mod node;
mod opening;
mod peer;
mod receiver;
mod sender;
mod shared;
mod state;
mod stream;
mod tripwire;
mod wait;

pub use aperture::{Aperture, ApertureConfig, RemoteAperture};
pub use barewire_fabric::Violation;
pub use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};
pub use config::{ConnectOptions, ListenOptions, NodeConfig, Policy, Spin};
pub use connection::Connection;
pub use error::{Credentials, Error, Fault, Misconduct, Result};
pub use event::{ConnectionId, Event};
pub use node::{Listener, Node, Request};
pub use receiver::{Message, Receiver};
pub use sender::{Reservation, Sender, SharedSender};
pub use stream::{Stream, StreamReader, StreamWriter};
pub use tripwire::Tripwire;

/// The code in the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
