//! How lines for people name a socket: `127.0.0.1:6379 - 127.0.0.1:40022`, `unix:8112 - unix:8110`.
//!
//! A Unix socket is named by its inode and that of the other end (0: not known), as `ss -x` shows them.

use core::fmt;

use crate::system::{kernel, unix_sockets};
use crate::table::flags::UNIX;
use crate::table::socket_state::SocketState;

/// Both ends of a socket. To show them takes system calls.
pub struct SocketName<'a> {
    /// A descriptor of it, open.
    pub fd: i32,
    /// Its state.
    pub socket: &'a SocketState,
}

impl fmt::Display for SocketName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kernel::tuple(self.fd).map(|tuple| tuple.ends()) {
            Some([own, other]) => write!(f, "{own} - {other}"),
            None if self.socket.has(UNIX) => {
                let own = unix_sockets::inode(self.fd).unwrap_or(0);
                // 0 if nobody has asked for it.
                let other = self.socket.other_inode.get();
                write!(f, "unix:{own} - unix:{other}")
            }
            None => f.write_str("(no longer connected)"),
        }
    }
}
