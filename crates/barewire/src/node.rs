//! What all handles of a node share: the lock around its tables, waiting, live settings.

pub(crate) mod aside;
pub(crate) mod bulk;
pub(crate) mod capture;
pub mod settings;
pub(crate) mod shared;
pub(crate) mod wait;
