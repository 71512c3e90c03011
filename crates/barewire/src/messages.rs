//! What two processes say to each other over a link's control socket.

pub(crate) mod control;
pub(crate) mod passed;
