//! The event kernel of the laboratory: what happens next, in an order that is
//! the same on every machine.
//!
//! A model is a [`World`]: it is told of one event at a time and schedules
//! others. Events are ordered by (time, class, node, sequence), all of which are
//! integers, so a run is a function of its plan and its seed and of nothing else;
//! a running hash over the events says whether two runs were the same.
//!
//! | part | what it is |
//! |---|---|
//! | [`Simulator`] | the clock and the pending events: schedule, cancel, repeat, run |
//! | [`Trace`] | the last events that pass a filter |
//! | [`dist`] | random variates from [`barewire_units::Rng`], the same bits everywhere |
//! | [`stats`] | tallies, time averages, histograms, batch means with confidence intervals |
//! | [`workloads`] | three models with known answers: they check the kernel and measure it |
//!
//! ```
//! use barewire_des::{Class, Event, Node, Simulator, World};
//! use barewire_units::{Duration, Instant};
//!
//! #[derive(Clone, Copy)]
//! struct Ping(u32);
//! impl Event for Ping {
//!     fn digest(&self) -> u64 { u64::from(self.0) }
//! }
//!
//! struct PingPong { seen: Vec<u32> }
//! impl World for PingPong {
//!     type Event = Ping;
//!     fn handle(&mut self, event: Ping, sim: &mut Simulator<Ping>) {
//!         self.seen.push(event.0);
//!         if event.0 < 3 {
//!             sim.after(Duration::from_us(15), Class::NORMAL, Node(0), Ping(event.0 + 1));
//!         }
//!     }
//! }
//!
//! let mut world = PingPong { seen: Vec::new() };
//! let mut sim = Simulator::new();
//! sim.at(Instant::ORIGIN, Class::NORMAL, Node(0), Ping(0));
//! sim.run(&mut world);
//! assert_eq!(world.seen, [0, 1, 2, 3]);
//! assert_eq!(sim.now().since_origin(), Duration::from_us(45));
//! ```
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! dist: random variates
//! stats: tallies, averages, histograms
//! event: what can happen, and its order
//! queue: the pending events
//! trace: the last events that pass a filter
//! sim: the simulator
//! workloads: models with known answers
//! ```
#![forbid(unsafe_code)]

pub mod dist;
mod event;
mod queue;
mod sim;
pub mod stats;
mod trace;
pub mod workloads;

pub use event::{Class, Event, Node};
pub use queue::EventId;
pub use sim::{Simulator, World};
pub use trace::{Filter, Record, Trace};
