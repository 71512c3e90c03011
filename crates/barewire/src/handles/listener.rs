//! A name that is listened to.

use std::sync::Arc;

use barewire_sys::SysError;
use barewire_sys::retire::{Guarded, Retirer};
use barewire_sys::socket::{Listener as ListenSocket, Socket};
use barewire_sys::wake::Interest;

use crate::config::{ListenOptions, socket_name};
use crate::error::{Error, Result};
use crate::log::{self, Level};
use crate::node::core::NodeCore;
use crate::tables::entries::ListenerEntry;
use crate::tables::token::Token;

/// Longest backlog of first contacts that the kernel keeps.
const BACKLOG: i32 = 1024;

/// A name that is being listened to. Dropping it gives the name up; connections stay.
pub struct Listener {
    node: Arc<NodeCore>,
    index: usize,
    name: String,
}

impl Listener {
    pub(crate) fn bind(
        node: &Arc<NodeCore>,
        name: &str,
        options: ListenOptions,
    ) -> Result<Listener> {
        let base = &node.base;
        base.check_fork()?;
        let socket_name = socket_name(base.own.uid, name)?;
        let socket = ListenSocket::bind(&socket_name, BACKLOG)
            .map_err(|error| name_taken(error, name, &socket_name, &base.retirer))?;
        let mut state = node.state();
        let index = state.listeners.entries.vacant_key();
        let token = Token::Listener(index).pack();
        base.epoll.add(&socket, token, Interest::READ)?;
        state.listeners.entries.insert(ListenerEntry {
            name: name.to_owned(),
            socket,
            policy: options.policy,
            waiting: 0,
        });
        drop(state);
        log::line(Level::Info, || format!("listens as `{name}`"));
        Ok(Listener {
            node: Arc::clone(node),
            index,
            name: name.to_owned(),
        })
    }

    /// The name that is listened to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A child would take the name out of its parent's epoll set.
        if self.node.base.check_fork().is_err() {
            return;
        }
        let mut state = self.node.state();
        if let Some(entry) = state.listeners.entries.try_remove(self.index) {
            let _ = self.node.base.epoll.remove(&entry.socket);
            turn_all_away(entry.socket, &self.node.base.retirer);
        }
    }
}

/// Gives a name up. What those have sent who still wait is closed beside us.
fn turn_all_away(listener: ListenSocket, retirer: &Retirer) {
    listener.shutdown();
    loop {
        match listener.accept() {
            Ok(Some(socket)) => retirer.socket(socket),
            Ok(None) => return,
            // No descriptor is left to take them with.
            Err(_) => return retirer.later(Box::new(listener)),
        }
    }
}

impl core::fmt::Debug for Listener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Listener")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Who has a name that we wanted.
fn name_taken(error: SysError, name: &str, socket_name: &[u8], retirer: &Retirer) -> Error {
    if !matches!(error, SysError::AddressInUse { .. }) {
        return error.into();
    }
    let holder = Socket::connect(socket_name).map(|s| Guarded::new(s, retirer));
    let holder = holder.and_then(|s| s.peer_credentials());
    Error::NameTaken {
        name: name.to_owned(),
        holder: match holder {
            Ok(who) => format!("process {} of user {}", who.pid, who.uid),
            Err(_) => "a process that does not answer".to_owned(),
        },
    }
}
