//! Sockets for real: names, messages, descriptors, and who is at the other end.

mod common;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_sys::SysError;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::process::{Signal, drop_privileges, fork_child, own_credentials, send_signal};
use barewire_sys::socket::{Listener, Received, Sent, Socket};
use barewire_sys::wake::{Epoll, EventFd, Interest};

const LONG: Option<Duration> = Some(common::LONG);

/// Tests in this file run one after the other: a child that one of them forks
/// would keep the other ends of the sockets of the others open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that no other test and no other run has.
fn name(of: &str) -> Vec<u8> {
    format!("barewire-sys-test-{}-{of}\0\u{1}", std::process::id()).into_bytes()
}

fn accept(listener: &Listener) -> Socket {
    let epoll = Epoll::new().unwrap();
    epoll.add(listener, 0, Interest::READ).unwrap();
    epoll.wait(&mut Vec::new(), LONG).unwrap();
    listener.accept().unwrap().expect("a connection")
}

#[test]
fn names_are_taken_freed_and_not_found() {
    let _alone = alone();
    let name = name("names");
    let missing = Socket::connect(&name);
    assert!(
        matches!(missing, Err(SysError::NoListener { .. })),
        "{missing:?}"
    );
    let listener = Listener::bind(&name, 8).unwrap();
    let taken = Listener::bind(&name, 8);
    assert!(
        matches!(taken, Err(SysError::AddressInUse { .. })),
        "{taken:?}"
    );
    assert!(listener.accept().unwrap().is_none());
    let _client = Socket::connect(&name).unwrap();
    assert!(listener.accept().unwrap().is_some());
    assert!(listener.accept().unwrap().is_none());
    drop(listener);
    assert!(matches!(
        Socket::connect(&name),
        Err(SysError::NoListener { .. })
    ));
    Listener::bind(&name, 8).unwrap();
    for bad in [vec![], vec![b'x'; 108]] {
        let refused = Listener::bind(&bad, 8);
        assert!(
            matches!(refused, Err(SysError::InvalidArgument { .. })),
            "{refused:?}"
        );
        assert!(matches!(
            Socket::connect(&bad),
            Err(SysError::InvalidArgument { .. })
        ));
    }
    Listener::bind(&[b'y'; 107], 8).unwrap();
}

#[test]
fn a_full_backlog_is_told_and_a_dead_connection_is_still_accepted() {
    let _alone = alone();
    let name = name("busy");
    let listener = Listener::bind(&name, 1).unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        match Socket::connect(&name) {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100);
    };
    assert!(matches!(refused, SysError::Busy { .. }), "{refused:?}");
    waiting.clear();
    let dead = listener.accept().unwrap().unwrap();
    assert_eq!(
        dead.recv(&mut [0; 8], &mut Vec::new()).unwrap(),
        Received::Hangup
    );
}

#[test]
fn messages_keep_their_boundaries_and_carry_descriptors() {
    let _alone = alone();
    let (a, b) = Socket::pair().unwrap();
    let (mut buf, mut fds) = ([0; 64], Vec::new());
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::WouldBlock);
    let memfd = Memfd::create_sealed("passed", 4096).unwrap();
    let event = EventFd::new().unwrap();
    assert_eq!(
        a.send(b"one", &[memfd.as_fd(), event.as_fd()]).unwrap(),
        Sent::Done
    );
    assert_eq!(a.send(b"three", &[]).unwrap(), Sent::Done);
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Message(3));
    assert_eq!((&buf[..3], fds.len()), (&b"one"[..], 2));
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Message(5));
    assert_eq!((&buf[..5], fds.len()), (&b"three"[..], 2));
    for fd in &fds {
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    let event_there = EventFd::from_peer(fds.pop().unwrap()).unwrap();
    event.signal().unwrap();
    assert_eq!(event_there.drain().unwrap(), 1);
    let there = Memfd::from_peer(fds.pop().unwrap(), 4096, PeerAccess::ReadWrite).unwrap();
    there.map(Access::ReadWrite).unwrap();

    let sixteen: Vec<BorrowedFd<'_>> = vec![event.as_fd(); 16];
    assert_eq!(a.send(b"x", &sixteen).unwrap(), Sent::Done);
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Message(1));
    assert_eq!(fds.len(), 16);
}

#[test]
fn messages_that_can_never_be_sent_are_refused() {
    let _alone = alone();
    let (a, _b) = Socket::pair().unwrap();
    let event = EventFd::new().unwrap();
    a.set_buffer_bytes(16 * 1024).unwrap();
    let cases: [(Vec<u8>, usize); 3] = [(vec![], 0), (vec![1], 17), (vec![1; 1 << 20], 0)];
    for (bytes, fds) in cases {
        let refused = a.send(&bytes, &vec![event.as_fd(); fds]);
        assert!(
            matches!(refused, Err(SysError::InvalidArgument { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_full_socket_blocks_nobody() {
    let _alone = alone();
    let (a, b) = Socket::pair().unwrap();
    let mut count = 0;
    while a.send(&[7; 1024], &[]).unwrap() == Sent::Done {
        count += 1;
        assert!(count < 100_000);
    }
    let (mut buf, mut fds) = ([0; 1024], Vec::new());
    for _ in 0..count {
        assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Message(1024));
    }
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::WouldBlock);
    assert_eq!(a.send(&[7; 1024], &[]).unwrap(), Sent::Done);
}

#[test]
fn hangups_come_after_what_was_sent_before_them() {
    let _alone = alone();
    let (a, b) = Socket::pair().unwrap();
    let (mut buf, mut fds) = ([0; 8], Vec::new());
    // Unread data at the end that closes makes it a reset.
    b.send(b"unread", &[]).unwrap();
    a.send(b"last", &[]).unwrap();
    drop(a);
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Message(4));
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Hangup);
    assert_eq!(b.recv(&mut buf, &mut fds).unwrap(), Received::Hangup);
    let refused = b.send(b"x", &[]);
    assert!(
        matches!(refused, Err(SysError::Hangup { .. })),
        "{refused:?}"
    );
}

#[test]
fn the_peer_is_known_and_its_end_is_seen() {
    let _alone = alone();
    let name = name("peer");
    let listener = Listener::bind(&name, 8).unwrap();
    let child = fork_child(|| {
        let _socket = Socket::connect(&name);
        common::sleep_long()
    })
    .unwrap();
    let socket = accept(&listener);
    let mut expected = own_credentials();
    expected.pid = child.pid;
    assert_eq!(socket.peer_credentials().unwrap(), expected);
    socket.peer_groups().unwrap();
    let pidfd = socket.peer_pidfd().expect("a pidfd");
    let epoll = Epoll::new().unwrap();
    epoll.add(&pidfd, 4, Interest::READ).unwrap();
    let mut out = Vec::new();
    assert_eq!(
        epoll
            .wait(&mut out, Some(Duration::from_millis(5)))
            .unwrap(),
        0
    );
    send_signal(child.pid, Signal::Kill).unwrap();
    assert_eq!(epoll.wait(&mut out, LONG).unwrap(), 1);
    assert!(out[0].readable);
    child.wait().unwrap();
    assert_eq!(
        socket.recv(&mut [0; 8], &mut Vec::new()).unwrap(),
        Received::Hangup
    );
}

#[test]
fn the_listener_is_known_to_those_who_connect() {
    let _alone = alone();
    let name = name("known");
    let _listener = Listener::bind(&name, 8).unwrap();
    let client = Socket::connect(&name).unwrap();
    assert_eq!(client.peer_credentials().unwrap(), own_credentials());
    assert!(client.peer_pidfd().is_some());
}

#[test]
fn another_user_and_its_groups_are_told_apart() {
    let _alone = alone();
    if own_credentials().uid != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let name = name("user");
    let listener = Listener::bind(&name, 8).unwrap();
    let child = fork_child(|| {
        // More groups than the first guess at their number.
        let groups: Vec<u32> = (3000..3100).collect();
        // SAFETY: the list is as long as said.
        let set = unsafe { libc::setgroups(groups.len(), groups.as_ptr()) };
        let many = Socket::connect(&name);
        let dropped = drop_privileges(65_534, 65_533);
        let few = Socket::connect(&name);
        let back = drop_privileges(0, 0);
        if let (0, Ok(many), Ok(()), Ok(few), Err(SysError::PermissionDenied { .. })) =
            (set, many, dropped, few, back)
        {
            // Until the other end has looked.
            wait_for_hangup(&many);
            wait_for_hangup(&few);
            return 0;
        }
        1
    })
    .unwrap();
    let (many, few) = (accept(&listener), accept(&listener));
    let seen = many.peer_credentials().unwrap();
    assert_eq!((seen.uid, seen.gid), (0, 0));
    assert_eq!(
        many.peer_groups().unwrap(),
        (3000..3100).collect::<Vec<u32>>()
    );
    let seen = few.peer_credentials().unwrap();
    assert_eq!((seen.pid, seen.uid, seen.gid), (child.pid, 65_534, 65_533));
    assert_eq!(few.peer_groups().unwrap(), []);
    drop((many, few));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn wait_for_hangup(socket: &Socket) {
    let mut fds = Vec::<OwnedFd>::new();
    common::eventually("the other end hangs up", || {
        socket.recv(&mut [0; 8], &mut fds) != Ok(Received::WouldBlock)
    });
}
