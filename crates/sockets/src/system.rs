//! The C library's real functions, and questions to the kernel.

pub mod append;
pub mod cancel;
pub mod fd_passing;
pub mod kernel;
pub mod own_descriptors;
pub mod real;
pub mod text;
pub mod unix_sockets;
#[cfg(target_arch = "x86_64")]
pub mod unwinder;
