//! Sockets that end, or that go to another process or program: close, fork, exec, passed descriptors,
//! sandboxes.

pub mod closing;
pub mod duplicate;
pub mod fork;
pub mod give_back;
pub mod program_end;
pub mod relay;
pub mod relay_connection;
pub mod relay_copying;
pub mod relay_process;
pub mod sandbox_entry;
