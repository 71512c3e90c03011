//! A host, and a stranger who says anything: for a fuzz target.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use super::exchange::{Exchange, Progress, STRANGER_BYTES_MAX};
use super::identity::Identity;
use super::keygen::{GenerateOptions, generate, trust};

/// A host with a certificate, and one with a secret. Each trusts itself.
pub struct Hosts {
    with_certificate: Identity,
    with_secret: Identity,
}

impl Hosts {
    /// With keys that are made in `folder`, which is made, and removed again.
    pub fn new(folder: &Path) -> Hosts {
        let host = |is_secret: bool| {
            let place = folder.join(if is_secret { "one" } else { "other" });
            let options = GenerateOptions {
                is_secret,
                name: "fuzz".to_owned(),
                replace: true,
            };
            generate(&place, &options).expect("keys");
            if !is_secret {
                trust(&place, &place.join("certificate.pem"), "itself", true).expect("trust");
            }
            Identity::load(&place).expect("these keys")
        };
        let hosts = Hosts {
            with_certificate: host(false),
            with_secret: host(true),
        };
        std::fs::remove_dir_all(folder).expect("the folder goes");
        hosts
    }
}

/// One end of a connection in memory.
#[derive(Default)]
struct End {
    incoming: VecDeque<u8>,
    is_closed: bool,
    taken: usize,
    outgoing: Vec<u8>,
}

impl Read for End {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() && !self.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.incoming.read(into)?;
        self.taken += count;
        Ok(count)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One side of a handshake, and whether it is over: with or without a peer.
struct Side {
    exchange: Exchange,
    end: End,
    has_peer: Option<bool>,
}

impl Side {
    fn new(identity: &Identity, connects: bool) -> Side {
        let exchange = match connects {
            true => Exchange::connect(identity, None),
            false => Exchange::accept(identity),
        };
        Side {
            exchange: exchange.expect("an exchange"),
            end: End::default(),
            has_peer: None,
        }
    }

    fn step(&mut self) {
        if self.has_peer.is_none() {
            match self.exchange.step(&mut self.end) {
                Ok(Progress::Wait { .. }) => assert!(!self.end.is_closed, "it waits for the dead"),
                Ok(Progress::Done(_)) => self.has_peer = Some(true),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    self.has_peer = Some(false);
                }
            }
        }
        assert!(
            self.end.taken <= STRANGER_BYTES_MAX,
            "it takes {} bytes",
            self.end.taken
        );
    }
}

/// A host that hears `script`. The first byte says which host, on which side, and whether the
/// rest is said to it, or is what happens to the words of an honest peer.
pub fn stranger(hosts: &Hosts, script: &[u8]) {
    let Some((first, rest)) = script.split_first() else {
        return;
    };
    let identity = match first & 1 {
        0 => &hosts.with_certificate,
        _ => &hosts.with_secret,
    };
    let connects = first & 2 != 0;
    let mut side = Side::new(identity, connects);
    if first & 4 == 0 {
        // In pieces of a size that the script chooses.
        let piece = 1 + usize::from(first >> 3) * 61;
        for bytes in rest.chunks(piece) {
            side.end.incoming.extend(bytes);
            side.step();
        }
        side.end.is_closed = true;
        side.step();
        assert_eq!(
            side.has_peer,
            Some(false),
            "a stranger has proved something"
        );
        return;
    }
    let mut other = Side::new(identity, !connects);
    let changes: Vec<(usize, u8)> = (rest.chunks_exact(3))
        .map(|it| (usize::from(u16::from_le_bytes([it[0], it[1]])), it[2]))
        .collect();
    let mut said = 0;
    let mut is_closing = false;
    while side.has_peer.is_none() || other.has_peer.is_none() {
        other.step();
        let mut words = std::mem::take(&mut other.end.outgoing);
        for &(at, change) in &changes {
            if let Some(byte) = at.checked_sub(said).and_then(|at| words.get_mut(at)) {
                *byte ^= change;
            }
        }
        said += words.len();
        side.end.incoming.extend(&words);
        side.step();
        let answer = std::mem::take(&mut side.end.outgoing);
        other.end.incoming.extend(&answer);
        // Nothing moves any more: a changed length, for instance.
        if words.is_empty() && answer.is_empty() {
            let is_over = side.has_peer.is_some() && other.has_peer.is_some();
            assert!(is_over || !is_closing, "it goes on after the end");
            is_closing = true;
            side.end.is_closed = true;
            other.end.is_closed = true;
        }
    }
    if changes.iter().all(|(_, change)| *change == 0) {
        assert_eq!((side.has_peer, other.has_peer), (Some(true), Some(true)));
    }
}
