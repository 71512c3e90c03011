//! Descriptors whose close waits, sent to whoever can be reached.

use std::io::Write;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use barewire_sys::socket::Socket;
use rustix::net::sockopt;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::link::Link;
use crate::wire;

/// How long the close of each of them waits.
pub const LINGER: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 4096;

/// A TCP socket with bytes that it can not send, whose last close waits for them; and its
/// other end, which does not read. The buffers are small: to fill large ones would take so much of the
/// machine that all who run on it wait for that.
///
/// # Panics
/// Without TCP over loopback.
#[must_use]
pub fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a TCP port");
    let address = listener.local_addr().expect("its address");
    sockopt::set_socket_recv_buffer_size(&listener, BUFFER_BYTES).expect("SO_RCVBUF");
    let mut stream = TcpStream::connect(address).expect("a connection");
    sockopt::set_socket_send_buffer_size(&stream, BUFFER_BYTES).expect("SO_SNDBUF");
    let (other, _) = listener.accept().expect("its other end");
    stream.set_nonblocking(true).expect("non-blocking");
    while stream.write(&[0; 1024]).is_ok() {}
    sockopt::set_socket_linger(&stream, Some(LINGER)).expect("SO_LINGER");
    (stream.into(), other)
}

/// Sends as somebody does who does not keep to 16 descriptors. If the door is closed, the
/// descriptors do not linger any more: the attacker would wait for them itself.
fn send_many(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if control.push(SendAncillaryMessage::ScmRights(fds)) {
        let bytes = [std::io::IoSlice::new(bytes)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::net::sendmsg(socket, &bytes, &mut control, flags).is_err() {
            let _ = sockopt::set_socket_linger(fds[0], None);
        }
    }
}

/// If the victim is done with it already, the attacker's close is the last, and waits.
fn let_go(slow: OwnedFd) {
    std::thread::spawn(|| drop(slow));
}

/// Visits a name for so long, each time with something that is slow to close. Tells how
/// often.
pub fn run(name: &str, owner: u32, time: Duration) {
    let until = Instant::now() + time;
    let mut visits = 0_u64;
    let mut kept = Vec::new();
    while Instant::now() < until {
        if visit(name, owner, visits, &mut kept) {
            visits += 1;
        }
        // At the other end too they have to stay, but not for ever.
        if kept.len() > 200 {
            kept.drain(..100);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("visits {visits}");
    // Not after those threads.
    std::process::exit(0);
}

fn visit(name: &str, owner: u32, number: u64, kept: &mut Vec<(TcpStream, Option<Socket>)>) -> bool {
    let Some(socket) = Link::dial(name, owner) else {
        return false;
    };
    let (slow, other) = lingering();
    let fd = slow.as_fd();
    let hello = wire::hello(wire::VERSION, [number, 7], 1, 7);
    match number % 6 {
        0 => send_many(&socket, b"?", &[fd]),
        1 => send_many(&socket, &hello, &[fd]),
        2 => send_many(&socket, &hello, &[fd; 200]),
        3 => send_many(&socket, b"", &[fd; 2]),
        4 => send_many(&socket, &[2; 9000], &[fd; 3]),
        // A link, if this user may have one; then a message too many.
        _ => {
            let mut link = Link::over(socket, name, owner);
            link.say_hello();
            send_many(&link.socket, &wire::wake(), &[fd]);
            let_go(slow);
            kept.push((other, Some(link.socket)));
            return true;
        }
    }
    let_go(slow);
    // One that stays, and one that has gone.
    kept.push((other, (number % 2 == 0).then_some(socket)));
    true
}
