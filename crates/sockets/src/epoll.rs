//! Epoll sets: which sockets are registered in which set, and what the kernel knows of each registration.

pub mod deferred_ctl;
pub mod locked;
pub mod sets;
pub mod tables;
