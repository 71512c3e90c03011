//! Models of the devices, hosts and networks that the laboratory studies.
//!
//! A model is a struct that is told what happens (`handle(now, …)`), says what it
//! does (`poll`), and when it next wants to be asked (`next_deadline`). It does not
//! know the simulator, so a unit test or a fuzzer drives it too. Every constant of a
//! model is a parameter, and every parameter has a source; what belongs to one
//! published system stands in that system's parameter file (`lab/testbed/parameters`).
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! parameters: parameters that can be read and walked
//! host: processor, bus, memory, interrupts
//! output: an output of a switch
//! tcp: the two ends of a TCP connection
//! cbn: the Cambridge Backbone
//! clan: the Collapsed LAN
//! jetstream: Jetstream
//! afterburner: Afterburner and its hosts
//! kek: the event builder of KEK
//! penn: the Penn ATM host interface
//! rdma: a card that writes into other hosts' memory, and its switches
//! workbench: a card of one's own design
//! ```
#![forbid(unsafe_code)]

pub mod afterburner;
pub mod cbn;
pub mod clan;
pub mod host;
pub mod jetstream;
pub mod kek;
pub mod output;
pub mod parameters;
pub mod penn;
pub mod rdma;
pub mod tcp;
pub mod workbench;
