//! Spoiling a ring, a control line, a doorbell page, and memory at large.

use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_fabric::frame::{
    CONTROL_BYTES, DUPLEX, Kind, LINE_BYTES, RUN_BYTES_MAX, lines_for, pack, payload_offset,
    ring_bytes_of, run_bytes, run_offset, unpack,
};
use barewire_shm::Window;
use barewire_units::Rng;

use crate::link::{Conn, Link};

/// A word of the kind that breaks things.
pub fn adversarial(rng: &mut Rng) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => u64::MAX - rng.below(64),
        4 => 1 << rng.below(64),
        5 => (1_u64 << rng.below(64)).wrapping_sub(1),
        6 => 1 << 63,
        7 => u64::from(u32::MAX) - rng.below(3),
        8 => rng.below(8192),
        9 => rng.below(128),
        10 => rng.next_u64() & 0xffff_ffff,
        _ => rng.next_u64(),
    }
}

/// A length, often at an edge of a ring of so many bytes.
fn length(rng: &mut Rng, ring_bytes: usize) -> usize {
    let quarter = ring_bytes / 4;
    match rng.below(14) {
        0 => 0,
        1 => quarter - 64,
        2 => quarter - 63,
        3 => quarter - 8,
        4 => ring_bytes - 8,
        5 => ring_bytes,
        6 => u32::MAX as usize,
        7 => u32::MAX as usize - 7,
        8 => rng.index(8),
        _ => rng.index(quarter - 63),
    }
}

impl Conn {
    fn lines(&self) -> u64 {
        (ring_bytes_of(self.out.len_bytes()) / LINE_BYTES) as u64
    }

    fn line(&self, position: u64) -> usize {
        CONTROL_BYTES + (position % self.lines()) as usize * LINE_BYTES
    }

    /// Whether there is room for a frame of any length, if the victim's word is taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let credit = self.inn.atomic_load(0);
        self.head + self.lines() / 2 <= credit.wrapping_add(self.lines())
    }

    /// Reads what the victim has published and gives credit, as an honest receiver does.
    pub fn take(&mut self) {
        let lines = (ring_bytes_of(self.inn.len_bytes()) / LINE_BYTES) as u64;
        for _ in 0..lines {
            let at = CONTROL_BYTES + (self.tail % lines) as usize * LINE_BYTES;
            let header = self.inn.atomic_load(at);
            match unpack(header, self.tail) {
                Ok((_, offset, len)) if (len as u64) < lines * 64 => {
                    self.tail += lines_for(offset, len);
                }
                _ => break,
            }
        }
        self.out.atomic_store(0, self.tail);
    }

    /// Publishes a frame as an honest sender does, and follows it.
    pub fn publish(&mut self, kind: Kind, payload: &[u8]) {
        let offset = payload_offset(payload.len());
        let lines = lines_for(offset, payload.len());
        let to_end = self.lines() - self.head % self.lines();
        if lines > to_end {
            let len = to_end as usize * LINE_BYTES - 8;
            self.out.atomic_store(self.line(self.head + to_end), 0);
            let header = pack(Kind::Skip, 8, len, self.head);
            self.out.atomic_store(self.line(self.head), header);
            self.head += to_end;
        }
        self.out.write_bytes(self.line(self.head) + offset, payload);
        self.out.atomic_store(self.line(self.head + lines), 0);
        let header = pack(kind, offset, payload.len(), self.head);
        self.out.atomic_store(self.line(self.head), header);
        self.head += lines;
    }

    /// A message through the duplex line, which lies in our memory: we have opened the connection. It is right if it is
    /// our turn and `off` is 0.
    fn send_in_line(&mut self, rng: &mut Rng, off: u64) {
        let last = self.inn.atomic_load(DUPLEX) >> 32;
        // The odd turns are ours.
        let turn = last + 1 + last % 2 + off;
        let position = self.head.wrapping_add(off * rng.below(3)) & 0xff_ffff;
        let ring_bytes = ring_bytes_of(self.inn.len_bytes());
        let run_bytes = run_bytes(ring_bytes);
        let longest = [56, run_bytes as u64][rng.index(2)];
        let len = rng.below(longest + 1 + off * 8);
        self.inn.write_bytes(DUPLEX + 8, &[0x5a; 56]);
        let run = &[0x5a; RUN_BYTES_MAX][..run_bytes];
        self.inn.write_bytes(run_offset(ring_bytes), run);
        let in_header = if len > 56 {
            self.inn.atomic_store(DUPLEX + 8, len);
            0xff
        } else {
            len
        };
        let header = turn << 32 | position << 8 | in_header;
        self.inn.atomic_store(DUPLEX, header);
    }

    /// The duplex line: right, nearly right, or changing while it is read; returns how many words it stored.
    fn spoil_line(&mut self, rng: &mut Rng) -> u64 {
        let count = [1, 1, 64][rng.index(3)];
        let off_max = if count == 1 { 3 } else { 2 };
        for _ in 0..count {
            let off = if rng.below(3) == 0 {
                rng.below(off_max)
            } else {
                0
            };
            self.send_in_line(rng, off);
        }
        9 * count
    }

    /// Whether the victim has said that it is done with us.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.inn.atomic_load(24) != 0
    }

    /// A message that goes on and on, for as long as there is room.
    pub fn go_on(&mut self) -> u64 {
        let mut count = 0;
        while self.has_room() && count < 64 {
            self.publish(Kind::More, &[0x5a; 960]);
            count += 2;
        }
        count
    }

    /// One act of spoiling; returns how many words it stored.
    pub fn spoil(&mut self, rng: &mut Rng) -> u64 {
        let kind = [Kind::Whole, Kind::More, Kind::Packed, Kind::Skip][rng.index(4)];
        let begin = [8, 64][rng.index(2)];
        match rng.below(19) {
            0..=2 => self.send_honestly(rng),
            3 | 4 if self.has_room() => self.send_packed(rng),
            5 | 6 => self.send_pieces(rng),
            act @ 7..=9 => self.publish_wrong_header(rng, act, kind, begin),
            10 => self.change_header(rng, kind, begin),
            act @ 11..=13 => self.spoil_control_line(rng, act),
            14 => scribble(&self.out, rng, 32),
            15..=17 => self.spoil_line(rng),
            // Our own memory, where the victim keeps what only it should.
            _ => scribble(&self.inn, rng, 16),
        }
    }

    /// As it should be, so that the other side goes on.
    fn send_honestly(&mut self, rng: &mut Rng) -> u64 {
        let mut count = 0;
        self.take();
        for _ in 0..rng.below(8) {
            let len = rng.index(961);
            if !self.has_room() {
                break;
            }
            self.publish(Kind::Whole, &[0x5a; 960][..len]);
            count += 3;
        }
        count
    }

    /// A packed frame with lengths of any kind.
    fn send_packed(&mut self, rng: &mut Rng) -> u64 {
        let mut bytes = [0x5a; 1016];
        let len = rng.index(121) * 8;
        let mut at = 0;
        while at + 8 <= len {
            let left = (len - at - 8) as u64;
            let inner = match rng.below(4) {
                0 => adversarial(rng),
                1 => left,
                _ => rng.below(left + 1),
            };
            bytes[at..at + 8].copy_from_slice(&inner.to_le_bytes());
            at += 8 + (inner as usize).min(len).next_multiple_of(8);
        }
        self.publish(Kind::Packed, &bytes[..len]);
        8
    }

    /// Pieces of messages, some without end, some empty.
    fn send_pieces(&mut self, rng: &mut Rng) -> u64 {
        let count = if self.has_room() {
            rng.below(3)
        } else {
            rng.below(2) * 20
        };
        for _ in 0..count {
            // All but the last have to be full.
            let len = [0, 960, 960, 960, rng.index(961)][rng.index(5)];
            self.publish(Kind::More, &[0x5a; 960][..len]);
        }
        count * 2 + 1
    }

    /// A header with everything right but the length (act 7), the position (8) or the kind (9).
    fn publish_wrong_header(&mut self, rng: &mut Rng, act: u64, kind: Kind, begin: usize) -> u64 {
        let header = match act {
            7 => {
                let ring_bytes = ring_bytes_of(self.out.len_bytes());
                pack(kind, begin, length(rng, ring_bytes), self.head)
            }
            8 => {
                let position = self.head.wrapping_add(adversarial(rng));
                pack(kind, begin, rng.index(100), position)
            }
            _ => pack(kind, begin, rng.index(100), self.head) & !0xff | rng.below(256),
        };
        self.out.atomic_store(self.line(self.head), header);
        1
    }

    /// A header that changes while it is read.
    fn change_header(&mut self, rng: &mut Rng, kind: Kind, begin: usize) -> u64 {
        let ring_bytes = ring_bytes_of(self.out.len_bytes());
        let at = self.line(self.head);
        for _ in 0..64 {
            let len = length(rng, ring_bytes);
            self.out.atomic_store(at, pack(kind, begin, len, self.head));
        }
        64
    }

    /// The control line: any credit (act 11), credit nearly right (12), arming and state (13).
    fn spoil_control_line(&mut self, rng: &mut Rng, act: u64) -> u64 {
        match act {
            11 => self.out.atomic_store(0, adversarial(rng)),
            12 => {
                let credit = self.out.atomic_load(0);
                let credit = credit.wrapping_add(rng.below(70)).wrapping_sub(4);
                self.out.atomic_store(0, credit);
            }
            _ => {
                let word = 8 * (1 + rng.index(7));
                self.out.atomic_store(word, adversarial(rng));
            }
        }
        1
    }
}

/// Any words anywhere in a window; returns how many.
pub fn scribble(window: &Window, rng: &mut Rng, count: u64) -> u64 {
    let words = window.len_bytes() / 8;
    for _ in 0..count {
        window.atomic_store(rng.index(words) * 8, adversarial(rng));
    }
    count
}

fn set(window: &Window, word: usize, bits: u64) {
    let mut found = window.atomic_load(word * 8);
    while let Err(now) = window.atomic_compare_exchange(word * 8, found, found | bits) {
        found = now;
    }
}

/// Storms a doorbell page; returns how many words were changed. In our own user's page,
/// which it shares with honest peers, bits are only set, and the sleep word is left alone:
/// within one user the network defends against accidents.
pub fn storm(link: &mut Link, rng: &mut Rng) -> u64 {
    let Some(page) = link.far_page.as_ref().map(|m| m.window.clone()) else {
        return 0;
    };
    let words = 2 + 64 + 4096;
    let gentle = link.same_user();
    let mut count = 0;
    match rng.below(6) {
        0 => {
            for _ in 0..64 {
                link.ring(rng.below(u64::from(SOURCES_MAX)) as u32);
            }
            count += 64;
        }
        // Upper levels without lower ones.
        1 => {
            for _ in 0..200 {
                set(&page, 0, rng.next_u64());
            }
            count += 200;
        }
        2 => {
            for word in (2..3).chain(8..71) {
                set(&page, word, adversarial(rng));
                set(&page, 0, u64::MAX);
            }
            count += 128;
        }
        // Lower levels without upper ones.
        3 => {
            for _ in 0..200 {
                let word = 2 + rng.index(words - 2);
                set(&page, word, adversarial(rng));
            }
            count += 200;
        }
        // Everything.
        4 => {
            for word in (2..words).chain([0]) {
                set(&page, word, u64::MAX);
            }
            count += words as u64;
        }
        _ if gentle => {}
        _ => {
            count += scribble(&page, rng, 200);
            for _ in 0..16 {
                page.atomic_store(8, adversarial(rng));
                page.atomic_store(0, adversarial(rng));
            }
            count += 32;
        }
    }
    link.ring(link.far_source);
    count
}
