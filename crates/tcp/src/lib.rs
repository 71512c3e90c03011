//! TCP and UDP at user level, one connection at a time, for hosts that are reached through a
//! bridge.
//!
//! Each connection is an [`Endpoint`]: the caller hands in the time and IP packets, and gets packets
//! and the next deadline. There is no clock, no thread and no system call here, so the same code
//! runs in a live program and in virtual time. Memory is bounded by the buffers of [`Config`], a
//! scoreboard of at most one entry for each segment, and some hundred bytes.
//!
//! | what | is in |
//! |---|---|
//! | handshake, states | smoltcp |
//! | order of what comes in | here |
//! | timestamps (RFC 7323) | here |
//! | selective acknowledgements both ways, losses, repairs, timers, congestion window | here |
//! | window scaling, segment size, half-close, reset, keep-alive, Nagle (off unless asked for) | here and there |
//! | what hosts on the way say by ICMP: nobody listens there, shorter packets, unreachable | here |
//!
//! ICMP errors can be forged, so they count only if they quote what is in flight (RFC 5927). "Nobody
//! listens" and "unreachable" end a connection only while this end opens it, as with Linux. Later,
//! "unreachable" may pass; it is told when the timeout ends the connection. "Too big" shortens packets (RFC 1191, RFC 8201), but
//! not below 576 bytes (IPv6: 1280). Where such messages do not arrive, a path with shorter packets
//! than [`Config::mtu`] is not found out. Nor are longer packets tried again later.
//!
//! What is not there: explicit congestion notification, urgent data, fast open, fragments,
//! IPv6 extension headers.
//!
//! ```
//! use barewire_tcp::{Config, Endpoint, Listener, State, Tcp};
//! use barewire_units::Instant;
//!
//! let (here, there) = ("192.0.2.1:40000".parse()?, "192.0.2.2:80".parse()?);
//! let now = Instant::ORIGIN;
//! let mut client = Tcp::connect(&Config::new(here, there, 1), now)?;
//! let mut listener = Listener::new(&Config::new(there, there, 2), 16)?;
//! let mut packet = [0; 1500];
//! while client.state() == State::Opening || listener.waiting() == 0 {
//!     if let Some(sent) = client.poll_packet(&mut packet, now) {
//!         listener.handle_packet(&mut packet[..sent.bytes], Default::default(), now);
//!     }
//!     if let Some(sent) = listener.poll_packet(&mut packet, now) {
//!         client.handle_packet(&mut packet[..sent.bytes], Default::default(), now);
//!     }
//! }
//! assert_eq!(client.send(b"hello")?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! error: what may go wrong
//! config: settings and their limits
//! path: a model of the way between two ends
//! packet: IP packets, read and written
//! icmp: what hosts on the way say
//! endpoint: what connections, listeners and sockets have in common
//! stamps: timestamps, and what they tell
//! receive: when to acknowledge, and what
//! send: what is sent, again and how fast
//! machine: smoltcp behind a narrow door
//! tcp: a connection
//! udp: datagrams
//! listener: connections that others open
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod endpoint;
mod error;
mod icmp;
mod listener;
mod machine;
mod packet;
pub mod path;
mod receive;
mod send;
mod stamps;
mod tcp;
mod udp;

pub use config::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Config, MTU_MAX, MTU_MIN, MTU_MIN_V6, Offload,
};
pub use endpoint::Endpoint;
pub use error::Error;
pub use listener::Listener;
pub use packet::{Checked, ChecksumPlace, LeftOut, Outgoing};
pub use send::Counts;
pub use tcp::{State, Tcp};
pub use udp::{Udp, UdpConfig};
