//! What others have sent is closed without holding up whoever received it.

mod common;

use std::io::Write;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use barewire_sys::memory::arm_fork_guard;
use barewire_sys::process::{fork_child, open_fd_count};
use barewire_sys::retire::{Guarded, Retirer};
use barewire_sys::socket::{Received, Socket};
use barewire_sys::wake::EventFd;
use common::eventually;
use rustix::process::{Resource, Rlimit};

/// Far more than any of this may take.
const LINGER: Duration = Duration::from_secs(60);

/// A TCP socket whose last close waits, and its other end, which does not read.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65_536]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&stream, Some(LINGER)).unwrap();
    (stream.into(), other)
}

/// One test, because it counts all descriptors of the process.
#[test]
fn nobody_waits_for_what_is_retired() {
    arm_fork_guard();
    let open = open_fd_count().unwrap();
    unread_messages_do_not_hold_up_a_close();
    more_descriptors_than_agreed_come_whole();
    eventually("all closed", || open_fd_count().unwrap() == open);
    peeking_leaves_a_message_and_makes_nothing();
    eventually("all closed", || open_fd_count().unwrap() == open);
    let child = fork_child(|| {
        without_threads_it_waits_and_is_closed_later();
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

fn unread_messages_do_not_hold_up_a_close() {
    let retirer = Retirer::new(EventFd::new().unwrap());
    let mut others = Vec::new();
    let begun = Instant::now();
    // More than there are threads: none of them may be stuck, either.
    for round in 0..20 {
        let (slow, other) = lingering();
        others.push(other);
        let (a, b) = Socket::pair().unwrap();
        if round % 2 == 1 {
            // What counts may lie behind what does not.
            rustix::net::send(&a, b"", rustix::net::SendFlags::empty()).unwrap();
        }
        a.send(b"x", &[slow.as_fd()]).unwrap();
        drop(slow);
        let turn = Instant::now();
        drop(Guarded::new(b, &retirer));
        assert!(turn.elapsed() < LINGER / 10, "{:?}", turn.elapsed());
    }
    eventually("closed without lingering", || retirer.waiting() == 0);
    assert!(begun.elapsed() < LINGER);
}

fn more_descriptors_than_agreed_come_whole() {
    let (a, b) = Socket::pair().unwrap();
    let event = EventFd::new().unwrap();
    let many = vec![event.as_fd(); 253];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
    let bytes = [std::io::IoSlice::new(b"x")];
    rustix::net::sendmsg(&a, &bytes, &mut control, rustix::net::SendFlags::empty()).unwrap();
    let mut fds = Vec::new();
    assert_eq!(
        b.recv_keeping(&mut [0; 8], &mut fds).unwrap(),
        Received::Truncated
    );
    assert_eq!(fds.len(), 253, "the kernel had none to close for us");
    Retirer::default().descriptors(fds);
}

fn peeking_leaves_a_message_and_makes_nothing() {
    let (a, b) = Socket::pair().unwrap();
    assert_eq!(b.peek().unwrap(), None);
    let event = EventFd::new().unwrap();
    a.send(b"pq", &[event.as_fd()]).unwrap();
    a.send(b"r", &[]).unwrap();
    let open = open_fd_count().unwrap();
    for _ in 0..2 {
        let seen = b.peek().unwrap().unwrap();
        assert_eq!((seen.first, seen.has_descriptors), (Some(b'p'), true));
    }
    assert_eq!(open_fd_count().unwrap(), open);
    let mut fds = Vec::new();
    assert_eq!(b.recv(&mut [0; 8], &mut fds).unwrap(), Received::Message(2));
    assert_eq!(fds.len(), 1);
    let seen = b.peek().unwrap().unwrap();
    assert_eq!((seen.first, seen.has_descriptors), (Some(b'r'), false));
}

/// In a child: no thread can be started, so what is there stays open, and nothing ends.
fn without_threads_it_waits_and_is_closed_later() {
    let limit = |bytes| Rlimit {
        current: bytes,
        maximum: None,
    };
    let retirer = Retirer::default();
    let fds: Vec<OwnedFd> = (0..10).map(|_| EventFd::new().unwrap().into_fd()).collect();
    rustix::process::setrlimit(Resource::As, limit(Some(1))).unwrap();
    retirer.descriptors(fds);
    assert_eq!(retirer.waiting(), 10);
    rustix::process::setrlimit(Resource::As, limit(None)).unwrap();
    assert!(!retirer.is_full());
    eventually("closed with the next attempt", || retirer.waiting() == 0);
}
