//! The settings socket of a node: processes of its own user, and root, read its settings and
//! change them through it.
//!
//! ```text
//! name      barewire/set/1/NODE, NODE being its random number as `barewire ls --json` shows it
//! request   "set\n", then KEY=VALUE\n for each change; none: only reads
//! answer    "+\n", then KEY\tVALUE\tABOUT\n for each setting, after the change
//!           "-REASON": nothing has been changed
//! ```
//! One request and one answer to a connection, UTF-8, at most [`REQUEST_BYTES_MAX`] and
//! [`ANSWER_BYTES_MAX`] bytes. Source: own design.
//!
//! Whichever thread polls the sockets of the node also serves this one, so it needs no thread of
//! its own, and a sleeping node wakes for it. A request waits in the kernel until the node is
//! polled. The kernel says who connects: nothing is read from any other user.

use std::sync::{Mutex, MutexGuard, PoisonError};

use barewire_sys::SysError;
use barewire_sys::process::Credentials;
use barewire_sys::retire::Guarded;
use barewire_sys::socket::{Listener, Received, Sent};
use barewire_sys::wake::{Epoll, Interest};

use crate::error::Result;
use crate::links::base::Base;
use crate::node::settings::Setting;

/// Longest request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 4096;
/// Longest answer, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 8192;
/// How a request begins.
pub(crate) const REQUEST: &str = "set\n";
/// How an answer begins that lists the settings.
pub(crate) const LIST: &str = "+\n";
/// How an answer begins that says why nothing was changed.
pub(crate) const REFUSAL: &str = "-";

/// Epoll token of the settings socket. It is no token of the node's tables.
const TOKEN_LISTENER: u64 = 1 << 2;
/// Epoll token of a client, with its number in the upper half.
const TOKEN_CLIENT: u64 = 2 << 2;
/// How many connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 16;
/// Most clients that have not sent a request yet. The oldest is closed for a new one.
const CLIENTS_MAX: usize = 4;
/// Most connections accepted at a time.
const ACCEPTED_PER_TURN: usize = 8;

/// The name of a node's settings socket.
pub(crate) fn settings_socket_name(node_id: [u64; 2]) -> Vec<u8> {
    format!("barewire/set/1/{:016x}{:016x}", node_id[0], node_id[1]).into_bytes()
}

/// The settings socket of a node, and its clients.
pub(crate) struct SettingsServer {
    listener: Listener,
    clients: Mutex<Clients>,
}

/// Clients that have not sent a request yet.
#[derive(Default)]
struct Clients {
    waiting: Vec<(u32, Guarded)>,
    next: u32,
    /// A connection may wait that epoll will not report again.
    postponed: bool,
}

impl SettingsServer {
    /// `None` where the process may not listen, or has no descriptor left: the node does without.
    pub fn open(node_id: [u64; 2], epoll: &Epoll) -> Option<SettingsServer> {
        let listener = Listener::bind(&settings_socket_name(node_id), BACKLOG).ok()?;
        // Edge-triggered: a connection that can not be accepted now must not keep us awake.
        epoll
            .add(&listener, TOKEN_LISTENER, Interest::READ_EDGE)
            .ok()?;
        Some(SettingsServer {
            listener,
            clients: Mutex::default(),
        })
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SettingsServer {
    /// One of the node's descriptors is ready: serves it, if it belongs to the settings socket.
    /// `answer` makes the answer to a request.
    pub fn serve(&self, base: &Base, token: u64, answer: impl FnOnce(&[u8]) -> String) {
        match (token as u32, (token >> 32) as u32) {
            (low, 0) if u64::from(low) == TOKEN_LISTENER => self.accept_all(base),
            (low, number) if u64::from(low) == TOKEN_CLIENT => {
                self.serve_client(base, number, answer);
            }
            _ => {}
        }
    }

    /// Accepts connections for which there was no room before.
    pub fn accept_postponed(&self, base: &Base) {
        if core::mem::take(&mut self.clients().postponed) {
            self.accept_all(base);
        }
    }

    fn accept_all(&self, base: &Base) {
        for _ in 0..ACCEPTED_PER_TURN {
            // A connection may carry descriptors that are slow to close.
            if base.retirer.is_full() {
                self.clients().postponed = true;
                return;
            }
            match self.listener.accept() {
                Ok(Some(socket)) => self.admit(base, Guarded::new(socket, &base.retirer)),
                Ok(None) => return,
                // No descriptor is left.
                Err(_) => {
                    self.clients().postponed = true;
                    return;
                }
            }
        }
        self.clients().postponed = true;
        base.wake();
    }

    fn admit(&self, base: &Base, socket: Guarded) {
        let admitted = |who: &Credentials| who.uid == base.own.uid || who.uid == 0;
        if !socket.peer_credentials().is_ok_and(|who| admitted(&who)) {
            return;
        }
        let mut clients = self.clients();
        let number = clients.next;
        clients.next = number.wrapping_add(1);
        let token = TOKEN_CLIENT | u64::from(number) << 32;
        if base.epoll.add(&socket, token, Interest::READ).is_err() {
            return;
        }
        if clients.waiting.len() >= CLIENTS_MAX {
            let (_, oldest) = clients.waiting.remove(0);
            let _ = base.epoll.remove(&oldest);
        }
        clients.waiting.push((number, socket));
    }

    /// Reads the request of a client, answers it, and closes the connection.
    fn serve_client(&self, base: &Base, number: u32, answer: impl FnOnce(&[u8]) -> String) {
        let mut clients = self.clients();
        let Some(at) = clients
            .waiting
            .iter()
            .position(|(known, _)| *known == number)
        else {
            return;
        };
        let socket = &clients.waiting[at].1;
        // Descriptors are of no use here: they are not received, and closed in another thread.
        let peeked = socket.peek().or_else(|_| socket.peek());
        if let Ok(None) = peeked {
            return;
        }
        let (_, socket) = clients.waiting.remove(at);
        drop(clients);
        let _ = base.epoll.remove(&socket);
        if !peeked.is_ok_and(|message| message.is_some_and(|m| !m.has_descriptors)) {
            return;
        }
        let mut request = [0; REQUEST_BYTES_MAX];
        if let Ok(Received::Message(len)) = socket.recv(&mut request, &mut Vec::new()) {
            let answer = answer(&request[..len]);
            // A client that has gone, or does not read, can read the settings later.
            let _: Result<Sent, SysError> = socket.send(answer.as_bytes(), &[]);
        }
    }
}

/// The answer to a request: `change` makes the changes, and `settings` are those that hold then.
pub(crate) fn answer(
    request: &[u8],
    change: impl FnOnce(&[(&str, &str)]) -> Result<()>,
    settings: impl FnOnce() -> Vec<Setting>,
) -> String {
    let changed = match parse(request) {
        None => Err("malformed request".to_owned()),
        Some(changes) if changes.is_empty() => Ok(()),
        Some(changes) => change(&changes).map_err(|error| error.to_string()),
    };
    match changed {
        Ok(()) => list(&settings()),
        Err(reason) => format!("{REFUSAL}{reason}"),
    }
}

/// The changes that a request asks for; `None` if it is none.
fn parse(request: &[u8]) -> Option<Vec<(&str, &str)>> {
    let lines = core::str::from_utf8(request).ok()?.strip_prefix(REQUEST)?;
    lines.lines().map(|line| line.split_once('=')).collect()
}

fn list(settings: &[Setting]) -> String {
    let line = |s: &Setting| format!("{}\t{}\t{}\n", s.key, s.value, s.about);
    let mut answer = LIST.to_owned();
    answer.extend(settings.iter().map(line));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    #[test]
    fn requests_are_told_from_other_bytes() {
        assert_eq!(parse(b"set\n"), Some(vec![]));
        assert_eq!(
            parse(b"set\na=b\nc=d=e\n"),
            Some(vec![("a", "b"), ("c", "d=e")])
        );
        for wrong in [
            &b""[..],
            b"get\n",
            b"set\na",
            b"set\na=b\n\n",
            b"set\n\xff=b\n",
        ] {
            assert_eq!(parse(wrong), None);
        }
    }

    #[test]
    fn the_list_fits_an_answer() {
        let node = Node::new().unwrap();
        assert!(list(&node.settings()).len() <= ANSWER_BYTES_MAX);
        // The longest refusal names them all.
        let error = node
            .set(&[(&"k".repeat(REQUEST_BYTES_MAX), "v")])
            .unwrap_err();
        assert!(error.to_string().len() < ANSWER_BYTES_MAX);
    }
}
