//! The link to one other node: doorbells, receive memory, and what a foreign user may use up.

pub(crate) mod arena;
pub(crate) mod budget;
pub(crate) mod link;
