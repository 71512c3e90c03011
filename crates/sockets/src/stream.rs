//! Bytes out of and into an upgraded socket.
//!
//! Each call holds the lock of its direction, but not while it sleeps. A blocking read
//! sleeps in the kernel, in a `recv` that only peeks. So the kernel itself handles timeouts,
//! signals, restarts, cancellation and the end of the connection.

pub mod buffers;
pub mod calls;
pub mod capture;
pub mod empty_reads;
pub mod fast_path;
pub mod kernel_calls;
pub mod leaving;
pub mod lost_bytes;
pub mod low_water;
pub mod order;
pub mod order_marks;
pub mod peeking;
pub mod pending_error;
pub mod ready;
pub mod recall;
pub mod receive_side;
pub mod receiving;
pub mod ring_full_wait;
pub mod send_side;
pub mod sending;
pub mod sleeping;
pub mod wake_bytes;
