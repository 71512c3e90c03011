//! From the send queue into the connection: one record for each descriptor, as long as there is room, and a receive at
//! the other end for those that take one.

use barewire::Sender;
use barewire_proto::via::descriptor::{Operation, Segment, Side, Work, status};
use barewire_proto::via::protection::Access;

use super::state::{Flow, Inner, Link, Reply, Waiting};
use crate::memory::gather;
use crate::raw::{RELIABLE_RECEPTION, UNRELIABLE};
use crate::records::{HEAD_BYTES, Record};

/// Up to this length a record is put together in private memory first, and may go the fastest way.
const STAGED_BYTES_MAX: usize = 1 << 10;

/// How far a queue was taken.
enum Step {
    Went,
    /// There is no room in the connection, or no receive at the other end, or nothing to do.
    Stays,
    /// The descriptor failed, and with it the connection.
    Failed,
}

/// The record that does what a descriptor asks for, and the memory whose bytes go with it.
fn record_of(work: &Work) -> (Record, &[Segment]) {
    let (address, handle) = work.remote.unwrap_or_default();
    let immediate = work.immediate;
    match work.operation {
        Operation::RdmaRead => {
            let read = Record::Read {
                len_bytes: work.len_bytes as u32,
                handle,
                address,
            };
            (read, &[])
        }
        Operation::RdmaWrite => {
            let write = Record::Write {
                immediate,
                handle,
                address,
            };
            (write, &work.data)
        }
        Operation::Send | Operation::Receive => (Record::Send { immediate }, &work.data),
    }
}

/// What a descriptor that failed does to the connection.
fn failed(reliability: u16) -> Step {
    match reliability {
        UNRELIABLE => Step::Went,
        _ => Step::Failed,
    }
}

impl Inner {
    /// Sends what can be sent on the connection of a VI.
    pub(crate) fn pump(&mut self, vi: usize) {
        let link = self.vis.get_mut(&vi).and_then(|of| of.link.take());
        let Some(mut link) = link else {
            return;
        };
        let goes_on = !link.flow.established || self.pump_link(vi, &mut link);
        if let (true, Some(of)) = (goes_on, self.vis.get_mut(&vi)) {
            of.link = Some(link);
            return;
        }
        self.fault(vi, link);
    }

    /// Returns whether the connection stays.
    fn pump_link(&mut self, vi: usize, link: &mut Link) -> bool {
        let Link { connection, flow } = link;
        let sender = connection.sender();
        while let Some(reply) = flow.replies.front().copied() {
            if !self.reply(vi, sender, flow, &reply) {
                return true;
            }
            flow.replies.pop_front();
        }
        let reception = |of: &super::state::Vi| of.told.reliability == RELIABLE_RECEPTION;
        if flow.done_told < flow.got && self.vis.get(&vi).is_some_and(reception) {
            let done = Record::Done { number: flow.got };
            if put(sender, &mut self.staging, flow, &done, &[]) {
                flow.done_told = flow.got;
            }
        }
        loop {
            match self.pump_next(vi, sender, flow) {
                Step::Went => {}
                Step::Stays => break,
                Step::Failed => return false,
            }
        }
        if flow.offered.should_tell() {
            put(sender, &mut self.staging, flow, &Record::Credit, &[]);
        }
        true
    }

    /// Sends the next descriptor of the send queue.
    fn pump_next(&mut self, vi: usize, sender: &mut Sender, flow: &mut Flow) -> Step {
        let Some(of) = self.vis.get_mut(&vi) else {
            return Step::Stays;
        };
        let (reliability, tag) = (of.told.reliability, of.tag as u64);
        let Some((posted, work)) = of.sends.work.peek() else {
            return Step::Stays;
        };
        let work = match &work.work {
            Ok(work) => work,
            Err(bits) => {
                let bits = *bits;
                of.sends.work.begin();
                self.end(vi, Side::Send, posted, bits, 0, None);
                return failed(reliability);
            }
        };
        let fenced = work.fence && flow.waiting.iter().any(|waiting| waiting.is_read);
        let takes_receive = work.takes_receive();
        if fenced || takes_receive && !flow.credit.has() {
            return Step::Stays;
        }
        let usable = |s: &Segment| {
            let len = u64::from(s.len_bytes);
            s.len_bytes == 0
                || self
                    .regions
                    .allows(s.handle, s.address, len, tag, Access::Local)
        };
        if !work.data.iter().all(usable) {
            of.sends.work.begin();
            self.end(vi, Side::Send, posted, status::PROTECTION, 0, None);
            return failed(reliability);
        }
        let len_bytes = work.len_bytes as u32;
        let is_read = work.operation == Operation::RdmaRead;
        let (record, data) = record_of(work);
        if !put(sender, &mut self.staging, flow, &record, data) {
            return Step::Stays;
        }
        of.sends.work.begin();
        flow.sent += 1;
        if takes_receive {
            flow.credit.spend();
        }
        if is_read || reliability == RELIABLE_RECEPTION {
            flow.waiting.push_back(Waiting {
                number: flow.sent,
                posted,
                is_read,
            });
        } else {
            self.end(vi, Side::Send, posted, 0, len_bytes, None);
        }
        Step::Went
    }

    /// Answers a read. Returns whether there was room. Memory that was deregistered meanwhile is not sent.
    fn reply(&mut self, vi: usize, sender: &mut Sender, flow: &mut Flow, reply: &Reply) -> bool {
        let Some(of) = self.vis.get(&vi) else {
            return true;
        };
        let (record, data) = match self.permits(of, reply) {
            true => (
                Record::Data {
                    number: reply.number,
                },
                Some(Segment {
                    address: reply.address,
                    handle: reply.handle,
                    len_bytes: reply.len_bytes,
                }),
            ),
            false => (
                Record::Refused {
                    number: reply.number,
                    status: status::RDMA_PROTECTION,
                },
                None,
            ),
        };
        put(sender, &mut self.staging, flow, &record, data.as_slice())
    }

    /// Whether the other end may read this memory.
    pub(super) fn permits(&self, of: &super::state::Vi, reply: &Reply) -> bool {
        let len = u64::from(reply.len_bytes);
        let tag = of.tag as u64;
        let region = self
            .regions
            .allows(reply.handle, reply.address, len, tag, Access::RemoteRead);
        of.told.rdma_read && (region || len == 0)
    }
}

/// Sends a record with the bytes of segments, if there is room. A connection that has ended takes nothing any more; the
/// node reports its end.
pub(super) fn put(
    sender: &mut Sender,
    staging: &mut Vec<u8>,
    flow: &mut Flow,
    record: &Record,
    data: &[Segment],
) -> bool {
    let head = record.head(flow.offered.number());
    let data_bytes: usize = data.iter().map(|s| s.len_bytes as usize).sum();
    let len_bytes = HEAD_BYTES + data_bytes;
    let went = if len_bytes <= STAGED_BYTES_MAX {
        staging.clear();
        staging.extend_from_slice(&head);
        if let Record::Hello(told) = record {
            staging.extend_from_slice(&told.write());
        }
        // SAFETY: the caller has found the segments in registered regions.
        unsafe { gather(data, |_, bytes| staging.extend_from_slice(bytes)) };
        sender.try_send(staging).unwrap_or(false)
    } else {
        match sender.reserve(len_bytes) {
            Ok(Some(mut room)) => {
                room.write_at(0, &head);
                // SAFETY: the caller has found the segments in registered regions.
                unsafe { gather(data, |at, bytes| room.write_at(HEAD_BYTES + at, bytes)) };
                room.commit_written();
                true
            }
            _ => false,
        }
    };
    flow.is_full = !went;
    if went {
        flow.offered.told();
    }
    went
}
