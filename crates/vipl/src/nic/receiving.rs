//! From the connection into the memory of the program. Each record is checked before anything is done with it.

use barewire::Message;
use barewire_proto::via::descriptor::{Segment, Side, status};
use barewire_proto::via::protection::Access;

use super::sending::put;
use super::state::{DESCRIPTORS_MAX, Flow, Inner, Link, Reply};
use crate::memory::scatter;
use crate::raw::{AsyncError, RELIABLE_RECEPTION};
use crate::records::{FIRST_BYTES, HEAD_BYTES, Record};

/// Messages that are taken from a connection at once.
const MESSAGES_MAX: usize = 64;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The other end did what it must not do.
    Breach,
    /// It sent a message without a receive.
    NoReceive,
    /// What it asked for failed here: it is told so, with these bits.
    Refuse(u32),
    /// What this end asked for failed there.
    Refused,
}

impl Inner {
    /// Takes messages out of the connection of a VI. Returns whether there were any.
    pub(crate) fn drain(&mut self, vi: usize) -> bool {
        let link = self.vis.get_mut(&vi).and_then(|of| of.link.take());
        let Some(mut link) = link else {
            return false;
        };
        let mut taken = 0;
        while taken < MESSAGES_MAX {
            let Link { connection, flow } = &mut *link;
            // An error is the end of the connection, which the node reports as well.
            let Ok(Some(message)) = connection.receiver().try_recv_message() else {
                break;
            };
            let arrived = self.arrived(vi, flow, &message);
            message.release();
            taken += 1;
            if let Err(fault) = arrived {
                self.end_link(vi, link, fault);
                return true;
            }
        }
        if let Some(of) = self.vis.get_mut(&vi) {
            of.link = Some(link);
        }
        if taken == MESSAGES_MAX && !self.busy.contains(&vi) {
            self.busy.push(vi);
        }
        if taken > 0 {
            self.recent = Some(vi);
            self.pump(vi);
        }
        taken > 0
    }

    /// Goes on with the connections that may have more. Returns whether there are any still.
    pub(crate) fn drain_busy(&mut self) -> bool {
        for vi in std::mem::take(&mut self.busy) {
            self.drain(vi);
        }
        !self.busy.is_empty()
    }

    /// Ends a connection for a reason that a record gave.
    fn end_link(&mut self, vi: usize, mut link: Box<Link>, fault: Fault) {
        if let Fault::Refuse(status) = fault {
            let number = link.flow.got;
            let Link { connection, flow } = &mut *link;
            // If there is no room for it, the other end learns that the connection broke, and not why.
            let refused = Record::Refused { number, status };
            put(connection.sender(), &mut self.staging, flow, &refused, &[]);
        }
        if fault == Fault::NoReceive {
            self.tell_error(vi, AsyncError::RecvqEmpty);
        }
        self.fault(vi, link);
    }

    /// Handles a record.
    fn arrived(&mut self, vi: usize, flow: &mut Flow, message: &Message<'_>) -> Result<(), Fault> {
        let len_bytes = message.len_bytes();
        let mut first = [0; FIRST_BYTES];
        message.read_at(0, &mut first[..len_bytes.min(FIRST_BYTES)]);
        let (record, posted) = Record::read(&first, len_bytes).ok_or(Fault::Breach)?;
        let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
        let body_bytes = len_bytes - HEAD_BYTES;
        if body_bytes > of.told.transfer_bytes_max as usize {
            return Err(Fault::Breach);
        }
        let heard = flow.credit.hear(posted, DESCRIPTORS_MAX);
        heard.map_err(|_| Fault::Breach)?;
        match record {
            Record::Hello(told) if !flow.established => {
                flow.established = true;
                self.greeted(vi, told);
                Ok(())
            }
            // Everything else comes behind it, and it comes once.
            _ if !flow.established => Err(Fault::Breach),
            Record::Hello(_) => Err(Fault::Breach),
            Record::Credit => Ok(()),
            Record::Send { immediate } => self.arrived_send(vi, flow, immediate, message),
            Record::Write {
                immediate,
                handle,
                address,
            } => {
                let to = Segment {
                    address,
                    handle,
                    len_bytes: body_bytes as u32,
                };
                self.arrived_write(vi, flow, immediate, to, message)
            }
            Record::Read {
                len_bytes,
                handle,
                address,
            } => self.arrived_read(vi, flow, len_bytes, handle, address),
            Record::Data { number } => self.arrived_data(vi, flow, number, message),
            Record::Done { number } => self.arrived_done(vi, flow, number),
            Record::Refused { number, status } => self.refused(vi, flow, number, status),
        }
    }

    /// Whether a VI may use all these segments now.
    fn usable(&self, tag: u64, segments: &[Segment]) -> bool {
        segments.iter().all(|s| {
            let len = u64::from(s.len_bytes);
            let how = Access::Local;
            s.len_bytes == 0 || self.regions.allows(s.handle, s.address, len, tag, how)
        })
    }

    fn arrived_send(
        &mut self,
        vi: usize,
        flow: &mut Flow,
        immediate: Option<u32>,
        message: &Message<'_>,
    ) -> Result<(), Fault> {
        flow.got += 1;
        flow.offered.take().map_err(|_| Fault::NoReceive)?;
        let of = self.vis.get_mut(&vi).ok_or(Fault::Breach)?;
        let (reliable, tag) = (of.is_reliable(), of.tag as u64);
        let (number, posted) = of.receives.work.peek().ok_or(Fault::NoReceive)?;
        let work = posted.work.clone().map_err(|_| Fault::NoReceive)?;
        of.receives.work.begin();
        let body_bytes = message.len_bytes() - HEAD_BYTES;
        let bits = if !self.usable(tag, &work.data) {
            status::PROTECTION
        } else if body_bytes as u64 > work.len_bytes {
            status::LENGTH
        } else {
            // SAFETY: the segments lie in registered regions.
            unsafe {
                scatter(&work.data, body_bytes, |at, bytes| {
                    message.read_at(HEAD_BYTES + at, bytes);
                });
            }
            0
        };
        if bits != 0 {
            self.end(vi, Side::Receive, number, bits, 0, None);
            return match reliable {
                true => Err(Fault::Refuse(status::REMOTE_DESCRIPTOR)),
                false => Ok(()),
            };
        }
        let bits = immediate.map_or(0, |_| status::IMMEDIATE);
        self.end(
            vi,
            Side::Receive,
            number,
            bits,
            body_bytes as u32,
            immediate,
        );
        Ok(())
    }

    fn arrived_write(
        &mut self,
        vi: usize,
        flow: &mut Flow,
        immediate: Option<u32>,
        to: Segment,
        message: &Message<'_>,
    ) -> Result<(), Fault> {
        flow.got += 1;
        if immediate.is_some() {
            flow.offered.take().map_err(|_| Fault::NoReceive)?;
        }
        let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
        let (len, tag) = (u64::from(to.len_bytes), of.tag as u64);
        let how = Access::RemoteWrite;
        let region = self.regions.allows(to.handle, to.address, len, tag, how);
        if !of.told.rdma_write || !region && len > 0 {
            let reliable = of.is_reliable();
            self.tell_error(vi, AsyncError::RdmawProt);
            if reliable {
                return Err(Fault::Refuse(status::RDMA_PROTECTION));
            }
            // The write is dropped, and its receive is there for another message.
            if immediate.is_some() {
                flow.offered.post();
            }
            return Ok(());
        }
        // SAFETY: the segment lies in a registered region.
        unsafe {
            scatter(&[to], to.len_bytes as usize, |at, bytes| {
                message.read_at(HEAD_BYTES + at, bytes);
            });
        }
        if immediate.is_some() {
            let of = self.vis.get_mut(&vi).ok_or(Fault::Breach)?;
            let (number, _) = of.receives.work.peek().ok_or(Fault::NoReceive)?;
            of.receives.work.begin();
            let posted = of.receives.work.get_mut(number).ok_or(Fault::Breach)?;
            posted.operation = status::REMOTE_RDMA_WRITE;
            let (bits, len) = (status::IMMEDIATE, to.len_bytes);
            self.end(vi, Side::Receive, number, bits, len, immediate);
        }
        Ok(())
    }

    fn arrived_read(
        &mut self,
        vi: usize,
        flow: &mut Flow,
        len_bytes: u32,
        handle: u32,
        address: u64,
    ) -> Result<(), Fault> {
        flow.got += 1;
        let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
        let too_many = flow.replies.len() >= DESCRIPTORS_MAX as usize;
        if too_many || !of.is_reliable() || len_bytes > of.told.transfer_bytes_max {
            return Err(Fault::Breach);
        }
        let reply = Reply {
            number: flow.got,
            handle,
            address,
            len_bytes,
        };
        if !self.permits(of, &reply) {
            self.tell_error(vi, AsyncError::RdmarProt);
            return Err(Fault::Refuse(status::RDMA_PROTECTION));
        }
        flow.replies.push_back(reply);
        Ok(())
    }

    fn arrived_data(
        &mut self,
        vi: usize,
        flow: &mut Flow,
        number: u64,
        message: &Message<'_>,
    ) -> Result<(), Fault> {
        let is_it = |waiting: &super::state::Waiting| waiting.number == number && waiting.is_read;
        let at = flow.waiting.iter().position(is_it);
        let waiting = at.and_then(|at| flow.waiting.remove(at));
        let posted = waiting.ok_or(Fault::Breach)?.posted;
        let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
        let work = of
            .sends
            .work
            .get(posted)
            .and_then(|of| of.work.clone().ok());
        let work = work.ok_or(Fault::Breach)?;
        let body_bytes = message.len_bytes() - HEAD_BYTES;
        if body_bytes as u64 != work.len_bytes {
            return Err(Fault::Breach);
        }
        if !self.usable(of.tag as u64, &work.data) {
            self.end(vi, Side::Send, posted, status::PROTECTION, 0, None);
            return Err(Fault::Refused);
        }
        // SAFETY: the segments lie in registered regions.
        unsafe {
            scatter(&work.data, body_bytes, |at, bytes| {
                message.read_at(HEAD_BYTES + at, bytes);
            });
        }
        self.end(vi, Side::Send, posted, 0, body_bytes as u32, None);
        Ok(())
    }

    fn arrived_done(&mut self, vi: usize, flow: &mut Flow, number: u64) -> Result<(), Fault> {
        let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
        if number > flow.sent || of.told.reliability != RELIABLE_RECEPTION {
            return Err(Fault::Breach);
        }
        let done = |waiting: &super::state::Waiting| waiting.number <= number && !waiting.is_read;
        while let Some(at) = flow.waiting.iter().position(done) {
            if let Some(waiting) = flow.waiting.remove(at) {
                let of = self.vis.get(&vi).ok_or(Fault::Breach)?;
                let work = of.sends.work.get(waiting.posted);
                let len = work
                    .and_then(|of| of.work.as_ref().ok())
                    .map(|w| w.len_bytes);
                let len = len.unwrap_or_default() as u32;
                self.end(vi, Side::Send, waiting.posted, 0, len, None);
            }
        }
        Ok(())
    }

    fn refused(&mut self, vi: usize, flow: &mut Flow, number: u64, bits: u32) -> Result<(), Fault> {
        let known = matches!(bits, status::RDMA_PROTECTION | status::REMOTE_DESCRIPTOR);
        if known {
            let found = flow.waiting.iter().find(|w| w.number == number).copied();
            if let Some(waiting) = found {
                self.end(vi, Side::Send, waiting.posted, bits, 0, None);
            }
        }
        Err(Fault::Refused)
    }
}
