//! Reads and changes the settings of a live node, perhaps in another process.

use std::time::Duration;

use barewire_sys::SysError;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::socket::{Received, Sent, Socket};
use barewire_sys::wake::{Epoll, Interest};

use crate::node::settings::Setting;
use crate::node::settings::server::{
    ANSWER_BYTES_MAX, LIST, REFUSAL, REQUEST, REQUEST_BYTES_MAX, settings_socket_name,
};
use crate::node::wait::Deadline;

/// Which node is asked: `barewire ls` shows all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// Its process.
    pub pid: i32,
    /// Its random number.
    pub node_id: [u64; 2],
}

/// Why a node did not change its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody listens on its settings socket.
    #[error(
        "the node can not be reached: it is in another network namespace, was made by an earlier \
         version, or has just gone"
    )]
    NotHere,
    /// Another process listens on it.
    #[error(
        "process {found} holds the socket of the node, instead of process {expected}: not asking it"
    )]
    Stranger {
        /// The process expected.
        expected: i32,
        /// The one that is there.
        found: i32,
    },
    /// It closed the connection: we are neither its user nor root.
    #[error("the node refused: only its own user and root may change its settings")]
    TurnedAway,
    /// It has not been polled meanwhile.
    #[error(
        "the node has not answered within {} s: its program has not polled it (or is stopped). It \
         will take the request when it next does",
        waited.as_secs_f64()
    )]
    NotPolled {
        /// How long that was.
        waited: Duration,
    },
    /// It refused, and has changed nothing.
    #[error("{0}")]
    Refused(String),
    /// The request, or what came back, is none.
    #[error("{0}")]
    Malformed(&'static str),
    /// The system refused something.
    #[error("{0}")]
    System(#[from] SysError),
}

/// Asks a node to change these settings, all or none, and waits until it has done so, for at
/// most `timeout`. Gives all settings that can be changed, as they are then; without changes
/// it only asks for them.
///
/// The node must be in this network namespace, and of our user unless we are root. It answers when
/// its program polls it, waits on it, or waits on one of its connections.
///
/// # Errors
/// See [`AskError`]. After [`AskError::NotPolled`] the node takes the request later.
pub fn ask(
    node: NodeAddress,
    changes: &[(&str, &str)],
    timeout: Duration,
) -> Result<Vec<Setting>, AskError> {
    let request = request(changes)?;
    let socket = match Socket::connect(&settings_socket_name(node.node_id)) {
        Ok(socket) => socket,
        Err(SysError::NoListener { .. }) => return Err(AskError::NotHere),
        // As many wait as may: it lets nobody in.
        Err(SysError::Busy { .. }) => {
            return Err(AskError::NotPolled {
                waited: Duration::ZERO,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let found = socket.peer_credentials()?.pid;
    if found != node.pid {
        let expected = node.pid;
        return Err(AskError::Stranger { expected, found });
    }
    match socket.send(request.as_bytes(), &[]) {
        Ok(Sent::Done) => {}
        Ok(Sent::WouldBlock) => return Err(AskError::Malformed("the request is too long")),
        Err(SysError::Hangup { .. }) => return Err(AskError::TurnedAway),
        Err(error) => return Err(error.into()),
    }
    let answer = receive_answer(&socket, timeout)?;
    if let Some(reason) = answer.strip_prefix(REFUSAL) {
        return Err(AskError::Refused(reason.to_owned()));
    }
    parse(&answer).ok_or(AskError::Malformed("the node's answer is none"))
}

fn request(changes: &[(&str, &str)]) -> Result<String, AskError> {
    let wrong = |text: &str| text.contains(['\n', '\r']);
    if changes
        .iter()
        .any(|(key, value)| key.contains('=') || wrong(key) || wrong(value))
    {
        return Err(AskError::Malformed("a setting is one line, KEY=VALUE"));
    }
    let lines = changes
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"));
    let request: String = std::iter::once(REQUEST.to_owned()).chain(lines).collect();
    if request.len() > REQUEST_BYTES_MAX {
        return Err(AskError::Malformed("the request is too long"));
    }
    Ok(request)
}

fn receive_answer(socket: &Socket, timeout: Duration) -> Result<String, AskError> {
    let epoll = Epoll::new()?;
    epoll.add(socket, 1, Interest::READ)?;
    let deadline = Deadline::after(Some(timeout));
    let mut answer = [0; ANSWER_BYTES_MAX];
    let mut events = Vec::with_capacity(1);
    loop {
        match socket.recv(&mut answer, &mut Vec::new())? {
            Received::Message(len) => {
                return Ok(String::from_utf8_lossy(&answer[..len]).into_owned());
            }
            Received::Hangup => return Err(AskError::TurnedAway),
            Received::Truncated => return Err(AskError::Malformed("the node's answer is none")),
            Received::WouldBlock => {}
        }
        let left = deadline.left(monotonic_ns()).unwrap_or_default();
        if left.is_zero() {
            return Err(AskError::NotPolled { waited: timeout });
        }
        epoll.wait(&mut events, Some(left))?;
    }
}

fn parse(answer: &str) -> Option<Vec<Setting>> {
    let setting = |line: &str| {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        Some(Setting {
            key: parts.next()?,
            value: parts.next()?,
            about: parts.next()?,
        })
    };
    answer.strip_prefix(LIST)?.lines().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_no_line_are_not_sent() {
        for wrong in [("a\nb", "c"), ("a", "b\nc=d"), ("a=b", "c"), ("a", "b\rc")] {
            assert!(
                matches!(request(&[wrong]), Err(AskError::Malformed(_))),
                "{wrong:?}"
            );
        }
        let long = "v".repeat(REQUEST_BYTES_MAX);
        assert!(matches!(
            request(&[("a", &long)]),
            Err(AskError::Malformed(_))
        ));
        assert_eq!(request(&[("a", "b=c")]).unwrap(), "set\na=b=c\n");
    }

    #[test]
    fn answers_are_read_or_refused() {
        let settings = parse("+\nkey\tvalue\tabout it\n").unwrap();
        assert_eq!(settings[0].value, "value");
        assert_eq!(settings[0].about, "about it");
        assert_eq!(parse("+\nkey\tvalue\n"), None);
        assert_eq!(parse("key\tvalue\tabout\n"), None);
    }
}
