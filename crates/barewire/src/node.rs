//! What all handles of a node share: the lock around its tables, waiting, live settings.

pub(crate) mod bulk;
pub(crate) mod capture;
pub(crate) mod core;
mod dialing;
pub(crate) mod hosts;
mod hosts_thread;
pub(crate) mod pace;
mod polling;
pub mod settings;
pub(crate) mod wait;
mod waiting;
