//! Sends: short messages, long ones, and what waits for room.

use std::ffi::c_int;

use barewire::{ConnectOptions, Sender};

use super::state::{Ending, Engine, Link, LongSend, Out, Payload, Queued, error_number};
use crate::memory::{Context, Lent};
use crate::raw;
use crate::records::{HEAD_BYTES, Label, Long, RECORD_BYTES_MAX, Record};

/// The longest message that is sent before anybody has asked for it: an unexpected one takes memory of the receiver.
pub(crate) const WHOLE_BYTES_MAX: usize = 8 << 10;
/// The longest message that a program may forget at once.
pub(crate) const INJECT_BYTES_MAX: usize = 4 << 10;
/// The longest record that is put together in private memory, and then copied: it may go through the lines that both
/// sides write in turn.
pub(super) const STAGED_BYTES_MAX: usize = 4 << 10;
/// Operations that may wait for one peer.
pub(crate) const BACKLOG_MAX: usize = 1024;

/// What a program says about a send.
pub(crate) struct Outgoing {
    pub(crate) label: Label,
    pub(crate) context: Context,
    /// Whether success is told.
    pub(crate) report: bool,
    /// The program has its memory back when the call returns.
    pub(crate) inject: bool,
    /// It has ended only when the receiver has it.
    pub(crate) delivery: bool,
}

impl Outgoing {
    /// How its end is told, if the operation is of this kind.
    pub(super) fn ending_of(&self, kind: u64) -> Ending {
        Ending {
            context: self.context,
            report: self.report,
            flags: kind,
            tag: 0,
        }
    }

    fn ending(&self) -> Ending {
        let kind = match self.label.tag {
            Some(_) => raw::FI_TAGGED,
            None => raw::FI_MSG,
        };
        Ending {
            context: self.context,
            report: self.report,
            flags: raw::FI_SEND | kind,
            tag: self.label.tag.unwrap_or_default(),
        }
    }
}

impl Engine {
    /// Begins to send.
    ///
    /// # Errors
    /// An error number of libfabric: nothing was begun.
    #[inline]
    pub(crate) fn send(&mut self, peer: usize, memory: Lent, sent: &Outgoing) -> Result<(), c_int> {
        if sent.inject && memory.len_bytes() > INJECT_BYTES_MAX {
            return Err(raw::FI_EMSGSIZE);
        }
        if memory.len_bytes() <= WHOLE_BYTES_MAX
            && !sent.delivery
            && self.peers[peer].backlog.is_empty()
            && let_through(self.put_whole(peer, sent.label, &memory))
        {
            if sent.report || !self.counted.is_empty() {
                self.end_send(&sent.ending(), None);
            }
            return Ok(());
        }
        self.send_slowly(peer, memory, sent)
    }

    /// As [`Engine::send`], a message that does not go whole and now.
    #[inline(never)]
    fn send_slowly(&mut self, peer: usize, memory: Lent, sent: &Outgoing) -> Result<(), c_int> {
        let ending = sent.ending();
        if let Out::Lost(error) = self.peers[peer].out {
            self.end_send(&ending, Some(error));
            return Ok(());
        }
        if self.peers[peer].backlog.len() >= BACKLOG_MAX {
            return Err(raw::FI_EAGAIN);
        }
        if memory.len_bytes() > WHOLE_BYTES_MAX || sent.delivery {
            self.announce(peer, memory, sent.label, ending);
            return Ok(());
        }
        let payload = match sent.inject {
            true => {
                let mut kept = Vec::new();
                memory.append_to(0..memory.len_bytes(), &mut kept);
                Payload::Kept(kept)
            }
            false => Payload::Lent(memory),
        };
        let queued = Queued::Whole {
            label: sent.label,
            payload,
            ending,
        };
        self.queue(peer, queued);
        Ok(())
    }

    fn announce(&mut self, peer: usize, memory: Lent, label: Label, ending: Ending) {
        let send = self.number();
        let long = Long {
            send,
            len_bytes: memory.len_bytes() as u64,
            address: memory.address().unwrap_or(0),
            mark_address: (&raw const *self.mark).expose_provenance() as u64,
            mark: *self.mark,
        };
        let long_send = LongSend {
            peer,
            memory,
            ending: Some(ending),
            pulled: false,
            region: 0,
        };
        self.sends.insert(send, long_send);
        self.say(peer, Record::Long(label, long));
    }

    /// Sends a record without the bytes of a message, now or when there is room.
    pub(super) fn say(&mut self, peer: usize, record: Record) {
        let at_once = self.peers[peer].backlog.is_empty();
        if !(at_once && let_through(self.put(peer, record))) {
            self.queue(peer, record.into());
        }
    }

    /// As [`Engine::say`], a record with the bytes that follow it.
    pub(super) fn say_bytes(&mut self, peer: usize, bytes: Vec<u8>) {
        let at_once = self.peers[peer].backlog.is_empty();
        let sent = match self.link(peer) {
            Some(link) if at_once => let_through(link.connection.sender().try_send(&bytes)),
            _ => false,
        };
        if !sent {
            self.queue(peer, Queued::Bytes(bytes));
        }
    }

    /// Has it wait, and connects if that was not done yet.
    pub(super) fn queue(&mut self, peer: usize, queued: Queued) {
        if matches!(self.peers[peer].out, Out::Lost(_)) {
            return self.drop_queued(peer, queued);
        }
        self.peers[peer].backlog.push_back(queued);
        if !self.busy.contains(&peer) {
            self.busy.push(peer);
        }
        if self.peers[peer].out == Out::Idle {
            self.connect(peer);
        }
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, peer: usize) {
        let options = ConnectOptions {
            wait_for_name: false,
            data: self.name.to_vec(),
            ..ConnectOptions::default()
        };
        let name = String::from_utf8_lossy(&self.peers[peer].name).into_owned();
        match self.node.start_connect(&name, &options) {
            Ok(connection) => self.peers[peer].out = Out::Connecting(connection),
            Err(error) => self.lose(peer, error_number(&error)),
        }
    }

    /// Puts a record into the connection, if it is open and has room. Errors are those of the connection, whose end the
    /// node reports too.
    #[inline]
    fn put(&mut self, peer: usize, record: Record) -> barewire::Result<bool> {
        let Some(link) = self.link(peer) else {
            return Ok(false);
        };
        let mut head = [0; RECORD_BYTES_MAX];
        let head_bytes = record.write(&mut head);
        link.connection.sender().try_send(&head[..head_bytes])
    }

    /// As [`Engine::put`], a message as a whole.
    #[inline]
    fn put_whole(&mut self, peer: usize, label: Label, body: &Lent) -> barewire::Result<bool> {
        let mut staging = std::mem::take(&mut self.staging);
        let sent = match self.link(peer) {
            Some(link) => {
                let (sender, all) = (link.connection.sender(), 0..body.len_bytes());
                put_with(sender, &mut staging, &label.head(), body, all)
            }
            None => Ok(false),
        };
        self.staging = staging;
        sent
    }

    /// The open connection to a peer.
    #[inline]
    fn link(&mut self, peer: usize) -> Option<&mut Link> {
        let Out::Open(index) = self.peers[peer].out else {
            return None;
        };
        self.links[index].as_deref_mut()
    }

    /// Sends what waits for a peer, as far as there is room. Returns whether any went.
    pub(super) fn flush(&mut self, peer: usize) -> bool {
        let mut any = false;
        while let Some(queued) = self.peers[peer].backlog.pop_front() {
            match self.put_queued(peer, queued) {
                None => any = true,
                Some((queued, moved)) => {
                    any |= moved;
                    self.peers[peer].backlog.push_front(queued);
                    break;
                }
            }
        }
        any
    }

    /// Sends one that waited. Gives back what could not be sent, and whether a part of it was.
    fn put_queued(&mut self, peer: usize, queued: Queued) -> Option<(Queued, bool)> {
        let Out::Open(index) = self.peers[peer].out else {
            return Some((queued, false));
        };
        let Some(link) = self.links[index].as_mut() else {
            return Some((queued, false));
        };
        let sender = link.connection.sender();
        match queued {
            Queued::Record { bytes, len_bytes } => {
                let sent = let_through(sender.try_send(&bytes[..len_bytes]));
                (!sent).then_some((queued, false))
            }
            Queued::Bytes(ref bytes) => {
                let sent = let_through(sender.try_send(bytes));
                (!sent).then_some((queued, false))
            }
            Queued::Whole {
                label,
                ref payload,
                ending,
            } => {
                let head = label.head();
                let sent = match payload {
                    Payload::Lent(lent) => {
                        put_with(sender, &mut self.staging, &head, lent, 0..lent.len_bytes())
                    }
                    Payload::Kept(kept) => sender.try_send(&[&head[..], kept].concat()),
                };
                if !let_through(sent) {
                    return Some((queued, false));
                }
                self.end_send(&ending, None);
                None
            }
            Queued::Pieces {
                send,
                receive,
                at,
                end,
            } => self.put_pieces(index, send, receive, at..end),
        }
    }

    /// As [`Engine::put_queued`], pieces of what a receiver waits for.
    fn put_pieces(
        &mut self,
        index: usize,
        send: u64,
        receive: u64,
        range: std::ops::Range<usize>,
    ) -> Option<(Queued, bool)> {
        let (link, long) = (self.links[index].as_mut()?, self.sends.get(&send)?);
        let sender = link.connection.sender();
        let mut head = [0; RECORD_BYTES_MAX];
        Record::Piece { receive }.write(&mut head);
        let head = head.first_chunk().expect("longer than a head");
        let piece_bytes = sender.reserve_bytes_max() - HEAD_BYTES;
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let next = end.min(at + piece_bytes);
            let (staging, memory) = (&mut self.staging, &long.memory);
            if !let_through(put_with(sender, staging, head, memory, at..next)) {
                let rest = Queued::Pieces {
                    send,
                    receive,
                    at,
                    end,
                };
                return Some((rest, at > range.start));
            }
            at = next;
        }
        if long.ending.is_none() {
            self.sends.remove(&send);
            self.count(raw::FI_REMOTE_READ, false);
        }
        None
    }

    /// The receiver has a long message, or failed to take it.
    pub(super) fn delivered(&mut self, peer: usize, send: u64, error: u32) {
        if self.sends.get(&send).is_some_and(|long| long.peer == peer) {
            if let Some(long) = self.sends.remove(&send) {
                let error = c_int::try_from(error).unwrap_or(raw::FI_EOTHER);
                if let Some(ending) = long.ending {
                    self.end_send(&ending, (error != 0).then_some(error));
                }
            }
        }
    }

    /// The receiver wants a long message in pieces.
    pub(super) fn pulled(&mut self, peer: usize, send: u64, receive: u64, wanted_bytes: u64) {
        let Some(long) = self.sends.get_mut(&send) else {
            return;
        };
        if long.peer != peer || std::mem::replace(&mut long.pulled, true) {
            return;
        }
        let wanted = usize::try_from(wanted_bytes).unwrap_or(usize::MAX);
        let end = long.memory.len_bytes().min(wanted);
        let pieces = Queued::Pieces {
            send,
            receive,
            at: 0,
            end,
        };
        self.queue(peer, pieces);
        self.flush(peer);
    }

    fn drop_queued(&mut self, peer: usize, queued: Queued) {
        if let (Queued::Whole { ending, .. }, Out::Lost(error)) = (queued, self.peers[peer].out) {
            self.end_send(&ending, Some(error));
        }
    }

    /// The peer is gone: all that it still owed has ended with this error.
    pub(super) fn lose(&mut self, peer: usize, error: c_int) {
        self.peers[peer].out = Out::Lost(error);
        while let Some(queued) = self.peers[peer].backlog.pop_front() {
            self.drop_queued(peer, queued);
        }
        let of_peer = |(number, long): (&u64, &LongSend)| (long.peer == peer).then_some(*number);
        let mut sends: Vec<u64> = self.sends.iter().filter_map(of_peer).collect();
        sends.sort_unstable();
        for send in sends {
            if let Some(long) = self.sends.remove(&send) {
                if let Some(ending) = long.ending {
                    self.end_send(&ending, Some(error));
                }
            }
        }
        self.lose_receives(peer, error);
    }
}

/// Whether it went. A connection that has ended takes nothing any more; the node reports its end.
#[inline]
fn let_through(sent: barewire::Result<bool>) -> bool {
    sent.unwrap_or(false)
}

/// Sends a head and bytes of lent memory as one message, if there is room.
#[inline]
fn put_with(
    sender: &mut Sender,
    staging: &mut [u8],
    head: &[u8; HEAD_BYTES],
    body: &Lent,
    range: std::ops::Range<usize>,
) -> barewire::Result<bool> {
    let len_bytes = HEAD_BYTES + range.len();
    if let Some(record) = staging.get_mut(..len_bytes) {
        record[..HEAD_BYTES].copy_from_slice(head);
        let mut at = HEAD_BYTES;
        body.read(range, |part| {
            record[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        });
        return sender.try_send(record);
    }
    let Some(mut room) = sender.reserve(len_bytes)? else {
        return Ok(false);
    };
    room.write_at(0, head);
    let mut at = head.len();
    body.read(range, |part| {
        room.write_at(at, part);
        at += part.len();
    });
    room.commit_written();
    Ok(true)
}
