//! What the gateway knows of sockets of the program: the ends of their connections, and why some have none.

use barewire_proto::edge::program::Answer;
use std::collections::{HashMap, VecDeque};

/// How many that are over are kept: the program may ask a while later.
const OVER_MAX: usize = 4096;

/// By what the program asks for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The kernel's cookie of one that it has connected.
    Cookie(u64),
    /// The port of the gateway's end of one that it has accepted.
    Port(u16),
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    answers: HashMap<Key, Answer>,
    over: VecDeque<(Key, Answer)>,
}

impl Known {
    /// Notes something about a socket, which has one of the two. What fails at once is over.
    pub(super) fn add(&mut self, cookie: Option<u64>, port: Option<u16>, answer: Answer) {
        let keys = [cookie.map(Key::Cookie), port.map(Key::Port)];
        for key in keys.into_iter().flatten() {
            self.answers.insert(key, answer);
            if answer.error != 0 {
                self.retire(key);
            }
        }
    }

    /// The socket's connection is over.
    pub(super) fn end(&mut self, cookie: Option<u64>, port: Option<u16>) {
        let keys = [cookie.map(Key::Cookie), port.map(Key::Port)];
        for key in keys.into_iter().flatten() {
            self.retire(key);
        }
    }

    fn retire(&mut self, key: Key) {
        let Some(&answer) = self.answers.get(&key) else {
            return;
        };
        self.over.push_back((key, answer));
        if self.over.len() > OVER_MAX {
            if let Some((oldest, was)) = self.over.pop_front() {
                // The socket, or the port, may have another connection since.
                let is_same = self.answers.get(&oldest) == Some(&was);
                if is_same && !self.over.iter().any(|(key, _)| *key == oldest) {
                    self.answers.remove(&oldest);
                }
            }
        }
    }

    pub(super) fn of_cookie(&self, cookie: u64) -> Option<Answer> {
        self.answers.get(&Key::Cookie(cookie)).copied()
    }

    pub(super) fn of_port(&self, port: u16) -> Option<Answer> {
        self.answers.get(&Key::Port(port)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_known_for_a_while() {
        let mut known = Known::default();
        let failed = |error| Answer {
            error,
            ..Answer::default()
        };
        let open = Answer {
            local: "10.0.0.9:1".parse().ok(),
            ..Answer::default()
        };
        known.add(None, Some(80), open);
        for cookie in 0..=OVER_MAX as u64 {
            known.add(Some(cookie), None, failed(111));
        }
        assert_eq!(known.of_cookie(0), None);
        assert_eq!(known.of_cookie(1), Some(failed(111)));
        assert_eq!(known.of_port(80), Some(open));
        assert_eq!(known.answers.len(), OVER_MAX + 1);
        // A socket that failed connects again, and outlives what is known of its failure.
        known.add(Some(1), None, open);
        for cookie in 0..OVER_MAX as u64 {
            known.add(Some(10_000 + cookie), None, failed(110));
        }
        assert_eq!(known.of_cookie(1), Some(open));
        known.end(None, Some(80));
        assert_eq!(known.of_port(80), Some(open));
    }
}
