//! Apertures and tripwires, as memory: what is known of them without a node.

pub(crate) mod bytes;
pub(crate) mod importers;
pub(crate) mod standing;
