//! What the tests share: folders of keys, connections, and driving two ends at a time.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::{
    GenerateOptions, Handshake, HandshakeError, Identity, Step, TlsCarrier, generate, trust,
};
use crate::carrier::{Arrival, Broken, Carrier, Sleep};
use crate::peer::PeerIdentity;

/// Only a broken program waits so long.
const DEADLINE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

/// A folder that is removed afterwards.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the number has to differ.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("barewire-tls-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        super::super::files::make_folder(&folder).unwrap();
        Folder(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn load(&self) -> Identity {
        Identity::load(&self.0).unwrap()
    }

    /// With a new key and certificate.
    pub(super) fn with_certificate() -> Folder {
        let folder = Folder::new();
        generate(&folder.0, &options(false)).unwrap();
        folder
    }

    /// With a new secret.
    pub(super) fn with_secret() -> Folder {
        let folder = Folder::new();
        generate(&folder.0, &options(true)).unwrap();
        folder
    }

    pub(super) fn trust(&self, other: &Folder, name: &str) {
        trust(&self.0, &other.file("certificate.pem"), name, false).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

pub(super) fn options(is_secret: bool) -> GenerateOptions {
    GenerateOptions {
        is_secret,
        name: "a-host".to_owned(),
        replace: false,
    }
}

/// Two hosts that trust each other as `client` and `server`.
pub(super) fn friends() -> (Identity, Identity) {
    let (one, other) = (Folder::with_certificate(), Folder::with_certificate());
    one.trust(&other, "server");
    other.trust(&one, "client");
    (one.load(), other.load())
}

/// A host with a secret.
pub(super) fn secret() -> Identity {
    Folder::with_secret().load()
}

/// The two ends of a connection: the one that connected first.
pub(super) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Waits until one of the descriptors is ready for what is asked of it.
pub(super) fn wait(descriptors: &[(BorrowedFd<'_>, PollFlags)]) {
    let mut polled: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|(descriptor, flags)| PollFd::from_borrowed_fd(*descriptor, *flags))
        .collect();
    let ready = poll(&mut polled, Some(&DEADLINE)).unwrap();
    assert!(ready > 0, "nothing happened before the deadline");
}

pub(super) fn flags(sleep: Sleep) -> PollFlags {
    match sleep {
        Sleep::NotYet => panic!("this is no time to sleep"),
        Sleep::UntilReadable => PollFlags::IN,
        Sleep::UntilReadableOrWritable => PollFlags::IN | PollFlags::OUT,
    }
}

pub(super) type Outcome = Result<(TlsCarrier, PeerIdentity), HandshakeError>;

/// One side of a handshake, and what became of it.
pub(super) struct Side {
    handshake: Handshake,
    pub(super) outcome: Option<Outcome>,
    flags: PollFlags,
}

impl Side {
    pub(super) fn new(handshake: Result<Handshake, HandshakeError>) -> Side {
        Side {
            handshake: handshake.unwrap(),
            outcome: None,
            flags: PollFlags::IN,
        }
    }

    pub(super) fn connect(stream: TcpStream, identity: &Identity) -> Side {
        Side::new(Handshake::connect(stream, identity, None))
    }

    pub(super) fn accept(stream: TcpStream, identity: &Identity) -> Side {
        Side::new(Handshake::accept(stream, identity))
    }

    /// A step, unless it is over.
    pub(super) fn step(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        match self.handshake.step() {
            Ok(Step::Wait(sleep)) => self.flags = flags(sleep),
            Ok(Step::Done(carrier, peer)) => self.outcome = Some(Ok((*carrier, peer))),
            Err(error) => {
                assert_eq!(self.handshake.step().unwrap_err(), error, "it stays so");
                self.outcome = Some(Err(error));
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// What became of it.
    pub(super) fn end(self) -> Outcome {
        self.outcome.expect("it is not over yet")
    }

    pub(super) fn waits(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self.outcome {
            Some(_) => None,
            None => Some((self.handshake.descriptor().unwrap(), self.flags)),
        }
    }
}

/// Drives both sides to the end.
pub(super) fn finish(mut one: Side, mut other: Side) -> (Outcome, Outcome) {
    loop {
        one.step();
        other.step();
        let waiting: Vec<_> = [one.waits(), other.waits()].into_iter().flatten().collect();
        if waiting.is_empty() {
            return (one.end(), other.end());
        }
        wait(&waiting);
    }
}

/// Has two hosts come together, or not.
pub(super) fn meet(client: &Identity, server: &Identity) -> (Outcome, Outcome) {
    let (one, other) = connection();
    finish(Side::connect(one, client), Side::accept(other, server))
}

/// Both ends of a carrier between two hosts.
pub(super) fn carriers() -> (TlsCarrier, TlsCarrier) {
    let (client, server) = friends();
    let (client, server) = meet(&client, &server);
    (client.unwrap().0, server.unwrap().0)
}

/// Drives one side against bytes that a stranger sends. The stranger reads everything, and closes
/// its side afterwards if `closes`. What the side said, and what it sent.
pub(super) fn accept_from_stranger(identity: &Identity, bytes: &[u8]) -> (HandshakeError, Vec<u8>) {
    use std::io::{Read, Write};
    let (mut stranger, accepted) = connection();
    let sent = bytes.to_vec();
    let mut side = Side::accept(accepted, identity);
    let talk = std::thread::spawn(move || {
        // It may be thrown out before it has said everything.
        let _ = stranger.write_all(&sent);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        answer
    });
    while !side.is_over() {
        wait(&[side.waits().unwrap()]);
        side.step();
    }
    let error = side.outcome.take().unwrap().unwrap_err();
    drop(side);
    (error, talk.join().unwrap())
}

/// Writes everything and flushes, while the other end reads nothing.
pub(super) fn write_all(carrier: &mut TlsCarrier, bytes: &[u8]) {
    assert_eq!(carrier.write(bytes).unwrap(), bytes.len());
    assert!(carrier.flush().unwrap());
}

/// Reads until `count` bytes are there.
pub(super) fn read_exactly(carrier: &mut impl Carrier, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        match carrier.read(&mut bytes[filled..]).unwrap() {
            Arrival::Bytes(more) => filled += more,
            Arrival::Nothing => wait_on(carrier),
            Arrival::End => panic!("the end after {filled} of {count} bytes"),
        }
    }
    bytes
}

/// Sleeps as the carrier says.
pub(super) fn wait_on(carrier: &mut impl Carrier) {
    match carrier.before_sleep() {
        Sleep::NotYet => {}
        other => wait(&[(carrier.descriptor().as_fd(), flags(other))]),
    }
}

/// Reads to the end, or to the error.
pub(super) fn read_to_end(carrier: &mut impl Carrier) -> (Vec<u8>, Result<(), Broken>) {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 10_000];
    loop {
        match carrier.read(&mut buffer) {
            Ok(Arrival::Bytes(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(Arrival::Nothing) => wait_on(carrier),
            Ok(Arrival::End) => return (bytes, Ok(())),
            Err(error) => {
                assert_eq!(carrier.read(&mut buffer), Err(error.clone()), "it stays so");
                return (bytes, Err(error));
            }
        }
    }
}

/// Seeded chance (xorshift64*).
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound as u64) as usize
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}
