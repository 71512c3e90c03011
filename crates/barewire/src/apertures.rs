//! Apertures and tripwires, as memory: what is known of them without a node.

pub(crate) mod access;
pub(crate) mod bytes;
pub(crate) mod exported;
pub(crate) mod far;
pub(crate) mod imported;
pub(crate) mod importers;
pub(crate) mod layout;
pub(crate) mod serving;
pub(crate) mod tripwire;
