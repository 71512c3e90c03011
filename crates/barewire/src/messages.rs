//! The messages that two processes exchange over a link's control socket.

pub(crate) mod control;
pub(crate) mod passed;
