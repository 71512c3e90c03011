//! The Jetstream ring and the switch behind it.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | card | passes what it hears on after its latency; sends and receives as its MAC says | [`Card`] |
//! | MAC | timed token, numbering, stripping | [`barewire_classic::token::Station`], the real one |
//! | fibre | delay by its length | [`fibre_delay`] |
//! | elastic buffer | lets a frame through from one clock to the next, or breaks it | [`Elastic`] |
//! | line errors | the bits that a line damages | [`Noise`] |
//! | switch | ports on a bus or on space-switched channels, with or without a priority path | [`Switch`] |
//!
//! Its rival is an ATM network of the same hosts: [`AtmAdapter`], [`AtmSwitch`], [`Reassembly`].
//!
//! A frame is known by its headers and its length, and it is where its first bit is.
//! The latency of a card is from receiver to transmitter: the elastic buffer of four
//! words, the look-up of the address, and the serial link's chips. The bytes are the
//! matter of the formats and the protocol cores. Source: jet93, sections 3.1 to 3.5.

mod atm;
mod card;
mod elastic;
mod noise;
mod switch;
#[cfg(test)]
mod tests;

use barewire_units::Duration;

pub use atm::{AtmAdapter, AtmCell, AtmSwitch, Discard, Reassembly};
pub use card::{Card, CardConfig, Output, Signal, Transit};
pub use elastic::{Clocks, Elastic, Slip};
pub use noise::Noise;
pub use switch::{Beginning, Departure, Division, Packet, Switch, SwitchConfig};

/// Delay of `metres` of fibre.
#[must_use]
pub fn fibre_delay(per_metre: Duration, metres: u64) -> Duration {
    per_metre.checked_mul(metres).unwrap_or(Duration::MAX)
}
