//! Which packet a connection sends next, and when it has to be asked again.

use super::{Phase, QUESTIONS_MAX, Tcp, copy};
use crate::error::Error;
use crate::packet::{LeftOut, NewSegment, Out, Outgoing, stamp_syn, write_tcp};
use crate::send::Send;
use crate::stamps;
use barewire_units::{Duration, Instant};
use smoltcp::wire::TcpControl;

/// How long after the first question without an answer the next one is asked.
const QUESTIONS_EVERY: Duration = Duration::from_s(1);

/// A shorter payload is never left out of a packet: to copy it takes less time than to look where it lies.
const LEFT_OUT_BYTES_MIN: u64 = 4096;

impl Tcp {
    pub(super) fn give_packet(&mut self, out: &mut Out<'_>, now: Instant) -> Option<Outgoing> {
        if let Some(answer) = self.answers.pop_front() {
            return copy(&answer, out.packet);
        }
        match self.phase {
            Phase::Opening { .. } => self.opening_packet(out, now),
            Phase::Open => self.packet(out, now),
            Phase::TimeWait { until } => {
                if now >= until {
                    self.finish(None);
                    return None;
                }
                self.acknowledgement(out, now)
            }
            Phase::Closed => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Opening { send_at, .. } => {
                Some(send_at.min(self.last_heard.saturating_add(self.config.timeout)))
            }
            Phase::Open => [
                self.sender.as_ref().and_then(super::Sender::next_deadline),
                self.receiver.next_deadline(),
                self.question_at(),
            ]
            .into_iter()
            .flatten()
            .min(),
            Phase::TimeWait { until } => Some(
                self.receiver
                    .next_deadline()
                    .map_or(until, |due| due.min(until)),
            ),
            Phase::Closed => None,
        }
    }

    /// Sends the SYN, at first and each time its wait has passed.
    fn opening_packet(&mut self, out: &mut Out<'_>, now: Instant) -> Option<Outgoing> {
        let timeout = self.config.timeout;
        let now_says = stamps::clock(self.clock_first, now);
        let stamp = (now_says, self.peer.stamp.unwrap_or(0));
        let Phase::Opening {
            packet,
            send_at,
            wait,
            first_sent,
            was_resent,
            is_accepting,
        } = &mut self.phase
        else {
            return None;
        };
        if first_sent.is_some_and(|sent| now >= sent.saturating_add(timeout)) {
            let error = self.silence();
            self.finish(Some(error));
            return None;
        }
        if now < *send_at {
            return None;
        }
        *was_resent = first_sent.is_some();
        first_sent.get_or_insert(now);
        *send_at = now.saturating_add(*wait);
        *wait = wait.saturating_add(*wait);
        if self.config.timestamps && (!*is_accepting || self.peer.stamp.is_some()) {
            return copy(&stamp_syn(packet, stamp)?, out.packet);
        }
        copy(packet, out.packet)
    }

    fn packet(&mut self, out: &mut Out<'_>, now: Instant) -> Option<Outgoing> {
        if self.resets {
            self.resets = false;
            let reset = self.write(
                self.sender.as_ref()?.next(),
                None,
                TcpControl::Rst,
                out,
                now,
            );
            self.finish(Some(Error::Aborted));
            return reset;
        }
        // Blocks need a segment of their own.
        if self.receiver.has_blocks() {
            if let Some(packet) = self.acknowledgement(out, now) {
                return Some(packet);
            }
        }
        match self.sender.as_mut()?.poll(now) {
            Err(_) => {
                self.error = Some(self.silence());
                self.resets = true;
                return self.packet(out, now);
            }
            Ok(Some(Send::Data {
                start,
                end,
                is_last,
                push,
            })) => {
                let control = match (is_last, push) {
                    (true, _) => TcpControl::Fin,
                    (false, true) => TcpControl::Psh,
                    (false, false) => TcpControl::None,
                };
                return self.write(start, Some(end), control, out, now);
            }
            Ok(Some(Send::Question)) => return self.question(out, now),
            Ok(None) => {}
        }
        if let Some(packet) = self.acknowledgement(out, now) {
            return Some(packet);
        }
        if self.question_at().is_some_and(|at| now >= at) {
            self.questions += 1;
            if self.questions > QUESTIONS_MAX {
                self.error = Some(self.silence());
                self.resets = true;
                return self.packet(out, now);
            }
            return self.question(out, now);
        }
        None
    }

    /// When to ask whether the other end still lives.
    fn question_at(&self) -> Option<Instant> {
        let idle = self.config.keep_alive?;
        let asked = QUESTIONS_EVERY.checked_mul(u64::from(self.questions))?;
        Some(self.last_heard.saturating_add(idle).saturating_add(asked))
    }

    fn acknowledgement(&mut self, out: &mut Out<'_>, now: Instant) -> Option<Outgoing> {
        let unread = self.room.len();
        let capacity = self.capacity();
        if !self.receiver.is_due(unread, capacity, now) {
            return None;
        }
        let next = self.sender.as_ref()?.next();
        self.write(next, None, TcpControl::None, out, now)
    }

    /// A segment that the other end answers, since it lies before all that it expects.
    fn question(&mut self, out: &mut Out<'_>, now: Instant) -> Option<Outgoing> {
        let una = self.sender.as_ref()?.una();
        self.write(una.wrapping_sub(1), None, TcpControl::None, out, now)
    }

    fn write(
        &mut self,
        start: u64,
        end: Option<u64>,
        control: TcpControl,
        out: &mut Out<'_>,
        now: Instant,
    ) -> Option<Outgoing> {
        let unread = self.room.len();
        let (ack, window, sack) = self.receiver.tell(unread, self.capacity());
        let sender = self.sender.as_ref()?;
        let end = end.unwrap_or(start);
        let mss = sender.mss();
        let is_cut = end - start > mss;
        let is_left_out =
            out.may_leave_out && self.config.offload.checksum && end - start >= LEFT_OUT_BYTES_MIN;
        // A packet with bytes has as many as fit beside a header without blocks.
        let has_blocks = end == start;
        let new = NewSegment {
            from: self.config.local,
            to: self.config.remote,
            seq: self.sequence(start),
            ack: Some(ack),
            window,
            control,
            sack: if has_blocks { sack } else { [None; 3] },
            timestamp: self.stamps.map(|stamps| stamps.option(now)),
            payload: sender.bytes(start, end),
            segment_bytes: if is_cut {
                u16::try_from(mss).ok()
            } else {
                None
            },
            offload_checksum: self.config.offload.checksum,
            left_out: is_left_out.then_some(LeftOut { start, end }),
        };
        write_tcp(&new, out.packet)
    }
}
