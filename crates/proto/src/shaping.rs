//! Traffic shaping at the output queue: queueing disciplines, classes, filters,
//! the `tc` commands that describe them, and admission control.
//!
//! | part | what it does | file |
//! |---|---|---|
//! | [`Fifo`] | first in, first out, limited in packets or bytes | `fifo.rs` |
//! | [`Tbf`] | token bucket: rate, burst, optional peak rate | `tbf.rs` |
//! | [CBQ](cbq) | classes that share a link, limited by their idle time | `cbq.rs` |
//! | [HTB](htb) | classes that share a link, limited by two buckets each | `htb.rs` |
//! | [u32](mod@u32) | filters: masked words of the packet, hash tables, links | `u32.rs` |
//! | [`tc`] | the text form of all of these | `tc.rs` |
//! | [`Tree`] | classify, queue and shape for one device | `tree.rs` |
//! | [`admission`] | reservations against a capacity | `admission.rs` |
//!
//! # Driving a discipline
//!
//! | call | when | state after |
//! |---|---|---|
//! | `enqueue(now, packet)` | a packet is to be sent | queued, or given back with the reason |
//! | `dequeue(now)` | the link is free | the packet to send, or `None`: nothing may go |
//! | `next_deadline()` | `dequeue` gave `None` | when to call it again; `None`: nothing will go |
//! | `wake()` | traffic or a finished transmission | a token bucket looks at its tokens again |
//!
//! A kernel of the time looks at a throttled queue when its timer fires, or when
//! something else happens on the device. Here the caller decides: without `wake`
//! a token bucket sleeps until its [`Timer`] fires, so that the limit which the
//! timer sets to the rate can be seen alone. The classful disciplines look at
//! their own limits on each `dequeue`; for them every call is a wake.
//!
//! ```
//! use barewire_proto::shaping::{ETHERTYPE_IPV4, Packet, Qdisc, Timer, Tree};
//! use barewire_units::{Duration, Instant};
//!
//! let commands = "tc qdisc add dev eth0 root tbf rate 8Mbit burst 1500 limit 30Kb";
//! let mut tree = Tree::parse(commands, Timer::EXACT)?;
//! let now = Instant::ORIGIN;
//! for id in 0..2 {
//!     let packet = Packet { id, len_bytes: 1500, protocol: ETHERTYPE_IPV4, bytes: vec![] };
//!     tree.enqueue(now, packet)?;
//! }
//! assert_eq!(tree.dequeue(now).map(|packet| packet.id), Some(0));
//! assert_eq!(tree.dequeue(now), None);
//! assert_eq!(tree.next_deadline(), Some(now + Duration::from_us(1_500)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Time may stand still or jump; a `now` before the last one counts as the last
//! one. All arithmetic is in whole bits and picoseconds, so nothing drifts.
//!
//! Source: linux-tc (the tc manual pages; Floyd and Van Jacobson, "Link-sharing
//! and resource management models for packet networks", 1995), kek00.

pub mod admission;
mod bucket;
pub mod cbq;
mod classful;
mod fifo;
mod handle;
pub mod htb;
mod problem;
mod qdisc;
mod round_robin;
mod sharing;
pub mod tbf;
pub mod tc;
#[cfg(test)]
mod tests;
mod timer;
mod tree;
pub mod u32;

pub use fifo::Fifo;
pub use handle::Handle;
pub use problem::{Part, Problem};
pub use qdisc::{Count, DropReason, Dropped, ETHERTYPE_IPV4, Limit, Packet, Qdisc, Stats};
pub use tbf::Tbf;
pub use timer::Timer;
pub use tree::{BuildError, Tree};
