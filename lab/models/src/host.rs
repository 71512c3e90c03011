//! Hosts: what it costs a processor to get data between a program and a device.
//!
//! | part | what it is |
//! |---|---|
//! | [`Processor`] | does one operation at a time, and is busy until it is done |
//! | [`Levels`] | a processor whose interrupt handler takes it from the program, operation or not |
//! | [`Costs`] | what system calls, interrupts, switches and driver cost |
//! | [`Memory`] | copies, at one rate within the cache and another beyond it |
//! | [`Bus`] | bursts of a card, bursts of stores and single words of the processor, in turn |
//! | [`Coalescer`] | when a card interrupts: after so many frames, or so much time |

mod bus;
mod coalesce;
mod costs;
mod levels;
mod memory;
mod processor;

pub use bus::{Bus, BusConfig};
pub use coalesce::{Coalesce, Coalescer, Notice};
pub use costs::{Costs, per_kib};
pub use levels::{Level, Levels};
pub use memory::Memory;
pub use processor::Processor;
