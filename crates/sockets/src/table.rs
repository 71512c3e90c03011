//! Which descriptor is which socket, what is known of each socket, and which processes share it.

pub mod admission;
pub mod descriptors;
pub mod directions;
pub mod event_log;
pub mod flags;
pub mod gate;
pub mod inheritance;
pub mod kernel_probe;
pub mod limits;
pub mod pins;
pub mod process_refs;
pub mod reason_report;
pub mod references;
pub mod report;
pub mod ring_full_rests;
pub mod slots;
pub mod socket_name;
pub mod socket_state;
pub mod sockets;
pub mod state;
pub mod status;
pub mod stream_memory;
pub mod uring_rings;
