//! Hosts: what it costs a processor to get data between a program and a device.
//!
//! | part | what it is |
//! |---|---|
//! | [`Processor`] | does one operation at a time, and is busy until it is done |

mod processor;

pub use processor::Processor;
