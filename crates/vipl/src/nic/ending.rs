//! Descriptors that end, and who hears of it: the work queue, the completion queue, functions of the program.

use barewire_proto::via::descriptor::{CONTROL_BYTES, Side, status};
use barewire_proto::via::protection::Access;

use super::state::{Due, Inner, Posted};
use crate::memory::Descriptor;
use crate::raw::AsyncError;

impl Inner {
    /// A descriptor has ended, with these bits besides those of its operation. Writes what became of it, and tells of
    /// all that are done now.
    pub(super) fn end(
        &mut self,
        vi: usize,
        side: Side,
        number: u64,
        bits: u32,
        len_bytes: u32,
        immediate: Option<u32>,
    ) {
        let Some(of) = self.vis.get_mut(&vi) else {
            return;
        };
        let tag = of.tag as u64;
        let work = &mut of.queue(side).work;
        let Some(posted) = work.get_mut(number) else {
            return;
        };
        posted.status = posted.operation | bits;
        let address = posted.descriptor.0 as u64;
        let allowed = self.regions.allows(
            posted.handle,
            address,
            CONTROL_BYTES as u64,
            tag,
            Access::Local,
        );
        if allowed {
            // SAFETY: the descriptor lies in a region that is registered.
            unsafe {
                posted
                    .descriptor
                    .finish(len_bytes, immediate, posted.status)
            };
        }
        let done = work.end(number);
        self.tell(vi, side, done);
    }

    /// Tells of descriptors that are done, the next so many of a work queue.
    fn tell(&mut self, vi: usize, side: Side, done: usize) {
        self.changed |= done > 0;
        let Some(of) = self.vis.get_mut(&vi) else {
            return;
        };
        if let Some(queue) = of.queue(side).completions {
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.entries.extend(std::iter::repeat_n((vi, side), done));
            }
            return self.notify_of_entries(queue);
        }
        self.notify_of_descriptors(vi, side);
    }

    /// Has functions called that wait for a descriptor of this queue.
    pub(crate) fn notify_of_descriptors(&mut self, vi: usize, side: Side) {
        let Some(of) = self.vis.get_mut(&vi) else {
            return;
        };
        let queue = of.queue(side);
        while !queue.notify.is_empty() {
            let Some(posted) = queue.work.take() else {
                return;
            };
            if let Some((context, handler)) = queue.notify.pop_front() {
                let due = Due::Descriptor(handler, context, vi, posted.descriptor);
                self.due.push_back(due);
                self.changed = true;
            }
        }
    }

    /// Has functions called that wait for an entry of this completion queue.
    pub(crate) fn notify_of_entries(&mut self, queue: usize) {
        let Some(of) = self.queues.get_mut(&queue) else {
            return;
        };
        while !of.notify.is_empty() {
            let Some((vi, side)) = of.entries.pop_front() else {
                return;
            };
            if let Some((context, handler)) = of.notify.pop_front() {
                self.due.push_back(Due::Entry(handler, context, vi, side));
                self.changed = true;
            }
        }
    }

    /// Takes the first descriptor of a work queue out, if it is done: its address, and whether it failed.
    pub(crate) fn take_done(&mut self, vi: usize, side: Side) -> Option<(Descriptor, bool)> {
        let posted: Posted = self.vis.get_mut(&vi)?.queue(side).work.take()?;
        Some((posted.descriptor, posted.status & status::ERRORS != 0))
    }

    /// Ends all descriptors of a VI that are not done. If the connection broke, those that were on their way failed.
    pub(super) fn flush(&mut self, vi: usize, broke: bool) {
        let mut first = true;
        while let Some((number, begun)) = self.first_open(vi, Side::Send) {
            let bits = match broke && (begun || first) {
                true => status::TRANSPORT,
                false => status::FLUSHED,
            };
            first = false;
            self.end(vi, Side::Send, number, bits, 0, None);
        }
        while let Some((number, _)) = self.first_open(vi, Side::Receive) {
            self.end(vi, Side::Receive, number, status::FLUSHED, 0, None);
        }
    }

    fn first_open(&mut self, vi: usize, side: Side) -> Option<(u64, bool)> {
        self.vis.get_mut(&vi)?.queue(side).work.first_open()
    }

    /// Tells the program of an error that belongs to no call.
    pub(super) fn tell_error(&mut self, vi: usize, error: AsyncError) {
        self.changed = true;
        if let Some((context, handler)) = self.error_handler {
            self.due.push_back(Due::Error(handler, context, vi, error));
        }
    }
}
