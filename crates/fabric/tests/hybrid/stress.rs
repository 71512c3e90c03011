//! Both directions between threads, over plain atomics and a real TCP connection. Whoever
//! sleeps asks the kernel again and again whether the kernel connection is readable, and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::hybrid::{Direction, Next, Path, Receiver, Sender};
use barewire_units::Rng;

use crate::memory::{Memory, byte_at};

const RING_BYTES: u32 = 1 << 10;
const CHUNK_BYTES: usize = 400;
const PIECE_BYTES: usize = 53;
/// A sender is at most so far ahead: else all would lie in the kernel's buffers.
const AHEAD_BYTES: u64 = 3_000;
/// Bytes after which a receiver changes its habits.
const STRETCH_BYTES: u64 = 8 << 10;
/// Whoever sleeps as long has been forgotten, on the slowest machine.
const FORGOTTEN: Duration = Duration::from_secs(20);

/// Runs for so long, and returns how often the paths changed.
pub fn run(time: Duration) -> u64 {
    let memory = Arc::new(Memory::new(RING_BYTES));
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    let (other, _) = listener.accept().expect("loopback");
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for (number, from, to) in [(0, &one, &other), (1, &other, &one)] {
        from.set_nonblocking(true).expect("a socket");
        from.set_nodelay(true).expect("a socket");
        let direction = Direction::from_side(number, RING_BYTES);
        let (from, to) = (
            from.try_clone().expect("a copy"),
            to.try_clone().expect("a copy"),
        );
        let memories = (memory.clone(), memory.clone());
        let read = Arc::new(AtomicU64::new(0));
        let reader = read.clone();
        senders.push(thread::spawn(move || {
            send(direction, &memories.0, &from, &read, Instant::now() + time)
        }));
        receivers.push(thread::spawn(move || {
            receive(direction, &memories.1, &to, &reader)
        }));
    }
    let mut changes = 0;
    for (sender, receiver) in senders.into_iter().zip(receivers) {
        let (sent, epochs) = sender.join().expect("a sound sender");
        assert_eq!(receiver.join().expect("a sound receiver"), sent);
        changes += epochs;
    }
    changes
}

/// Sends until `end`; returns bytes sent and epochs closed.
fn send(
    direction: Direction,
    memory: &Memory,
    mut line: &TcpStream,
    read: &AtomicU64,
    end: Instant,
) -> (u64, u64) {
    let mut rng = Rng::from_seed(direction.sender_side() as u64);
    let mut sender = Sender::new(direction, 0);
    while Instant::now() < end {
        let from = sender.position();
        // Relaxed: it orders nothing that the protocol should.
        if from - read.load(Ordering::Relaxed) > AHEAD_BYTES {
            thread::yield_now();
            continue;
        }
        let bytes: Vec<u8> = (from..from + rng.in_range(1..=CHUNK_BYTES as u64))
            .map(|position| byte_at(direction.sender_side() as u32, position))
            .collect();
        let up = match sender.path() {
            Path::Ring => true,
            Path::Kernel => sender.try_ring(memory).expect("a sound receiver"),
        };
        if up {
            ring_send(&mut sender, memory, line, &bytes, rng.ratio(1, 4));
            continue;
        }
        if sender.owes_wake_byte() && wake_byte(line) {
            sender.wake_byte_sent();
        }
        if !sender.may_use_kernel(memory).expect("a sound receiver") {
            thread::yield_now();
            continue;
        }
        match line.write(&bytes) {
            Ok(sent) => sender.sent_by_kernel(sent as u64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    while sender.owes_wake_byte() && !wake_byte(line) {
        thread::yield_now();
    }
    line.shutdown(Shutdown::Write).expect("a socket");
    (sender.position(), sender.epoch())
}

/// Puts what fits into the ring; leaves it if that is nothing, or if told to.
fn ring_send(
    sender: &mut Sender,
    memory: &Memory,
    line: &TcpStream,
    bytes: &[u8],
    then_leave: bool,
) {
    let room = sender.room(memory).expect("a sound receiver") as usize;
    if room == 0 || !sender.enter_ring(memory) {
        return sender.leave_ring(memory);
    }
    let bytes = &bytes[..bytes.len().min(room)];
    sender.put_in_pieces(memory, bytes, PIECE_BYTES);
    let last = bytes.chunks(PIECE_BYTES).last().unwrap_or_default();
    let failed = sender.publish(memory, 0, last) && !wake_byte(line);
    if failed {
        sender.wake_byte_failed();
    }
    if failed || then_leave {
        sender.leave_ring(memory);
    }
}

fn wake_byte(mut line: &TcpStream) -> bool {
    line.write(&[0xff]).is_ok()
}

/// Receives until the kernel connection ends; returns bytes received.
fn receive(direction: Direction, memory: &Memory, mut line: &TcpStream, read: &AtomicU64) -> u64 {
    let side = direction.sender_side() as u32;
    let mut rng = Rng::from_seed(u64::from(side) + 10);
    let mut receiver = Receiver::new(direction, 0);
    let mut bytes = [0; 2 * CHUNK_BYTES];
    loop {
        receiver.disarm(memory);
        // Relaxed: as above.
        read.store(receiver.position(), Ordering::Relaxed);
        let most = 1 + rng.index(bytes.len());
        let (got, ended) = match receiver.next(memory).expect("a sound sender") {
            Next::Ring(there) => {
                let into = &mut bytes[..most.min(there as usize)];
                receiver.copy(memory, 0, into);
                check(side, receiver.position(), into);
                receiver.took(memory, into.len() as u64);
                continue;
            }
            Next::Kernel(limit) => {
                let most = most.min(usize::try_from(limit).unwrap_or(usize::MAX));
                let (got, ended) = from_kernel(line.read(&mut bytes[..most]));
                check(side, receiver.position(), &bytes[..got]);
                receiver.read_kernel(memory, got as u64);
                (got, ended)
            }
            Next::WakeBytes(count) => {
                let most = bytes.len().min(count as usize);
                let (got, ended) = from_kernel(line.read(&mut bytes[..most]));
                assert!(
                    bytes[..got].iter().all(|byte| *byte == 0xff),
                    "data taken for wake_bytes"
                );
                receiver.took_wake_bytes(got as u64);
                (got, ended)
            }
            Next::Empty => (0, matches!(line.peek(&mut [0]), Ok(0))),
        };
        if ended && !receiver.is_ready(memory) {
            return receiver.position();
        }
        if got > 0 || ended {
            continue;
        }
        // A sender does not go up past a sleeper, so there are stretches without sleep.
        let sleeps = receiver.position() / STRETCH_BYTES % 4 == 0;
        if sleeps && rng.ratio(1, 4) && receiver.arm(memory) {
            sleep(line, receiver.position());
        }
        thread::yield_now();
    }
}

fn check(side: u32, from: u64, bytes: &[u8]) {
    for (position, byte) in (from..).zip(bytes) {
        assert_eq!(*byte, byte_at(side, position), "byte {position}");
    }
}

/// Bytes read, and whether the kernel connection has ended.
fn from_kernel(read: std::io::Result<usize>) -> (usize, bool) {
    match read {
        Ok(got) => (got, got == 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => (0, false),
        Err(error) => panic!("{error}"),
    }
}

fn sleep(line: &TcpStream, position: u64) {
    let begin = Instant::now();
    while line.peek(&mut [0]).is_err() {
        assert!(begin.elapsed() < FORGOTTEN, "waits for byte {position}");
        thread::yield_now();
    }
}
