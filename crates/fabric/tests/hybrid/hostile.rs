//! Both ends of a hybrid stream whose words anybody changes at any moment, also between two loads of
//! one call: whatever is there, every call ends, within bounds, and what it answers can be
//! relied on.

use std::cell::RefCell;

use barewire_fabric::hybrid::{
    AHEAD_MAX, Ahead, Dates, Direction, Next, Path, Receiver, Sender, SharedMemory,
};

use super::memory::Memory;

const RING_BYTES: u32 = 64;
const NO_EPOCH: Ahead = Ahead {
    path: Path::Kernel,
    bytes: 0,
    wake_bytes: 0,
};

/// Memory that answers some loads with what its script says.
struct Liar<'a> {
    memory: Memory,
    script: RefCell<&'a [u8]>,
    lies: RefCell<u8>,
}

impl Liar<'_> {
    fn byte(&self) -> Option<u8> {
        let mut script = self.script.borrow_mut();
        let (first, rest) = script.split_first()?;
        *script = rest;
        Some(*first)
    }

    /// A word near what is there, or near an edge.
    fn lie(&self, index: usize) -> u64 {
        let truth = self.memory.load(index);
        match self.byte().unwrap_or(0) {
            near @ 0..96 => truth.wrapping_add(u64::from(near)).wrapping_sub(48),
            small @ 96..160 => u64::from(small) - 96,
            ring @ 160..200 => truth.wrapping_add(u64::from(ring) * u64::from(RING_BYTES) / 180),
            high @ 200..240 => u64::MAX - u64::from(high - 200),
            wild => u64::from(wild) << 40,
        }
    }
}

impl SharedMemory for Liar<'_> {
    fn load(&self, index: usize) -> u64 {
        let left = *self.lies.borrow();
        self.lies.replace(left >> 1);
        if left % 2 == 0 {
            return self.memory.load(index);
        }
        self.lie(index)
    }

    fn store(&self, index: usize, value: u64) {
        self.memory.store(index, value);
    }

    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool {
        self.memory.swap_if(index, old, new)
    }

    fn fence(&self) {}

    fn light_fence(&self) {}

    fn heavy_fence(&self) -> bool {
        true
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        self.memory.copy_in(offset, bytes);
    }

    fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        self.memory.copy_out(offset, bytes);
    }
}

/// Does what `data` says: each step is an operation and which of its loads are lies.
pub fn drive(data: &[u8]) {
    let direction = Direction::from_side(0, RING_BYTES);
    let memory = Liar {
        memory: Memory::new(RING_BYTES),
        script: RefCell::new(data),
        lies: RefCell::new(0),
    };
    let mut sender = Sender::new(direction, 0);
    let mut receiver = Receiver::new(direction, 0);
    while let (Some(op), Some(lies)) = (memory.byte(), memory.byte()) {
        memory.lies.replace(if op & 0x80 == 0 { 0 } else { lies });
        match op % 12 {
            0 => spoil(&memory, lies),
            1 | 2 => send(&mut sender, &memory, lies),
            3 | 4 => receive(&mut receiver, &memory, lies),
            5 => {
                if receiver.arm(&memory) && lies % 2 == 0 {
                    receiver.disarm(&memory);
                }
                let _ = (receiver.is_armed_now(&memory), receiver.is_ready(&memory));
            }
            6 => {
                let _ = receiver.end_ring(&memory);
                memory.store(barewire_fabric::hybrid::WANT_KERNEL + 1, 0);
                let _ = (receiver.unread(&memory), receiver.epochs_ahead(&memory));
                let mut ahead = [NO_EPOCH; AHEAD_MAX];
                assert!(receiver.ahead(&memory, &mut ahead) <= AHEAD_MAX);
                let _ = (direction.is_ready(&memory), direction.is_in_ring(&memory));
                let _ = direction.has_wake_bytes_only(&memory);
                let _ = (direction.since(&memory), direction.kernel_used(&memory));
                direction.want_order(&memory);
            }
            7 => {
                if receiver.arm_past(&memory, u64::from(lies)) && lies % 2 == 0 {
                    receiver.disarm(&memory);
                }
                let _ = sender.wake(&memory);
            }
            8 => {
                let asked = receiver.ask_to_take_back(&memory);
                let _ = (receiver.answer(&memory), receiver.ring_has_bytes(&memory));
                let _ = asked && lies % 2 == 0 && receiver.withdraw(&memory);
            }
            9 => take_back(&mut sender, &memory, lies),
            10 => {
                let _ = sender.recover(&memory, 1 << 62);
            }
            _ if sender.path() == Path::Ring => sender.leave_ring(&memory),
            _ => {
                let _ = sender.may_use_kernel(&memory);
            }
        }
    }
}

/// TAIL of the direction back.
const BACK_TAIL: usize = 48;

/// For good, unlike a lie.
fn spoil(memory: &Liar<'_>, which: u8) {
    // The words of directions and sides, and those of the head lines.
    let index = match usize::from(which) % 104 {
        duplex @ 72.. => duplex - 72 + 128,
        index => index,
    };
    memory.memory.store(index, memory.lie(index));
}

fn send(sender: &mut Sender, memory: &Liar<'_>, len: u8) {
    if sender.path() == Path::Kernel {
        if sender.owes_wake_byte() {
            sender.wake_byte_sent();
        }
        if sender.try_ring(memory) == Ok(false) && sender.may_use_kernel(memory) == Ok(true) {
            sender.sent_by_kernel(u64::from(len));
        }
        return;
    }
    let Ok(room) = sender.room(memory) else {
        return;
    };
    assert!(room <= sender.ring_bytes() && room == sender.room_known());
    if !sender.enter_ring(memory) {
        return sender.leave_ring(memory);
    }
    let bytes = vec![len; (room as usize).min(usize::from(len))];
    sender.put_in_pieces(memory, &bytes, 66);
    let last = bytes.chunks(66).last().unwrap_or_default();
    let is_first = sender.date(memory, || Dates {
        since: u64::from(len),
        kernel_used: u64::from(len),
    });
    // Something came from the other side since: what is short goes through the head line, too.
    memory.memory.store(BACK_TAIL, u64::from(len));
    if sender.publish(memory, 0, last) && len % 2 == 0 {
        sender.wake_byte_failed();
    } else if is_first && sender.mark(memory) {
        sender.wake_byte_sent();
    }
}

fn take_back(sender: &mut Sender, memory: &Liar<'_>, len: u8) {
    if !sender.is_take_back_asked(memory) {
        return;
    }
    let Ok(Some(whole)) = sender.begin_to_take_back(memory) else {
        return;
    };
    assert!(whole <= sender.ring_bytes() && whole == sender.in_ring());
    let sent = whole.min(u64::from(len));
    sender.copy_back(memory, 0, &mut vec![0; sent as usize]);
    let position = sender.position();
    assert_eq!(sender.took_back(memory, sent), sent == whole);
    assert_eq!(sender.position(), position);
}

fn receive(receiver: &mut Receiver, memory: &Liar<'_>, len: u8) {
    let few = |most: u64| most.min(u64::from(len));
    if let Some(bytes) = receiver.simple_bytes(memory) {
        assert!(bytes <= u64::from(RING_BYTES));
        receiver.copy(memory, 0, &mut vec![0; few(bytes) as usize]);
        receiver.took(memory, few(bytes));
        return;
    }
    let Ok(next) = receiver.next(memory) else {
        return;
    };
    match next {
        Next::Ring(bytes) => {
            assert!((1..=u64::from(RING_BYTES)).contains(&bytes));
            let skipped = few(bytes) / 2;
            let mut into = vec![0; (few(bytes) - skipped) as usize];
            receiver.copy(memory, skipped, &mut into);
            receiver.took(memory, few(bytes));
        }
        Next::Kernel(limit) => {
            assert!(limit > 0);
            receiver.read_kernel(memory, few(limit));
        }
        Next::WakeBytes(count) => {
            assert!(count > 0);
            // At its end all that was announced is taken as read.
            let all = len % 16 == 0;
            receiver.took_wake_bytes(if all { count } else { few(count) });
        }
        Next::Empty => {}
    }
}
