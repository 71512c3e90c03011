//! The Jetstream ring and the switch behind it.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | card | passes what it hears on after its latency; sends and receives as its MAC says | [`Card`] |
//! | MAC | timed token, numbering, stripping | [`barewire_proto::token::Station`], the real one |
//! | fibre | delay by its length | [`fibre_delay`] |
//! | switch | ports on a bus or on space-switched channels, with or without a priority path | [`Switch`] |
//!
//! A frame is known by its headers and its length, and it is where its first bit is.
//! The latency of a card is from receiver to transmitter: the elastic buffer of four
//! words, the look-up of the address, and the serial link's chips. The bytes are the
//! matter of the formats and the protocol cores. Source: jet93, sections 3.1 to 3.5.

mod card;
mod switch;
#[cfg(test)]
mod tests;

use barewire_units::Duration;

pub use card::{Card, CardConfig, Output, Signal, Transit};
pub use switch::{Departure, Division, Packet, Switch, SwitchConfig};

/// Delay of `metres` of fibre.
#[must_use]
pub fn fibre_delay(per_metre: Duration, metres: u64) -> Duration {
    per_metre.checked_mul(metres).unwrap_or(Duration::MAX)
}
