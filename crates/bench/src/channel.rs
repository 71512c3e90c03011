//! What connects the two processes: the control socket, memory that both map, the two ends of
//! a transport, and the loops that measure over them.

pub mod control;
pub mod ends;
pub mod loops;
pub mod shared_memory;
