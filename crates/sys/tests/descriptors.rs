//! No descriptor is lost, whatever a peer sends. One test only, because it
//! counts all descriptors of the process.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use barewire_sys::SysError;
use barewire_sys::memory::{Access, Memfd, PeerAccess, Placement};
use barewire_sys::process::{fork_child, open_fd_count, raise_nofile_limit};
use barewire_sys::socket::{Listener, Received, Sent, Socket};
use barewire_sys::wake::EventFd;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Resource, Rlimit};

/// Sends as a peer would that does not keep to 16 descriptors.
fn send_many(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    let bytes = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::DONTWAIT).unwrap();
}

fn recv(socket: &Socket, fds: &mut Vec<OwnedFd>) -> Received {
    socket.recv(&mut [0; 8], fds).unwrap()
}

#[test]
fn every_descriptor_is_closed_again() {
    let before = open_fd_count().unwrap();
    truncated_messages();
    refused_descriptors();
    mappings_and_peers();
    assert_eq!(open_fd_count().unwrap(), before);
    let child = fork_child(|| {
        out_of_descriptors();
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
    assert!(raise_nofile_limit() >= 64);
}

fn truncated_messages() {
    let (a, b) = Socket::pair().unwrap();
    let event = EventFd::new().unwrap();
    let open = open_fd_count().unwrap();
    let mut fds = Vec::new();
    for count in [17, 18, 20, 100] {
        send_many(&a, b"x", &vec![event.as_fd(); count]);
        assert_eq!(recv(&b, &mut fds), Received::Truncated, "{count}");
        assert_eq!((fds.len(), open_fd_count().unwrap()), (0, open));
    }
    // Too long for the buffer.
    assert_eq!(a.send(&[1; 9], &[event.as_fd()]).unwrap(), Sent::Done);
    assert_eq!(recv(&b, &mut fds), Received::Truncated);
    // Empty, which is a hang-up here, with descriptors.
    send_many(&a, b"", &[event.as_fd(); 3]);
    assert_eq!(recv(&b, &mut fds), Received::Hangup);
    assert_eq!((fds.len(), open_fd_count().unwrap()), (0, open));
    a.send(b"ok", &[event.as_fd(); 2]).unwrap();
    assert_eq!(recv(&b, &mut fds), Received::Message(2));
    assert_eq!((fds.len(), open_fd_count().unwrap()), (2, open + 2));
}

fn refused_descriptors() {
    let open = open_fd_count().unwrap();
    let memfd = Memfd::create("unsealed", 4096).unwrap();
    for _ in 0..3 {
        let fd = memfd.as_fd().try_clone_to_owned().unwrap();
        Memfd::from_peer(fd, 4096, PeerAccess::ReadOnly).unwrap_err();
        let fd = memfd.as_fd().try_clone_to_owned().unwrap();
        EventFd::from_peer(fd).unwrap_err();
    }
    drop(memfd);
    assert_eq!(open_fd_count().unwrap(), open);
}

fn mappings_and_peers() {
    let (memfd, region) = Memfd::create_owner_writable("own", 4096).unwrap();
    let detachable = memfd
        .map_detachable(Access::Read, &Placement::default())
        .unwrap();
    detachable.detach().unwrap();
    let (a, _b) = Socket::pair().unwrap();
    drop((a.peer_pidfd(), region));
}

/// In a child: with no descriptor left, everything still ends in an error.
fn out_of_descriptors() {
    let name = format!("barewire-sys-test-{}-emfile", std::process::id());
    let listener = Listener::bind(name.as_bytes(), 8).unwrap();
    let client = Socket::connect(name.as_bytes()).unwrap();
    let (a, b) = Socket::pair().unwrap();
    let event = EventFd::new().unwrap();
    let limit = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(raise_nofile_limit(), 64);
    let mut filler = Vec::new();
    let full = loop {
        match EventFd::new() {
            Ok(event) => filler.push(event),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(full, SysError::TooManyDescriptors { .. }),
        "{full:?}"
    );
    assert!(full.to_string().contains("ulimit -n"), "{full}");
    assert!(matches!(
        listener.accept(),
        Err(SysError::TooManyDescriptors { .. })
    ));
    assert!(matches!(
        Memfd::create("m", 4096),
        Err(SysError::TooManyDescriptors { .. })
    ));
    a.send(b"x", &[event.as_fd(); 4]).unwrap();
    filler.truncate(filler.len() - 2);
    let mut fds = Vec::new();
    assert_eq!(recv(&b, &mut fds), Received::Truncated);
    assert!(fds.is_empty());
    // Both that came through are closed again, so two fit.
    drop((EventFd::new().unwrap(), client));
    assert!(listener.accept().unwrap().is_some());
}
