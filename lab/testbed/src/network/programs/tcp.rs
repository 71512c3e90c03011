//! Programs over TCP: the same code that runs in live programs, `barewire-tcp`, in the time of the
//! model.
//!
//! A TCP packet is a message of its length to the hosts: each costs what a message of a program
//! costs there. The bytes of packets are real, checksums included; they are kept beside the
//! message and come out where it is received.
//!
//! | module | holds |
//! |---|---|
//! | `ends` | both ends of all connections of a program: packets, deadlines, turns |
//! | `trips` | round-trip times, by what goes out and comes in |
//! | `stream`, `request` | what the programs do over their connections |

mod ends;
mod request;
mod stream;
mod trips;

pub(in crate::network) use ends::{ENDS_MAX, TcpSpec};
pub(super) use request::TcpRequest;
pub(in crate::network) use request::TcpRequestSpec;
pub(super) use stream::TcpStream;
pub(in crate::network) use stream::TcpStreamSpec;
