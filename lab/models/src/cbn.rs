//! The Cambridge Backbone Network: ring, V1S station, MSDL driver, workstation.
//!
//! | part | what it is |
//! |---|---|
//! | [`Line`] | the times that follow from the line rate and the size of a cell |
//! | [`Ring`] | the slots that go round, and when they pass a station |
//! | [`Ram`] | the buffer memory of a station, which ring and processor share |
//! | [`Station`] | the V1S interface: FIFOs, interrupt conditions, false traffic |
//! | [`Node`] | a workstation: program, driver, processor and station |
//! | [`Program`] | what runs on it: streams, pings, echoes, TCP |
//!
//! Everything is counted in cells and words. What a slot holds is a whole cell, and the
//! blocks are cut and put together by [`barewire_classic::msdl`] itself. The ring's medium
//! access is [`barewire_classic::slotted`] itself, on whole slots, without damage or monitor.
//!
//! Source: cbn91. What it leaves open, and we choose, is marked OPEN at its place.

mod driver;
mod line;
mod node;
mod program;
mod ram;
mod ring;
mod running;
mod station;
mod tcp;
#[cfg(test)]
mod tests;

pub use driver::{Copier, Costs, DriverCosts, Stage, StationCosts};
pub use line::Line;
pub use node::{Due, Mark, Node, NodeConfig, Processors};
pub use program::Program;
pub use ram::Ram;
pub use ring::{Ring, Slot, Slots};
pub use running::TcpStats;
pub use station::{CircuitStats, Generator, Passage, Station, StationConfig, StationStats};
pub use tcp::{HEADER_BYTES as TCP_HEADER_BYTES, TcpConfig, TcpCosts};

pub use barewire_classic::slotted::{ConfigError, Duplex};

use barewire_formats::cbn::Msdl;

/// A cell: the fields of its first word, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The first word.
    pub msdl: Msdl,
    /// What follows it.
    pub body: Vec<u8>,
}
