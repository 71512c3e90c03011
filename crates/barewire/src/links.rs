//! The link to one other node, and what connections over it share: doorbells, receive memory,
//! and what a foreign user may use up.

pub(crate) mod arena;
pub(crate) mod asking;
pub(crate) mod base;
pub(crate) mod budget;
pub(crate) mod connection;
pub(crate) mod cork;
pub(crate) mod driven;
pub(crate) mod far;
pub(crate) mod link;
pub(crate) mod unconfirmed;
