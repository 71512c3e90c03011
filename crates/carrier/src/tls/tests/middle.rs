//! Somebody in the middle: who passes everything on, changes, repeats, leaves out or cuts it, or has
//! a session of TLS with each side.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustls::Connection;

use super::super::{HandshakeError, Identity, TlsCarrier};
use super::support::{
    Chance, Folder, Outcome, Side, connection, friends, read_exactly, read_to_end, secret, wait,
    write_all,
};
use crate::carrier::{Arrival, Broken, Carrier};

/// What is read now; nothing at the end.
fn available(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 1 << 16];
    match stream.read(&mut bytes) {
        Ok(0) => None,
        Ok(count) => {
            bytes.truncate(count);
            Some(bytes)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Vec::new()),
        // A reset is an end, too.
        Err(_) => None,
    }
}

/// One direction through the middle.
struct Way {
    from: TcpStream,
    to: TcpStream,
    passed: usize,
    is_over: bool,
}

impl Way {
    fn new(from: &TcpStream, to: &TcpStream) -> Way {
        from.set_nonblocking(true).unwrap();
        Way {
            from: from.try_clone().unwrap(),
            to: to.try_clone().unwrap(),
            passed: 0,
            is_over: false,
        }
    }

    /// Passes on what is there, changed by `edit`, which is given the position of the first byte.
    fn pass(&mut self, edit: &mut dyn FnMut(usize, &mut Vec<u8>)) {
        if self.is_over {
            return;
        }
        let Some(mut bytes) = available(&mut self.from) else {
            self.is_over = true;
            // It may be gone already.
            let _ = self.to.shutdown(Shutdown::Write);
            return;
        };
        let count = bytes.len();
        edit(self.passed, &mut bytes);
        self.passed += count;
        // The other side may be gone.
        let _ = self.to.write_all(&bytes);
    }

    fn waits(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        (!self.is_over).then(|| (self.from.as_fd(), PollFlags::IN))
    }
}

/// Two connections, and somebody who passes bytes from one to the other.
struct Middle {
    up: Way,
    down: Way,
}

impl Middle {
    /// The client's end, the server's end, and the middle.
    fn new() -> (TcpStream, TcpStream, Middle) {
        let (client, near) = connection();
        let (far, server) = connection();
        let middle = Middle {
            up: Way::new(&near, &far),
            down: Way::new(&far, &near),
        };
        (client, server, middle)
    }

    /// Has two hosts talk through the middle until both have an outcome.
    fn meet(
        &mut self,
        mut client: Side,
        mut server: Side,
        up: &mut dyn FnMut(usize, &mut Vec<u8>),
        down: &mut dyn FnMut(usize, &mut Vec<u8>),
    ) -> (Outcome, Outcome) {
        loop {
            client.step();
            self.up.pass(up);
            server.step();
            self.down.pass(down);
            if client.is_over() && server.is_over() {
                return (client.end(), server.end());
            }
            let sides = [
                client.waits(),
                server.waits(),
                self.up.waits(),
                self.down.waits(),
            ];
            let waiting: Vec<_> = sides.into_iter().flatten().collect();
            wait(&waiting);
        }
    }

    /// Two carriers that talk through the middle.
    fn carriers() -> (TlsCarrier, TlsCarrier, Middle) {
        let (near, far, mut middle) = Middle::new();
        let (client, server) = friends();
        let (client, server) = (Side::connect(near, &client), Side::accept(far, &server));
        let (client, server) = middle.meet(client, server, &mut |_, _| {}, &mut |_, _| {});
        (client.unwrap().0, server.unwrap().0, middle)
    }

    /// What the client has sent, when at least `count` bytes of it are there.
    fn taken_up(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            wait(&[(self.up.from.as_fd(), PollFlags::IN)]);
            bytes.extend(available(&mut self.up.from).expect("more bytes"));
        }
        bytes
    }
}

#[test]
fn a_handshake_survives_any_split() {
    for seed in 0..20 {
        let mut chance = Chance::new(seed);
        let (near, far, mut middle) = Middle::new();
        let (client, server) = friends();
        let (mut client, mut server) = (Side::connect(near, &client), Side::accept(far, &server));
        let mut held = [Vec::new(), Vec::new()];
        while !client.is_over() || !server.is_over() {
            client.step();
            server.step();
            for (way, held) in [&mut middle.up, &mut middle.down]
                .into_iter()
                .zip(&mut held)
            {
                held.extend(available(&mut way.from).unwrap_or_default());
                let count = chance.below(1 + held.len().min(40));
                way.to.write_all(&held[..count]).unwrap();
                held.drain(..count);
            }
        }
        let (client, server) = (client.end(), server.end());
        assert!(
            client.is_ok() && server.is_ok(),
            "seed {seed}: {client:?} {server:?}"
        );
    }
}

/// Flips one bit of what one side sends. The two must not come together, unless the byte is one
/// of those that mean nothing to anybody in TLS 1.3.
fn flipped(
    identities: &(Identity, Identity),
    is_up: bool,
    at: usize,
    bit: u8,
) -> (Outcome, Outcome) {
    let (near, far, mut middle) = Middle::new();
    let client = Side::connect(near, &identities.0);
    let server = Side::accept(far, &identities.1);
    let mut keep = |_: usize, _: &mut Vec<u8>| {};
    let mut is_cut = false;
    let mut flip = |position: usize, bytes: &mut Vec<u8>| {
        if (position..position + bytes.len()).contains(&at) {
            bytes[at - position] ^= 1 << bit;
            is_cut = true;
        }
    };
    // A changed length may have a side wait for bytes that never come. Then the caller's deadline
    // ends it; here it is the end of the other side.
    match is_up {
        true => middle.meet_or_part(client, server, &mut flip, &mut keep),
        false => middle.meet_or_part(client, server, &mut keep, &mut flip),
    }
}

impl Middle {
    /// As [`Middle::meet`], but cuts the connections if nothing moves any more.
    fn meet_or_part(
        &mut self,
        mut client: Side,
        mut server: Side,
        up: &mut dyn FnMut(usize, &mut Vec<u8>),
        down: &mut dyn FnMut(usize, &mut Vec<u8>),
    ) -> (Outcome, Outcome) {
        let mut still = 0;
        loop {
            let before = (self.up.passed, self.down.passed);
            client.step();
            self.up.pass(up);
            server.step();
            self.down.pass(down);
            if client.is_over() && server.is_over() {
                return (client.end(), server.end());
            }
            still = if before == (self.up.passed, self.down.passed) {
                still + 1
            } else {
                0
            };
            if still == 200 {
                for way in [&mut self.up, &mut self.down] {
                    let _ = way.to.shutdown(Shutdown::Both);
                }
            }
            std::thread::yield_now();
        }
    }
}

/// Where the second bytes of the versions of all records are. They mean nothing in TLS 1.3
/// (RFC 8446, 5.1).
fn versions(bytes: &[u8]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        found.push(at + 2);
        at += 5 + usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
    }
    found
}

#[test]
fn no_changed_byte_of_a_handshake_goes_unnoticed() {
    let folder = Folder::with_secret();
    for identities in [friends(), (folder.load(), folder.load())] {
        // What each side sends. With these keys the lengths are always the same.
        let (near, far, mut middle) = Middle::new();
        let client = Side::connect(near, &identities.0);
        let server = Side::accept(far, &identities.1);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let (client, server) = middle.meet(
            client,
            server,
            &mut |_, bytes| up.extend_from_slice(bytes),
            &mut |_, bytes| down.extend_from_slice(bytes),
        );
        drop((client.unwrap(), server.unwrap()));
        let meaningless = (versions(&up), versions(&down));
        let lengths = [up.len(), down.len()];
        assert!(lengths.iter().all(|it| *it < 1100), "{lengths:?}");
        let mut chance = Chance::new(7);
        let mut unnoticed = Vec::new();
        for (is_up, length) in [(true, lengths[0]), (false, lengths[1])] {
            let mut at = 0;
            while at < length {
                let bit = chance.below(8) as u8;
                let (client, server) = flipped(&identities, is_up, at, bit);
                if client.is_ok() && server.is_ok() {
                    unnoticed.push((is_up, at));
                }
                at += 1 + chance.below(9);
            }
        }
        unnoticed.retain(|&(is_up, at)| {
            let meaningless = if is_up {
                &meaningless.0
            } else {
                &meaningless.1
            };
            !meaningless.contains(&at)
        });
        assert_eq!(unnoticed, [], "of {lengths:?}");
    }
}

/// Moves bytes between a session of TLS and its socket. The plaintext that came; nothing if the
/// session is over.
fn turn(tls: &mut Connection, stream: &mut TcpStream) -> Option<Vec<u8>> {
    let bytes = available(stream)?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        tls.read_tls(&mut rest).ok()?;
        tls.process_new_packets().ok()?;
    }
    let mut plain = Vec::new();
    // Nothing more, or the end.
    let _ = tls.reader().read_to_end(&mut plain);
    Some(plain)
}

fn push(tls: &mut Connection, stream: &mut TcpStream) {
    while tls.wants_write() {
        if tls.write_tls(stream).is_err() {
            return;
        }
    }
}

/// Somebody without the secret has a session with each of two hosts that have it, and passes on what
/// they say inside TLS, changed by `edit`.
fn between(folder: &Folder, edit: impl Fn(&[u8]) -> Vec<u8>) -> (HandshakeError, HandshakeError) {
    let stranger = secret();
    let (client, mut near) = connection();
    let (mut far, server) = connection();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let mut to_client: Connection = stranger.server().unwrap().into();
    let mut to_server: Connection = stranger.client().unwrap().into();
    let mut client = Side::connect(client, &folder.load());
    let mut server = Side::accept(server, &folder.load());
    let (mut has_near, mut has_far) = (true, true);
    let mut proofs = 0;
    while !client.is_over() || !server.is_over() {
        client.step();
        server.step();
        if has_near {
            match turn(&mut to_client, &mut near) {
                Some(said) => {
                    proofs += said.len();
                    to_server.writer().write_all(&edit(&said)).unwrap();
                }
                None => has_near = false,
            }
        }
        if has_far {
            match turn(&mut to_server, &mut far) {
                Some(said) => to_client.writer().write_all(&edit(&said)).unwrap(),
                None => has_far = false,
            }
        }
        push(&mut to_client, &mut near);
        push(&mut to_server, &mut far);
    }
    // The client believed the middle so far that it proved itself, and was not helped by that.
    assert_eq!(proofs, 32);
    let client = client.end().unwrap_err();
    (client, server.end().unwrap_err())
}

#[test]
fn two_sessions_do_not_make_one() {
    let folder = Folder::with_secret();
    let (client, server) = between(&folder, <[u8]>::to_vec);
    assert_eq!(client, HandshakeError::OtherSecret);
    assert_eq!(server, HandshakeError::OtherSecret);
}

#[test]
fn a_proof_cannot_be_sent_back() {
    // Somebody without the secret answers the client with the client's own proof.
    let folder = Folder::with_secret();
    let stranger = secret();
    let (client, mut near) = connection();
    near.set_nonblocking(true).unwrap();
    let mut tls: Connection = stranger.server().unwrap().into();
    let mut client = Side::connect(client, &folder.load());
    let mut returned = 0;
    while !client.is_over() {
        client.step();
        if let Some(said) = turn(&mut tls, &mut near) {
            returned += said.len();
            tls.writer().write_all(&said).unwrap();
        }
        push(&mut tls, &mut near);
    }
    // The client says first that it refuses, and that comes back only if the middle still turns.
    assert!(returned >= 32, "{returned}");
    let error = client.end().unwrap_err();
    assert_eq!(error, HandshakeError::OtherSecret);
}

#[test]
fn who_only_passes_bytes_on_keeps_nobody_apart() {
    // So what the tests above find is not the middle's own mistake.
    let folder = Folder::with_secret();
    let (near, far, mut middle) = Middle::new();
    let client = Side::connect(near, &folder.load());
    let server = Side::accept(far, &folder.load());
    let (client, server) = middle.meet(client, server, &mut |_, _| {}, &mut |_, _| {});
    assert!(client.is_ok() && server.is_ok());
}

/// What the other end makes of what `change` makes of three records. Then the sender's error.
fn received(change: impl Fn(&mut Vec<u8>)) -> (Vec<u8>, Result<(), Broken>) {
    let (mut one, mut other, mut middle) = Middle::carriers();
    for text in ["first!", "second", "third!"] {
        write_all(&mut one, text.as_bytes());
    }
    one.finish().unwrap();
    // Three records of 6 bytes, and the end of 2 bytes in a record.
    let mut bytes = middle.taken_up(3 * (6 + 22) + 2 + 22);
    assert_eq!(bytes.len(), 3 * (6 + 22) + 2 + 22);
    change(&mut bytes);
    middle.up.to.write_all(&bytes).unwrap();
    middle.up.to.shutdown(Shutdown::Write).unwrap();
    read_to_end(&mut other)
}

fn is_protocol(outcome: &Result<(), Broken>) -> bool {
    matches!(outcome, Err(Broken::Protocol { .. }))
}

#[test]
fn changed_records_are_errors_and_give_nothing() {
    let (bytes, outcome) = received(|_| {});
    assert_eq!((&bytes[..], outcome), (&b"first!secondthird!"[..], Ok(())));
    // Every byte of the second record, but one that means nothing (see `versions`).
    for at in (28..56).filter(|at| *at != 30) {
        let (bytes, outcome) = received(|bytes| bytes[at] ^= 0x20);
        assert_eq!(bytes, b"first!", "byte {at}");
        assert!(outcome.is_err(), "byte {at}: {outcome:?}");
    }
    // Left out, repeated, in another order, made up.
    for (change, given) in [
        (
            Box::new(|it: &mut Vec<u8>| drop(it.drain(28..56))) as Box<dyn Fn(&mut Vec<u8>)>,
            "first!",
        ),
        (
            Box::new(|it| it.splice(28..28, it[..28].to_vec()).for_each(drop)),
            "first!",
        ),
        (Box::new(|it| it[..56].rotate_left(28)), ""),
        (
            Box::new(|it| {
                it.splice(28..28, [23, 3, 3, 0, 17].into_iter().chain([9; 17]))
                    .for_each(drop)
            }),
            "first!",
        ),
        (
            Box::new(|it| it.splice(0..0, [23, 3, 3, 0xff, 0xff]).for_each(drop)),
            "",
        ),
        (
            Box::new(|it| it.splice(0..0, *b"GET / HTTP/1.1\r\n\r\n").for_each(drop)),
            "",
        ),
    ] {
        let (bytes, outcome) = received(change);
        assert_eq!(bytes, given.as_bytes());
        assert!(is_protocol(&outcome), "{outcome:?}");
    }
}

#[test]
fn a_cut_is_an_error_and_no_end() {
    for left in [0, 1, 28, 40, 84, 107] {
        let (bytes, outcome) = received(|bytes| bytes.truncate(left));
        assert_eq!(
            bytes,
            b"first!secondthird!"[..left / 28 * 6],
            "{left} bytes"
        );
        let Err(Broken::Failed { reason }) = outcome else {
            panic!("{left} bytes: {outcome:?}");
        };
        assert!(reason.contains("without a farewell"), "{reason}");
    }
}

#[test]
fn the_sender_of_a_changed_record_is_told() {
    let (mut one, mut other, mut middle) = Middle::carriers();
    write_all(&mut one, b"something");
    let mut bytes = middle.taken_up(31);
    bytes[10] ^= 1;
    middle.up.to.write_all(&bytes).unwrap();
    let (bytes, outcome) = read_to_end(&mut other);
    assert_eq!(bytes, b"");
    assert!(is_protocol(&outcome), "{outcome:?}");
    assert!(other.write(b"x").is_err() && other.flush().is_err());
    wait(&[middle.down.waits().unwrap()]);
    middle.down.pass(&mut |_, _| {});
    let (_, outcome) = read_to_end(&mut one);
    assert!(is_protocol(&outcome), "{outcome:?}");
    assert!(outcome.unwrap_err().to_string().contains("BadRecordMac"));
}

#[test]
fn small_writes_share_a_record() {
    let (mut one, mut other, mut middle) = Middle::carriers();
    for byte in 0..100 {
        assert_eq!(one.write(&[byte]).unwrap(), 1);
    }
    assert_eq!(other.read(&mut [0]).unwrap(), Arrival::Nothing);
    assert!(one.flush().unwrap());
    let bytes = middle.taken_up(100 + 22);
    assert_eq!(bytes.len(), 100 + 22);
    middle.up.to.write_all(&bytes).unwrap();
    assert_eq!(read_exactly(&mut other, 100), (0..100).collect::<Vec<u8>>());
}
