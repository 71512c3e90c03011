//! One run against a hostile peer, read from bytes: the body of the hostile tests and of a
//! fuzz target alike.
//!
//! | byte | what                                                         |
//! |    0 | ring size (low 3 bits), end under test (next 2 bits), bit 5: |
//! |      | there is a duplex line                                       |
//! |    1 | limit of a message                                           |
//! |  ... | operations: one byte each, low 4 bits what, with 0..=9 bytes |
//!
//! Asserted at every step: no panic, no access outside the region (the window asserts
//! that), a bounded number of accesses, and an error that stays while the memory does.

use std::mem::discriminant;

use barewire_fabric::frame::{
    CONTROL_BYTES, CREDIT, DUPLEX, HEADER_BYTES, Kind, LINE_BYTES, RING_BYTES_MIN, STATE,
    STATE_DEAF, lines_for, pack,
};
use barewire_fabric::queue::{Fragments, Next};
use barewire_fabric::ring::Taken;
use barewire_fabric::{
    DuplexReceiver, DuplexSender, MessageReceiver, MessageSender, RingReceiver, RingSender,
    SendProgress, StreamReceiver, Turns, Violation,
};

use crate::memory::{FullFences, Region};

/// Runs what `data` says.
pub fn drive(data: &[u8]) {
    drive_counted(data);
}

/// As [`drive`]; returns what happened on the way.
pub fn drive_counted(data: &[u8]) -> Tally {
    let mut script = Script { data, at: 0 };
    let first = script.byte();
    let ring_bytes = RING_BYTES_MIN << (first & 3);
    let mut peer = Peer {
        there: Region::new(ring_bytes),
        back: Region::new(ring_bytes),
        lines: (ring_bytes / LINE_BYTES) as u64,
        turns: (first & 32 != 0).then(|| Turns::new(false)),
        turn: 0,
        tally: Tally::default(),
    };
    let limit = usize::from(script.byte()) * 16;
    match first >> 3 & 3 {
        0 | 1 => receive_messages(&mut script, &mut peer, ring_bytes, limit),
        2 => receive_bytes(&mut script, &mut peer, ring_bytes),
        _ => send(&mut script, &mut peer, ring_bytes),
    }
    peer.tally
}

/// What happened in a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Words of memory spoiled.
    pub spoiled: u64,
    /// Messages or pieces of a stream received, or calls of a sender that went well.
    pub accepted: u64,
    /// Violations, in the order of [`Tally::KINDS`].
    pub violations: [u64; 11],
}

impl Tally {
    /// The violations that can be found here, by the beginning of their names.
    pub const KINDS: [&str; 11] = [
        "FrameKind",
        "FramePosition",
        "FrameLength",
        "FragmentLength",
        "SkipLength",
        "Credit",
        "PackedLength",
        "MessageLength",
        "Interleaved",
        "DuplexHeader",
        "DuplexPosition",
    ];

    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.spoiled += other.spoiled;
        self.accepted += other.accepted;
        for (sum, more) in self.violations.iter_mut().zip(other.violations) {
            *sum += more;
        }
    }

    fn count(&mut self, violation: Violation) {
        let name = format!("{violation:?}");
        let index = Tally::KINDS.iter().position(|kind| name.starts_with(kind));
        if let Some(index) = index {
            self.violations[index] += 1;
        }
    }
}

/// The bytes of a run; zeroes when they are used up.
struct Script<'a> {
    data: &'a [u8],
    at: usize,
}

impl Script<'_> {
    fn is_over(&self) -> bool {
        self.at >= self.data.len()
    }

    fn byte(&mut self) -> u8 {
        let byte = self.data.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes([(); 8].map(|()| self.byte()))
    }

    /// A length, often at an edge.
    fn length(&mut self, ring_bytes: usize) -> u64 {
        let quarter = (ring_bytes / 4) as u64;
        match self.byte() {
            0..=99 => u64::from(self.byte()),
            100..=119 => quarter - 8,
            120..=129 => quarter - 7,
            130..=139 => quarter,
            140..=149 => ring_bytes as u64 - 8,
            150..=159 => u64::from(u32::MAX),
            160..=164 => u64::MAX,
            165..=169 => u64::MAX - 7,
            170..=199 => u64::from(self.byte()) * 64 + 56,
            _ => u64::from(self.byte()) * 37,
        }
    }
}

type Sending = RingSender<Region, Region>;
type Receiving = (RingReceiver<Region, Region>, Option<Sending>);

/// The memory between the ends, which the peer spoils.
struct Peer {
    /// What a receiver under test reads from, or a sender under test stores to.
    there: Region,
    /// The other direction.
    back: Region,
    lines: u64,
    /// What the receiver under test knows of the turns of its duplex line, if it has one.
    turns: Option<Turns>,
    /// The last turn of that line.
    turn: u32,
    tally: Tally,
}

impl Peer {
    fn spoil(&mut self, index: usize, value: u64) {
        self.there.spoil(index, value);
        self.tally.spoiled += 1;
    }

    /// A receiver, and what sends through its line when it is its turn.
    fn receiver(&self, ring_bytes: usize) -> Receiving {
        let (there, back) = (self.there.clone(), self.back.clone());
        let ring = RingReceiver::new(there.clone(), back.clone(), ring_bytes);
        let Some(turns) = &self.turns else {
            return (ring, None);
        };
        let line = DuplexReceiver::new(there.clone(), ring_bytes, turns.clone());
        let sender = RingSender::new(back.clone(), there.clone(), ring_bytes);
        let sender = sender.with_line(DuplexSender::new(there, ring_bytes, turns.clone()));
        (ring.with_line(line), Some(sender))
    }

    /// Puts a header into the duplex line that is nearly right for a reader at `tail`, after our own message if it
    /// is our turn.
    fn spoil_line(&mut self, script: &mut Script, tail: u64, ours: &mut Option<Sending>) {
        let Some(ours) = ours else { return };
        if ours.send_in_line(&[7; 20]) {
            // The reader has taken an odd turn; ours is the one after it.
            self.turn = (self.turn | 1) + 1;
        }
        let how = script.byte();
        let off = |bits: u8| u64::from(how >> bits & 3 == 3);
        let turn = u64::from(self.turn + 1) + off(0);
        let position = (tail + off(2)) & 0xff_ffff;
        // Up to 56 bytes in the line, or too many; more: in the run, or too many.
        let len = match script.byte() & 63 {
            short @ ..=59 => u64::from(short),
            long => {
                let len = script.length(self.lines as usize * LINE_BYTES) >> (long & 1);
                self.spoil(DUPLEX / 8 + 1, len);
                0xff
            }
        };
        self.spoil(DUPLEX / 8, turn << 32 | position << 8 | len);
    }

    fn line(&self, position: u64) -> usize {
        CONTROL_BYTES / 8 + (position % self.lines) as usize * LINE_BYTES / 8
    }

    /// Spoils a word of the ring, most often in a way that is nearly right for a reader
    /// at `tail`.
    fn spoil_ring(&mut self, script: &mut Script, op: u8, tail: u64, ours: &mut Option<Sending>) {
        let ring_bytes = self.lines as usize * LINE_BYTES;
        let kinds = [Kind::Whole, Kind::More, Kind::Packed, Kind::Skip];
        match op {
            0 => {
                let index = script.word() as usize % self.there.words();
                let value = script.word();
                self.spoil(index, value);
            }
            1 | 2 => {
                let kind = kinds[usize::from(script.byte() & 3)];
                let len = script.length(ring_bytes) & 0xffff_ffff;
                self.spoil(
                    self.line(tail),
                    pack(kind, HEADER_BYTES, len as usize, tail),
                );
            }
            3 => {
                let value = script.word() & 0xffff_ffff_0000_0000 | tail << 8 & 0xffff_ff00;
                let kind = u64::from(script.byte());
                self.spoil(self.line(tail), value | kind);
            }
            4 => {
                let off = u64::from(script.byte()).wrapping_sub(128);
                let position = tail.wrapping_add(off.wrapping_mul(self.lines / 2));
                self.spoil(
                    self.line(tail),
                    pack(Kind::Whole, HEADER_BYTES, 8, position),
                );
            }
            5 => {
                let word = 1 + usize::from(script.byte() & 31);
                let len = script.length(ring_bytes);
                let index = self.line(tail) + word;
                self.spoil(index.min(self.there.words() - 1), len);
            }
            6 => {
                let left = self.lines - tail % self.lines;
                let len = left as usize * LINE_BYTES - 8;
                self.spoil(self.line(tail), pack(Kind::Skip, HEADER_BYTES, len, tail));
                let kind = kinds[usize::from(script.byte() & 3)];
                let len = script.length(ring_bytes) as usize & 0xffff;
                self.spoil(
                    self.line(tail + left),
                    pack(kind, HEADER_BYTES, len, tail + left),
                );
            }
            7 => {
                // Many frames that are nearly right, small ones and empty ones above all.
                let mut position = tail;
                for _ in 0..script.byte() & 31 {
                    let kind = kinds[usize::from(script.byte() & 3) % 3];
                    let len = usize::from(script.byte() & 63) * usize::from(script.byte() & 3);
                    self.spoil(self.line(position), pack(kind, HEADER_BYTES, len, position));
                    position += lines_for(HEADER_BYTES, len);
                }
            }
            _ if script.byte() < 64 => self.spoil(self.line(tail), 0),
            _ => self.spoil_line(script, tail, ours),
        }
    }

    /// Asserts that the last call made a bounded number of accesses.
    fn check_accesses(&self) {
        let made = self.there.take_accesses() + self.back.take_accesses();
        assert!(made <= 4 * self.lines + 16, "{made} accesses in a call");
    }
}

/// Asserts that an error has a name and, memory being the same, comes again.
fn check_error<T>(first: Violation, again: Result<T, Violation>) {
    assert!(!first.to_string().is_empty());
    let again = again.err().expect("an error that stays");
    assert_eq!(
        discriminant(&first),
        discriminant(&again),
        "{first} then {again}"
    );
}

/// Takes fragments into a buffer of some length, a few times, and then goes on in the usual way.
fn receive_fragments(
    script: &mut Script,
    peer: &mut Peer,
    receiver: &mut MessageReceiver<Region, Region>,
    buffer: &mut [u8],
) {
    let into_bytes = script.length(buffer.len()) as usize % (buffer.len() + 1);
    let into = &mut buffer[..into_bytes];
    let mut taken_bytes = 0;
    for _ in 0..3 {
        let found = receiver.take_fragments(into, &mut taken_bytes);
        peer.check_accesses();
        assert!(taken_bytes <= into.len());
        match found {
            Ok(Fragments::All) => {
                peer.tally.accepted += 1;
                return;
            }
            Ok(Fragments::Some) => {}
            Ok(Fragments::Nothing | Fragments::Other) => break,
            Err(violation) => {
                peer.tally.count(violation);
                let again = receiver.take_fragments(into, &mut taken_bytes);
                check_error(violation, again);
                break;
            }
        }
    }
    if let Err(violation) = receiver.put_together(&into[..taken_bytes]) {
        peer.tally.count(violation);
    }
}

fn receive_messages(script: &mut Script, peer: &mut Peer, ring_bytes: usize, limit: usize) {
    let (ring, mut ours) = peer.receiver(ring_bytes);
    let mut receiver = MessageReceiver::new(ring, limit);
    let mut buffer = vec![0; ring_bytes];
    while !script.is_over() {
        let op = script.byte() & 15;
        if op < 9 {
            let tail = receiver.ring().tail_lines();
            peer.spoil_ring(script, op, tail, &mut ours);
            continue;
        }
        if op == 9 {
            receiver.ring().arm(&FullFences);
            receiver.maybe_ready();
            receiver.ring().must_ring(&FullFences);
            receiver.take_told();
            peer.check_accesses();
            continue;
        }
        peer.check_accesses();
        if op == 10 {
            if let Taken::Message(len_bytes) = receiver.take(&mut buffer) {
                assert!(len_bytes <= limit);
                peer.tally.accepted += 1;
            }
            peer.check_accesses();
            continue;
        }
        if op == 11 {
            receive_fragments(script, peer, &mut receiver, &mut buffer);
            continue;
        }
        let found = receiver.next_message();
        peer.check_accesses();
        let next = match found {
            Ok(next) => next,
            Err(violation) => {
                let tail = receiver.ring().tail_lines();
                peer.tally.count(violation);
                check_error(violation, receiver.next_message());
                assert_eq!(receiver.ring().tail_lines(), tail);
                continue;
            }
        };
        peer.tally.accepted += u64::from(next != Next::Nothing);
        match &next {
            Next::Nothing => {}
            Next::Assembled => assert!(receiver.assembled().len() <= limit),
            Next::InPlace(located) => {
                assert!(located.len_bytes <= limit);
                receiver.copy_out(located, &mut buffer[..located.len_bytes]);
            }
        }
        if op < 15 {
            receiver.done(&next);
        }
    }
}

fn receive_bytes(script: &mut Script, peer: &mut Peer, ring_bytes: usize) {
    let (ring, mut ours) = peer.receiver(ring_bytes);
    let mut receiver = StreamReceiver::new(ring);
    let mut buffer = vec![0; ring_bytes];
    while !script.is_over() {
        let op = script.byte() & 15;
        if op < 9 {
            let tail = receiver.ring().tail_lines();
            peer.spoil_ring(script, op, tail, &mut ours);
            continue;
        }
        let len = if op < 12 {
            ring_bytes
        } else {
            usize::from(script.byte())
        };
        peer.check_accesses();
        let found = receiver.read(&mut buffer[..len]);
        peer.check_accesses();
        peer.tally.accepted += u64::from(found.is_ok_and(|got| got > 0));
        if let Err(violation) = found {
            peer.tally.count(violation);
            let tail = receiver.ring().tail_lines();
            check_error(violation, receiver.read(&mut buffer[..len]));
            assert_eq!(receiver.ring().tail_lines(), tail);
        }
        receiver.maybe_ready();
    }
}

fn send(script: &mut Script, peer: &mut Peer, ring_bytes: usize) {
    // The sender reads what the peer spoils, hence the exchange.
    let ring = RingSender::new(peer.back.clone(), peer.there.clone(), ring_bytes);
    let mut sender = MessageSender::new(ring);
    let message = vec![0xa5; 2 * ring_bytes];
    let max = sender.ring().frame_bytes_max();
    let mut credit = 0;
    while !script.is_over() {
        let head = sender.ring().head_lines();
        match script.byte() & 15 {
            0 => {
                let value = script.word();
                peer.spoil(usize::from(script.byte() & 7), value);
            }
            1 => peer.spoil(CREDIT / 8, head),
            2 => peer.spoil(CREDIT / 8, head + 1),
            3 => {
                credit = head - head.min(u64::from(script.byte() & 31));
                peer.spoil(CREDIT / 8, credit);
            }
            4 => peer.spoil(CREDIT / 8, credit.wrapping_sub(1)),
            5 => peer.spoil(STATE / 8, u64::from(script.byte())),
            6 => peer.spoil(CREDIT / 8, u64::MAX - u64::from(script.byte())),
            7 => {
                let state = peer.there.clone();
                let deaf = sender.ring().peer_deaf();
                use barewire_fabric::memory::Incoming;
                assert_eq!(deaf, state.read_u64(STATE) & STATE_DEAF != 0);
                sender.ring().must_ring(&FullFences);
                let len = usize::from(script.byte()).min(max);
                if let Err(violation) = sender.ring().arm(&FullFences, len) {
                    check_error(violation, sender.ring().arm(&FullFences, len));
                }
                sender.ring().disarm();
                peer.check_accesses();
            }
            op => {
                let len = script.length(ring_bytes) as usize % (max + 1);
                let call = |sender: &mut MessageSender<Region, Region>| match op {
                    8..=11 => sender.send_frame(&message[..len]).map(|_| ()),
                    12 | 13 => {
                        let batch = [&message[..len / 8], &message[..7], &message[..len]];
                        sender.send_batch(&batch).map(|_| ())
                    }
                    _ => {
                        let mut progress = SendProgress::default();
                        sender.send_part(&message, &mut progress).map(|_| ())
                    }
                };
                peer.check_accesses();
                let done = call(&mut sender);
                peer.check_accesses();
                peer.tally.accepted += u64::from(done.is_ok());
                if let Err(violation) = done {
                    peer.tally.count(violation);
                    assert!(matches!(violation, Violation::Credit { .. }));
                    // A part that went in before the error does not come again.
                    let head = sender.ring().head_lines();
                    if op < 12 {
                        check_error(violation, call(&mut sender));
                        assert_eq!(sender.ring().head_lines(), head);
                    }
                }
            }
        }
    }
}
