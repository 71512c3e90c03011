//! An interworking unit: takes whole pieces from the frames or cells of one network, and cuts
//! them anew for another.
//!
//! Each side has the way in and the way out of a card of the workbench, without a host behind
//! it. A piece that is whole goes on when the unit has worked on it, one piece after the other.
//! A piece that is longer than the other side's frames, where those are not put together
//! by cards, goes on as several. Where drivers cut messages into frames, a piece is a frame; so a
//! unit gathers the pieces of a message first, unless it is told not to.

use std::collections::{BTreeMap, VecDeque};

use barewire_models::workbench::{
    Frame, Piece, Receiver, ReceiverConfig, Taker, Transmitter, TransmitterConfig,
};
use barewire_units::Duration;

use super::device::{Desk, Device};

/// One side of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideSpec {
    pub transmitter: TransmitterConfig,
    /// The longest piece that this side's network takes.
    pub piece_bytes: u64,
}

/// What a unit is made of.
#[derive(Clone, Debug)]
pub(super) struct UnitSpec {
    pub sides: Vec<SideSpec>,
    /// Work on each piece, one after the other.
    pub time: Duration,
    /// Bytes of pieces that each side holds: those that come in and are not whole, and those that
    /// wait for their turn to go out.
    pub buffer_bytes: u64,
    /// Whole messages go on, and not each piece by itself.
    pub gathers: bool,
}

struct Side {
    spec: SideSpec,
    receiver: Receiver,
    transmitter: Transmitter,
    /// Pieces that wait for the transmitter to be empty, and their bytes.
    waiting: VecDeque<Piece>,
    waiting_bytes: u64,
    /// By sender: the pieces of a message that is not whole.
    gathered: BTreeMap<u16, Vec<Piece>>,
}

/// What is worked on.
#[derive(Debug)]
struct Job {
    from: usize,
    whole: Piece,
    /// What it holds of the side's buffer.
    pieces: Vec<Piece>,
}

/// A unit.
pub(super) struct Unit {
    spec: UnitSpec,
    sides: Vec<Side>,
    /// What is worked on, the first of it now.
    work: VecDeque<Job>,
    pieces: u64,
    lost: u64,
    most_bytes: u64,
}

impl Unit {
    pub(super) fn new(spec: UnitSpec) -> Self {
        let side = |side: &SideSpec| Side {
            spec: *side,
            receiver: Receiver::new(ReceiverConfig {
                taker: Taker::Processor,
                fifo_bytes: spec.buffer_bytes,
                buffers: 0,
                descriptor_bytes: 0,
            }),
            transmitter: Transmitter::new(TransmitterConfig {
                // A piece is in it as a whole.
                fifo_bytes: u64::MAX,
                straight_through: false,
                ..side.transmitter
            }),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            gathered: BTreeMap::new(),
        };
        Self {
            sides: spec.sides.iter().map(side).collect(),
            spec,
            work: VecDeque::new(),
            pieces: 0,
            lost: 0,
            most_bytes: 0,
        }
    }

    /// Takes the whole pieces of a side to be worked on.
    fn take(&mut self, port: usize, desk: &mut Desk<'_>) {
        while let Some(piece) = self.sides[port].receiver.take() {
            let Some((whole, pieces)) = self.gather(port, piece) else {
                continue;
            };
            self.work.push_back(Job {
                from: port,
                whole,
                pieces,
            });
            if self.work.len() == 1 {
                desk.wake(self.spec.time, 0);
            }
        }
    }

    /// Puts a piece to those of its message; what goes on when that is whole.
    fn gather(&mut self, port: usize, piece: Piece) -> Option<(Piece, Vec<Piece>)> {
        if !self.spec.gathers {
            return Some((piece, vec![piece]));
        }
        let side = &mut self.sides[port];
        let mut pieces = side.gathered.remove(&piece.from).unwrap_or_default();
        if pieces
            .first()
            .is_some_and(|first| first.message != piece.message)
        {
            // A sender's messages come one after the other: the rest of that one was lost.
            for lost in pieces.drain(..) {
                side.receiver.release(&lost);
            }
        }
        pieces.push(piece);
        if !piece.last {
            side.gathered.insert(piece.from, pieces);
            return None;
        }
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        if bytes != piece.offset + piece.bytes {
            for lost in &pieces {
                side.receiver.release(lost);
            }
            return None;
        }
        let whole = Piece {
            offset: 0,
            bytes,
            ..piece
        };
        Some((whole, pieces))
    }

    /// The piece goes out, cut for the other side.
    fn pass_on(&mut self, job: Job, desk: &mut Desk<'_>) {
        let piece = job.whole;
        for held in &job.pieces {
            self.sides[job.from].receiver.release(held);
        }
        let probe = Frame {
            piece,
            offset: 0,
            bytes: 0,
            body_bytes: 0,
            last: true,
        };
        let to = desk.way(&probe);
        let room = to.filter(|&to| {
            let held = self.sides[to].waiting_bytes;
            held == 0 || held + piece.bytes <= self.spec.buffer_bytes
        });
        let Some(to) = room else {
            self.lost += 1;
            desk.lose(probe);
            return;
        };
        self.pieces += 1;
        let side = &mut self.sides[to];
        for cut in cut(piece, side.spec.piece_bytes) {
            side.waiting.push_back(cut);
            side.waiting_bytes += cut.bytes;
        }
        self.most_bytes = self.most_bytes.max(side.waiting_bytes);
        self.send(to, desk);
    }

    /// Lets the next frame of a side go, if its line is free.
    fn send(&mut self, port: usize, desk: &mut Desk<'_>) {
        if !desk.is_free(port) {
            return;
        }
        let side = &mut self.sides[port];
        let mut next = side.transmitter.poll();
        if next.is_none() {
            if let Some(piece) = side.waiting.pop_front() {
                side.transmitter.start(piece);
                side.transmitter.arrive(piece.bytes);
                next = side.transmitter.poll();
            }
        }
        if let Some(frame) = next {
            side.transmitter.sent(&frame);
            side.waiting_bytes -= frame.bytes;
            desk.send(port, frame);
        }
    }
}

/// A piece as pieces of at most so many bytes.
fn cut(piece: Piece, most_bytes: u64) -> Vec<Piece> {
    let most_bytes = most_bytes.max(1);
    let mut cuts = Vec::new();
    let mut at = 0;
    loop {
        let bytes = (piece.bytes - at).min(most_bytes);
        let last = at + bytes == piece.bytes;
        cuts.push(Piece {
            offset: piece.offset + at,
            bytes,
            last: piece.last && last,
            ..piece
        });
        at += bytes;
        if last {
            return cuts;
        }
    }
}

impl Device for Unit {
    fn frame(&mut self, port: usize, frame: Frame, desk: &mut Desk<'_>) {
        let side = &mut self.sides[port];
        if side.receiver.handle_frame(&frame).is_err() {
            self.lost += 1;
            desk.lose(frame);
            return;
        }
        side.receiver.store(frame);
        self.take(port, desk);
    }

    fn sent(&mut self, port: usize, desk: &mut Desk<'_>) {
        self.send(port, desk);
    }

    fn woken(&mut self, _number: u32, desk: &mut Desk<'_>) {
        if let Some(job) = self.work.pop_front() {
            self.pass_on(job, desk);
        }
        if !self.work.is_empty() {
            desk.wake(self.spec.time, 0);
        }
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("messages or parts passed on", self.pieces as f64),
            ("frames and messages lost", self.lost as f64),
            ("most held, B", self.most_bytes as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_cut_without_a_gap_and_ends_once() {
        let piece = Piece {
            message: 1,
            from: 2,
            to: 3,
            offset: 100,
            bytes: 250,
            last: true,
        };
        let cuts: Vec<_> = cut(piece, 100)
            .iter()
            .map(|piece| (piece.offset, piece.bytes, piece.last))
            .collect();
        assert_eq!(
            cuts,
            [(100, 100, false), (200, 100, false), (300, 50, true)]
        );
        assert_eq!(cut(piece, 250).len(), 1);
        let inner = Piece {
            last: false,
            ..piece
        };
        assert!(cut(inner, 100).iter().all(|piece| !piece.last));
    }
}
