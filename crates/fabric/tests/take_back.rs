//! Taking back: what a receiver has not read of the ring comes over the kernel connection, whatever lies
//! before it and however much the kernel connection takes. All combinations of a small hybrid stream.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use barewire_fabric::hybrid::{
    Answer, CONTROL_BYTES, Direction, Next, Path, Receiver, Sender, SharedMemory, UP, memory_bytes,
};

const RING_BYTES: u32 = 64;

struct Memory {
    words: RefCell<Vec<u64>>,
    bytes: RefCell<Vec<u8>>,
}

impl SharedMemory for Memory {
    fn load(&self, index: usize) -> u64 {
        self.words.borrow()[index]
    }
    fn store(&self, index: usize, value: u64) {
        self.words.borrow_mut()[index] = value;
    }
    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool {
        let is = self.load(index) == old;
        if is {
            self.store(index, new);
        }
        is
    }
    fn fence(&self) {}
    fn light_fence(&self) {}
    fn heavy_fence(&self) -> bool {
        true
    }
    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }
    fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes.borrow()[offset..][..bytes.len()]);
    }
}

/// Both ends of one direction, and the kernel connection between them. The stream is 0, 1, 2 ...
struct Pair {
    memory: Memory,
    sender: Sender,
    receiver: Receiver,
    line: RefCell<VecDeque<u8>>,
    /// Bytes that the kernel connection ever took.
    line_took: Cell<u64>,
    /// Bytes that the kernel connection takes yet.
    room: Cell<usize>,
    read: u64,
}

const TOKEN: u8 = 255;

impl Pair {
    fn new() -> Pair {
        let direction = Direction::from_side(0, RING_BYTES);
        let memory = Memory {
            words: RefCell::new(vec![0; CONTROL_BYTES / 8]),
            bytes: RefCell::new(vec![0; memory_bytes(RING_BYTES)]),
        };
        memory.store(UP, 1);
        memory.store(UP + 1, 1);
        Pair {
            memory,
            sender: Sender::new(direction, 0),
            receiver: Receiver::new(direction, 0),
            line: RefCell::default(),
            line_took: Cell::new(0),
            room: Cell::new(usize::MAX),
            read: 0,
        }
    }

    fn on_line(&self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room.get());
        self.room.set(self.room.get() - taken);
        self.line_took.set(self.line_took.get() + taken as u64);
        self.line.borrow_mut().extend(&bytes[..taken]);
        taken
    }

    fn stream(&self, len: usize) -> Vec<u8> {
        let begin = self.sender.position();
        (begin..begin + len as u64).map(|byte| byte as u8).collect()
    }

    fn send_on_line(&mut self, len: usize) {
        assert_eq!(self.sender.may_use_kernel(&self.memory), Ok(true));
        let bytes = self.stream(len);
        assert_eq!(self.on_line(&bytes), len);
        let mut mended = self.sender;
        self.sender.sent_by_kernel(len as u64);
        assert!(mended.recover(&self.memory, self.line_took.get()));
        assert_eq!(mended, self.sender);
    }

    fn put(&mut self, len: usize) {
        let bytes = self.stream(len);
        assert!(self.sender.enter_ring(&self.memory));
        assert!(
            self.sender
                .room(&self.memory)
                .is_ok_and(|room| room >= len as u64)
        );
        self.sender.put(&self.memory, &bytes);
        if self.sender.publish(&self.memory, 0, &bytes) {
            assert_eq!(self.on_line(&[TOKEN]), 1);
            self.sender.wake_byte_sent();
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            assert_eq!(byte, self.read as u8);
            self.read += 1;
        }
    }

    /// Reads at most `limit` bytes; returns how many.
    fn receive(&mut self, limit: usize) -> usize {
        let before = self.read;
        while self.read < before + limit as u64 {
            let left = limit - (self.read - before) as usize;
            match self.receiver.next(&self.memory).expect("a sound sender") {
                Next::Ring(there) => {
                    let mut bytes = vec![0; left.min(there as usize)];
                    self.receiver.copy(&self.memory, 0, &mut bytes);
                    self.receiver.took(&self.memory, bytes.len() as u64);
                    self.check(&bytes);
                }
                Next::Kernel(most) => {
                    let most = left.min(usize::try_from(most).unwrap_or(usize::MAX));
                    let there = most.min(self.line.borrow().len());
                    let bytes: Vec<u8> = self.line.borrow_mut().drain(..there).collect();
                    self.receiver.read_kernel(&self.memory, there as u64);
                    self.check(&bytes);
                    if there == 0 {
                        break;
                    }
                }
                Next::WakeBytes(count) => {
                    let there = (count as usize).min(self.line.borrow().len());
                    self.line.borrow_mut().drain(..there);
                    self.receiver.took_wake_bytes(there as u64);
                    if there == 0 {
                        break;
                    }
                }
                Next::Empty => break,
            }
        }
        (self.read - before) as usize
    }

    /// The sender's part; returns whether it took all back.
    fn answer(&mut self) -> bool {
        if !self.sender.is_take_back_asked(&self.memory) {
            return false;
        }
        let begun = self.sender.begin_to_take_back(&self.memory);
        let Some(whole) = begun.expect("a sound receiver") else {
            return false;
        };
        let mut bytes = vec![0; whole as usize];
        let (first, rest) = bytes.split_at_mut(whole as usize / 3);
        self.sender.copy_back(&self.memory, 0, first);
        self.sender.copy_back(&self.memory, whole / 3, rest);
        let sent = self.on_line(&bytes);
        self.sender.took_back(&self.memory, sent as u64)
    }
}

/// One combination: bytes on the kernel connection that were not read when the ring began; bytes put and
/// read before the request, a wake-up byte between them; what the kernel connection takes of the answer.
fn case(unread_of_line: usize, put: usize, read: usize, sleeps: bool, room: usize) {
    let mut pair = Pair::new();
    pair.send_on_line(10);
    let _ = pair.receive(10 - unread_of_line);
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    if unread_of_line == 0 {
        // Once around most of the ring, so that what follows wraps.
        pair.put(50);
        assert_eq!(pair.receive(50), 50);
        assert_eq!(pair.receive(1), 0);
        assert!(!sleeps || pair.receiver.arm(&pair.memory));
    }
    pair.put(put);
    pair.receiver.disarm(&pair.memory);
    let read = pair.receive(read);
    if let Ok(Next::Kernel(_)) = pair.receiver.next(&pair.memory) {
        pair.receiver.read_kernel(&pair.memory, 0);
    }
    assert!(pair.receiver.ask_to_take_back(&pair.memory));
    assert_eq!(pair.receiver.answer(&pair.memory), Answer::None);
    pair.room.set(room);
    let taken = pair.answer();
    assert_eq!(taken, room >= put - read.saturating_sub(unread_of_line));
    if taken {
        assert_eq!(pair.receiver.answer(&pair.memory), Answer::Taken);
        assert_eq!(pair.sender.path(), Path::Kernel);
    } else {
        assert_eq!(pair.receiver.answer(&pair.memory), Answer::Refused);
        assert!(pair.receiver.withdraw(&pair.memory));
        assert!(pair.receiver.ring_has_bytes(&pair.memory));
        pair.sender.leave_ring(&pair.memory);
    }
    pair.room.set(usize::MAX);
    pair.send_on_line(20);
    let _ = pair.receive(200);
    assert_eq!(pair.read, pair.sender.position());
    assert!(pair.line.borrow().is_empty());
}

#[test]
fn every_byte_comes_once_and_in_order() {
    for put in 1..=14 {
        for read in 0..put {
            for room in [0, 1, 5, 13, 14] {
                for sleeps in [false, true] {
                    case(0, put, read, sleeps, room);
                }
                for unread_of_line in 1..=3 {
                    case(unread_of_line, put, read.min(unread_of_line), false, room);
                }
            }
        }
    }
}

#[test]
fn a_sender_that_has_gone_on_is_not_asked() {
    let mut pair = Pair::new();
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    pair.put(3);
    pair.sender.leave_ring(&pair.memory);
    pair.send_on_line(4);
    assert!(!pair.receiver.ask_to_take_back(&pair.memory));
    assert!(!pair.answer());
    assert_eq!(pair.receive(200), 7);
}

#[test]
fn a_request_that_comes_too_late_is_refused() {
    let mut pair = Pair::new();
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    pair.put(3);
    assert!(pair.receiver.ask_to_take_back(&pair.memory));
    pair.sender.leave_ring(&pair.memory);
    assert!(!pair.answer());
    assert_eq!(pair.receiver.answer(&pair.memory), Answer::Refused);
    assert!(pair.receiver.withdraw(&pair.memory));
    pair.send_on_line(4);
    assert_eq!(pair.receive(200), 7);
}

#[test]
fn a_request_can_be_withdrawn() {
    let mut pair = Pair::new();
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    pair.put(3);
    assert!(pair.receiver.ask_to_take_back(&pair.memory));
    assert!(pair.receiver.withdraw(&pair.memory));
    assert!(!pair.answer());
    assert_eq!(pair.receive(200), 3);
}

#[test]
fn a_receiver_that_sleeps_is_roused_by_one_token() {
    let mut pair = Pair::new();
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    assert!(!pair.sender.wake(&pair.memory));
    assert_eq!(pair.receive(1), 0);
    assert!(pair.receiver.arm(&pair.memory));
    assert!(pair.sender.wake(&pair.memory));
    let mut killed = pair.sender;
    assert!(killed.recover(&pair.memory, pair.line_took.get()) && killed.owes_wake_byte());
    assert_eq!(pair.on_line(&[TOKEN]), 1);
    let mut killed = pair.sender;
    assert!(killed.recover(&pair.memory, pair.line_took.get()) && !killed.owes_wake_byte());
    pair.sender.wake_byte_sent();
    assert_eq!(killed, pair.sender);
    assert!(!pair.sender.wake(&pair.memory));
    pair.sender.leave_ring(&pair.memory);
    pair.send_on_line(2);
    assert_eq!(pair.receive(200), 2);
}

#[test]
fn a_line_with_a_token_behind_unread_bytes_is_not_the_streams_alone() {
    let mut pair = Pair::new();
    pair.send_on_line(2);
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    let head = Direction::from_side(0, RING_BYTES).head(&pair.memory);
    assert!(pair.receiver.arm_past(&pair.memory, head));
    // With a wake-up byte, since the receiver sleeps.
    pair.put(3);
    assert_eq!(pair.line.borrow().len(), 3);
    assert!(pair.receiver.ask_to_take_back(&pair.memory));
    assert!(pair.answer());
    assert_eq!(pair.receiver.answer(&pair.memory), Answer::Taken);
    assert!(pair.receiver.ring_has_bytes(&pair.memory));
    assert_eq!(pair.receive(200), 5);
    assert!(!pair.receiver.ring_has_bytes(&pair.memory));
}

#[test]
fn a_receiver_that_read_more_than_it_was_told_of_sleeps() {
    let mut pair = Pair::new();
    assert_eq!(pair.sender.try_ring(&pair.memory), Ok(true));
    pair.put(3);
    let told = Direction::from_side(0, RING_BYTES).head(&pair.memory);
    pair.put(3);
    assert!(!pair.receiver.arm_past(&pair.memory, told));
    assert_eq!(pair.receive(200), 6);
    assert!(pair.receiver.arm_past(&pair.memory, told));
    pair.put(1);
    assert_eq!(pair.line.borrow().len(), 1, "a wake_byte");
    assert!(!pair.receiver.arm_past(&pair.memory, told));
    assert_eq!(pair.receive(200), 1);
}
