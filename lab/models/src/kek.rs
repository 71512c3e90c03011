//! The event builder of KEK: PCs with Gigabit Ethernet cards, and a switch.
//!
//! | part | what it is | model |
//! |---|---|---|
//! | program | a netperf stream: writes or reads without end | [`Pc`] |
//! | TCP | sender and receiver, segment by segment | [`crate::tcp`] |
//! | output queue | [`barewire_proto::shaping::Tree`] itself, looked at by the 2.2 kernel's rules | [`Pc`] |
//! | processor | interrupts, then ticks, then packets, then programs | [`Pc`], [`Costs`] |
//! | card | AceNIC: two firmware processors, DMA, coalesced interrupts | [`NicConfig`], [`crate::host::Coalescer`] |
//! | PCI | one bus for both directions, in bursts | [`Pci`] |
//! | switch | store and forward, a finite buffer at each output | [`Switch`]; a port alone: [`Port`] |
//!
//! Everything is counted in segments and frames; what they hold does not matter to their
//! times. Source: kek00; what it leaves open is marked in the parameter file.

mod costs;
mod frame;
mod pc;
mod pci;
mod port;
mod stage;
mod switch;
#[cfg(test)]
mod tests;

pub use costs::{Costs, Kernel, Machine};
pub use frame::{Body, Frame, HEADER_BYTES};
pub use pc::{Happening, Nic, NicConfig, Pc, PcConfig, PcStats};
pub use pci::{Pci, PciConfig};
pub use port::Port;
pub use stage::Stage;
pub use switch::{Passing, Switch, SwitchConfig};
