//! The Penn ATM host interface and the workstation it sits in.
//!
//! Everything that is done per cell is done in the interface; the host moves blocks. The
//! way of a block, and the struct that stands for each part of it:
//!
//! | part | what it does | model |
//! |---|---|---|
//! | driver | `write()`: copies into one of two pinned buffers, or streams from the user's pages | [`Driver`] |
//! | processor | what the driver's steps cost, with the data cache | [`Processor`], [`Cache`] |
//! | Micro Channel | streams the block in bursts of words, with a pause after each | [`Streaming`] |
//! | segmenter | FIFO and header generator; a cell leaves in each slot of the line | [`Segmenter`] |
//! | reassembler | cell managers, CAM look-up controller, linked-list manager | [`Reassembler`] |
//!
//! What the cells hold does not matter to their times, so the models count bytes and
//! clock cycles; the contents are the matter of the protocol cores. The cache of the
//! workstation is not kept in step with its I/O: the driver has to write a buffer's
//! modified lines to memory before the interface may read them. That takes time in which
//! neither the processor nor the interface does anything else, it grows with the block
//! only as far as the cache can hold it, and so it is what bends the measured curve.
//! Source: penn91; what it leaves open is marked in the parameter file.

mod cache;
mod driver;
mod processor;
mod reassembler;
mod segmenter;
mod streaming;

pub use cache::{Cache, CacheConfig, Moved};
pub use driver::{Action, Driver, Event, Path, State, Stats, Touch};
pub use processor::{Costs, Processor};
pub use reassembler::{Passage, Reassembler, ReassemblerConfig};
pub use segmenter::{Segment, Segmenter, SegmenterConfig};
pub use streaming::{Streaming, StreamingConfig};
