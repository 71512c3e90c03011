//! The door of a node: a socket on which processes of its own user, and root, may ask for its
//! settings and change them.
//!
//! ```text
//! name      barewire/set/1/NODE, NODE being its random number as `barewire ls --json` shows it
//! request   "set\n", then KEY=VALUE\n for each change; none: only asks
//! answer    "+\n", then KEY\tVALUE\tABOUT\n for each setting, after the change
//!           "-REASON": nothing has been changed
//! ```
//! One request and one answer to a connection, UTF-8, at most [`REQUEST_BYTES_MAX`] and
//! [`ANSWER_BYTES_MAX`] bytes. Source: own design.
//!
//! Who looks at the node's sockets attends to the door too: it needs no thread, and a sleeping
//! node wakes for it. A request waits in the kernel until the node is polled. Strangers are
//! turned away unread, by the kernel's word for who they are.

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

/// Epoll token of the door: of the kind of the node's eventfd, but not it.
const TOKEN_DOOR: u64 = 1 << 2;
/// Of those who have come in, with their number in the upper half.
const TOKEN_ASKER: u64 = 2 << 2;
/// Who may wait outside.
const BACKLOG: i32 = 16;
/// Who may have come in without having asked yet; the oldest goes.
const ASKERS_MAX: usize = 4;
/// Let in, or turned away, in one turn.
const PER_TURN: usize = 8;

/// Where the door of a node is.
pub(crate) fn door_name(node_id: [u64; 2]) -> Vec<u8> {
    format!("barewire/set/1/{:016x}{:016x}", node_id[0], node_id[1]).into_bytes()
}

/// The door of a node, and who has come in.
pub(crate) struct Door {
    listener: Listener,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    askers: Vec<(u32, Guarded)>,
    next: u32,
    /// Somebody may wait outside of whom we shall not be told again.
    unattended: bool,
}

impl Door {
    /// `None` where the process may not listen, or has no descriptor left: the node does without.
    pub fn open(node_id: [u64; 2], epoll: &Epoll) -> Option<Door> {
        let listener = Listener::bind(&door_name(node_id), BACKLOG).ok()?;
        // By the edge: whom we can not let in now must not keep us awake.
        epoll.add(&listener, TOKEN_DOOR, Interest::READ_EDGE).ok()?;
        Some(Door {
            listener,
            inside: Mutex::default(),
        })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// One of the node's descriptors has something: if it is the door's, attends to it. What was
    /// asked is answered by `answer`.
    pub fn attend(&self, base: &Base, token: u64, answer: impl FnOnce(&[u8]) -> String) {
        match (token as u32, (token >> 32) as u32) {
            (low, 0) if u64::from(low) == TOKEN_DOOR => self.let_in(base),
            (low, number) if u64::from(low) == TOKEN_ASKER => {
                self.hear_asker(base, number, answer);
            }
            _ => {}
        }
    }

    /// Lets in whom there was no room for.
    pub fn attend_again(&self, base: &Base) {
        if core::mem::take(&mut self.inside().unattended) {
            self.let_in(base);
        }
    }

    fn let_in(&self, base: &Base) {
        for _ in 0..PER_TURN {
            // Whoever comes may have sent what is slow to close.
            if base.retirer.is_full() {
                self.inside().unattended = true;
                return;
            }
            match self.listener.accept() {
                Ok(Some(socket)) => self.admit(base, Guarded::new(socket, &base.retirer)),
                Ok(None) => return,
                // No descriptor is left.
                Err(_) => {
                    self.inside().unattended = true;
                    return;
                }
            }
        }
        self.inside().unattended = true;
        base.wake();
    }

    fn admit(&self, base: &Base, socket: Guarded) {
        let admitted = |who: &Credentials| who.uid == base.own.uid || who.uid == 0;
        if !socket.peer_credentials().is_ok_and(|who| admitted(&who)) {
            return;
        }
        let mut inside = self.inside();
        let number = inside.next;
        inside.next = number.wrapping_add(1);
        let token = TOKEN_ASKER | u64::from(number) << 32;
        if base.epoll.add(&socket, token, Interest::READ).is_err() {
            return;
        }
        if inside.askers.len() >= ASKERS_MAX {
            let (_, oldest) = inside.askers.remove(0);
            let _ = base.epoll.remove(&oldest);
        }
        inside.askers.push((number, socket));
    }

    /// Reads what one has asked, answers, and shows it out.
    fn hear_asker(&self, base: &Base, number: u32, answer: impl FnOnce(&[u8]) -> String) {
        let mut inside = self.inside();
        let Some(at) = inside.askers.iter().position(|(known, _)| *known == number) else {
            return;
        };
        let socket = &inside.askers[at].1;
        // Descriptors, which nobody needs here, stay where they are, to be closed beside us.
        let peeked = socket.peek().or_else(|_| socket.peek());
        if let Ok(None) = peeked {
            return;
        }
        let (_, socket) = inside.askers.remove(at);
        drop(inside);
        let _ = base.epoll.remove(&socket);
        if !peeked.is_ok_and(|message| message.is_some_and(|m| !m.has_descriptors)) {
            return;
        }
        let mut request = [0; REQUEST_BYTES_MAX];
        if let Ok(Received::Message(len)) = socket.recv(&mut request, &mut Vec::new()) {
            let answer = answer(&request[..len]);
            // Who has gone meanwhile, or does not read, learns it from the settings themselves.
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
