//! Descriptors that are posted: each is processed, held or flushed, by the state of its VI.

use barewire_proto::via::descriptor::{Side, status};
use barewire_proto::via::state::Posting;

use super::state::{Inner, Link, Posted};
use crate::raw::Code;

impl Inner {
    /// Posts a descriptor that was read.
    pub(crate) fn post(&mut self, vi: usize, side: Side, posted: Posted) -> Result<(), Code> {
        let of = self.vis.get_mut(&vi).ok_or(Code::InvalidParameter)?;
        let wrong = posted.work.as_ref().err().copied();
        let (state, reliable) = (of.state, of.is_reliable());
        let number = of.queue(side).work.post(posted);
        let number = number.ok_or(Code::ErrorResource)?;
        let posting = match side {
            Side::Send => state.posted_send(),
            Side::Receive => state.posted_receive(),
        };
        match (posting, side, wrong) {
            (Posting::Flush, ..) => self.end(vi, side, number, status::FLUSHED, 0, None),
            // A send fails when its turn comes.
            (Posting::Process, Side::Send, _) => self.pump(vi),
            (_, _, Some(bits)) => {
                self.end(vi, side, number, bits, 0, None);
                if reliable && posting == Posting::Process {
                    self.break_connection(vi);
                }
            }
            (Posting::Process, Side::Receive, None) => {
                if let Some(link) = &mut of_link(self, vi) {
                    link.flow.offered.post();
                }
                self.pump(vi);
            }
            (Posting::Hold, ..) => {
                // A connection may be on its way.
                if let Some(link) = &mut of_link(self, vi) {
                    link.flow.offered.post();
                }
            }
        }
        Ok(())
    }
}

fn of_link(inner: &mut Inner, vi: usize) -> Option<&mut Link> {
    inner.vis.get_mut(&vi)?.link.as_deref_mut()
}
