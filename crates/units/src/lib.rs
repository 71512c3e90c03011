//! Quantities that mean the same everywhere in Barewire: instants and
//! durations in integer picoseconds, sizes in bytes, rates in bits per second,
//! and random numbers that are a function of their seed alone.
//!
//! Nothing here reads a clock or asks the system for entropy: a time or an
//! [`Rng`] is handed in by the caller, so that code written against this crate
//! gives the same result in the product, in the simulator and in a fuzzer.
//!
//! | type | holds | range |
//! |---|---|---|
//! | [`Instant`] | picoseconds since an origin of the caller's choice | 213 days |
//! | [`Duration`] | picoseconds, never negative | 213 days |
//! | [`ByteSize`] | bytes | 2⁶⁴ − 1 |
//! | [`Rate`] | bits per second, never zero | 2⁶⁴ − 1 |
//! | [`Decimal`] | a number as text, before it has its unit | |
//! | [`Rng`] | xoshiro256\*\* | period 2²⁵⁶ − 1 |
//! | [`Machine`] | a state machine as a table, by [`transitions!`] | |
//! | [`Deadlines`] | until when each of many open things may stay open | |
//! | [`log::Line`] | a line of the log that `BAREWIRE_LOG` asks for | |
//!
//! Arithmetic is checked in every build profile: the operators panic where the
//! result does not fit, the `checked_` methods return `None`. No float is ever
//! involved.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! parse: numbers with a unit, as text
//! size: sizes in bytes
//! time: instants and durations
//! rate: bits per second
//! rng: random numbers
//! machine: state machines as tables
//! deadlines: until when open things may stay open
//! log: lines of the log
//! serde: quantities in files (feature `serde`)
//! ```
//!
//! An example:
//!
//! ```
//! use barewire_units::{ByteSize, Duration, Instant, Rate};
//!
//! let link: Rate = "1Gbit/s".parse()?;
//! let frame: ByteSize = "1538B".parse()?;
//! let sent = Instant::ORIGIN + link.time_to_send(frame);
//! assert_eq!(sent.since_origin(), Duration::from_ns(12_304));
//! assert_eq!(sent.to_string(), "12.304us");
//! # Ok::<(), barewire_units::ParseError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod deadlines;
pub mod log;
mod machine;
mod parse;
mod rate;
mod rng;
#[cfg(feature = "serde")]
mod serde;
mod size;
mod time;

pub use deadlines::Deadlines;
pub use machine::{Graph, Machine};
pub use parse::{Decimal, ParseError};
pub use rate::Rate;
pub use rng::Rng;
pub use size::ByteSize;
pub use time::{Duration, Instant};
