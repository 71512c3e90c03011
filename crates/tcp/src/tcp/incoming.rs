//! What a connection does with a packet: RFC 9293, section 3.10.7, with the checks of RFC 5961.

use super::{ANSWERS_MAX, MSS_MIN, MSS_UNSAID, MSS_UNSAID_V6, Peer, Phase, Tcp};
use crate::error::Error;
use crate::packet::{
    Checked, NewSegment, Segment, hide_sack_permitted, parse_tcp, remove_syn, replace_ack, strip,
    write_tcp,
};
use crate::receive::{Receiver, Room};
use crate::send::{Ack, Agreed, Sender};
use crate::stamps::Stamps;
use alloc::vec;
use barewire_units::{Duration, Instant};
use smoltcp::socket::tcp;
use smoltcp::wire::TcpControl;

/// Where a segment lies, seen from the first byte that is missing.
struct Place {
    /// How far behind it the segment begins; negative: before it.
    distance: i64,
    /// How many bytes from there on fit.
    window: i64,
}

impl Place {
    /// Whether RFC 9293 accepts a segment of `len` sequence numbers.
    fn is_acceptable(&self, len: i64) -> bool {
        let is_inside = |at: i64| 0 <= at && at < self.window;
        match (len, self.window) {
            // Without room only the acknowledgement is taken.
            (_, 0) => self.distance == 0,
            (0, _) => is_inside(self.distance),
            _ => is_inside(self.distance) || is_inside(self.distance + len - 1),
        }
    }
}

impl Tcp {
    pub(super) fn take_packet(&mut self, packet: &mut [u8], checked: Checked, now: Instant) {
        let Some(segment) = parse_tcp(packet, checked) else {
            if !self.take_icmp(packet, checked, now) {
                self.refused_packets += 1;
            }
            return;
        };
        if segment.from != self.config.remote || segment.to != self.config.local {
            self.refused_packets += 1;
            return;
        }
        self.last_heard = now;
        self.is_unreachable = false;
        self.questions = 0;
        match self.phase {
            Phase::Opening {
                is_accepting: false,
                ..
            } => self.answer_to_syn(packet, &segment, now),
            Phase::Opening { .. } => self.end_of_handshake(packet, &segment, now),
            Phase::Open => self.segment(packet, &segment, now),
            Phase::TimeWait { .. } => self.late(&segment, now),
            Phase::Closed => self.refuse(&segment),
        }
    }

    /// A packet came though this end has sent a SYN and waits for the other's.
    fn answer_to_syn(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
        let is_syn = segment.control == TcpControl::Syn;
        hide_sack_permitted(packet, segment);
        self.machine.handle_packet(packet, now);
        match self.machine.state() {
            tcp::State::Established if is_syn => {
                self.peer = Peer::of(segment);
                self.open(segment, now);
                self.receiver.acknowledge(now);
            }
            // Both ends have sent a SYN at the same time.
            tcp::State::SynReceived if is_syn => {
                self.peer = Peer::of(segment);
                // There is a reply: smoltcp acknowledges the SYN at once.
                if self.begin(true, now).is_err() {
                    self.finish(Some(Error::Reset));
                }
            }
            tcp::State::Closed => self.finish(Some(Error::Refused)),
            _ => {}
        }
        self.take_answers();
    }

    /// A packet came though this end has answered a SYN and waits for the acknowledgement.
    fn end_of_handshake(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
        let is_syn = segment.control == TcpControl::Syn;
        if is_syn && segment.ack.is_none() {
            if let Phase::Opening { send_at, .. } = &mut self.phase {
                *send_at = now;
            }
            return;
        }
        let after_syn = self.peer.first.wrapping_add(1);
        if segment.control == TcpControl::Rst && segment.seq != after_syn {
            // RFC 5961, section 3.2. The SYN is answered again anyway.
            return;
        }
        if is_syn {
            // Both ends have sent a SYN at the same time, and this answers that of this end.
            if segment.seq != self.peer.first {
                return;
            }
            remove_syn(packet, segment.tcp_at);
            self.machine.handle_packet(packet, now);
        } else if segment.control == TcpControl::Rst {
            self.machine.handle_packet(packet, now);
        } else {
            // Its bytes, and an end behind them, are looked at once the connection is open.
            let mut header = packet[..segment.payload.start].to_vec();
            let len = strip(&mut header, segment, segment.seq, false);
            self.machine.handle_packet(&header[..len], now);
        }
        match self.machine.state() {
            tcp::State::Established => {
                self.open(segment, now);
                if is_syn {
                    self.receiver.acknowledge(now);
                } else if segment.sequence_len() > 0 {
                    self.segment(packet, segment, now);
                }
            }
            tcp::State::Listen | tcp::State::Closed => self.finish(Some(Error::Reset)),
            _ => {}
        }
        self.take_answers();
    }

    /// Whether both ends have timestamps is known now.
    fn agree_on_stamps(&mut self, segment: &Segment, now: Instant) {
        let first = self.clock_first;
        let agreed = self.peer.stamp.filter(|_| self.config.timestamps);
        self.stamps = agreed.map(|recent| Stamps::new(first, recent, now));
        if let Some((stamps, (value, _))) = self.stamps.as_mut().zip(segment.timestamp) {
            stamps.take(value, now);
        }
    }

    /// The handshake is complete.
    fn open(&mut self, segment: &Segment, now: Instant) {
        let own_mss = self.config.mss();
        let unsaid = if self.config.local.is_ipv6() {
            MSS_UNSAID_V6
        } else {
            MSS_UNSAID
        };
        let said = self.peer.mss.map_or(unsaid, u32::from);
        self.agree_on_stamps(segment, now);
        let options = self.option_bytes();
        let mss = said.min(own_mss).max(MSS_MIN) - options;
        let (own_shift, peer_shift) = match (self.own.window_scale, self.peer.window_scale) {
            (Some(own), Some(peer)) => (own, peer),
            _ => (0, 0),
        };
        let window = if segment.control == TcpControl::Syn {
            u64::from(segment.window)
        } else {
            u64::from(segment.window) << peer_shift
        };
        if peer_shift == 0 {
            self.peer.window_scale = None;
        }
        let headers = if self.config.local.is_ipv6() { 60 } else { 40 };
        let payload_max = match self.config.offload.segmentation_bytes_max {
            Some(packet_max) => packet_max.saturating_sub(headers + options as usize),
            None => usize::try_from(mss).unwrap_or(usize::MAX),
        };
        let mut sender = Sender::new(
            self.config.send_buffer_bytes,
            Agreed {
                mss,
                has_sack: self.peer.has_sack,
                window,
                payload_max,
                nagle: self.config.nagle,
                timeout: self.config.timeout,
            },
        );
        if let Phase::Opening {
            first_sent: Some(sent),
            was_resent,
            ..
        } = self.phase
        {
            if !was_resent {
                sender.first_sample(now.saturating_duration_since(sent), now);
            } else if let Some(echo) = self.echo(segment, now) {
                sender.first_coarse_sample(echo);
            }
        }
        self.sender = Some(sender);
        let received_mss = u64::from(own_mss - options);
        self.receiver = Receiver::new(
            self.peer.first,
            own_shift,
            received_mss,
            self.peer.has_sack,
            self.capacity(),
        );
        self.room = Room::new(self.config.receive_buffer_bytes);
        self.phase = Phase::Open;
        if self.wants_end {
            self.end_stream();
        }
    }

    /// A packet of an open connection.
    fn segment(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
        let unread = self.room.len();
        let received = self.receiver.until(unread);
        let place = Place {
            distance: self.receiver.distance(segment.seq, received),
            window: i64::try_from(self.capacity().saturating_sub(unread as u64))
                .unwrap_or(i64::MAX),
        };
        if !self.is_acceptable(segment, &place, received, now) {
            return;
        }
        if let Some((stamps, (value, _))) = self.stamps.as_mut().zip(segment.timestamp) {
            if self
                .receiver
                .is_next(received.saturating_add_signed(place.distance))
            {
                stamps.take(value, now);
            }
        }
        if !self.take_ack(segment, received, &place, now) {
            return;
        }
        let bytes = i64::try_from(segment.payload.len()).unwrap_or(i64::MAX);
        let is_beyond = place.distance + bytes > place.window;
        let mut carries = !segment.payload.is_empty() || segment.control == TcpControl::Fin;
        // Behind the end of the stream there is nothing.
        carries &= !self.receiver.has_ended;
        if carries
            && (place.window == 0 && bytes > 0 || is_beyond && segment.control == TcpControl::Fin)
        {
            // It comes again once there is room.
            self.receiver.acknowledge(now);
            carries = false;
        }
        if carries && self.wants_no_bytes && bytes > 0 {
            self.resets = true;
            self.error = self.error.or(Some(Error::Aborted));
            return;
        }
        if place.distance > 0 && carries && bytes == 0 {
            // The end of the stream, before bytes that are missing: it has to come again.
            self.receiver.acknowledge(now);
        }
        if carries && bytes > 0 {
            self.take_bytes(&packet[segment.payload.clone()], received, &place, now);
        }
        // An end that came before bytes that are missing has to come again.
        let is_end = carries
            && segment.control == TcpControl::Fin
            && received.checked_add_signed(place.distance + bytes) == Some(self.received());
        let end_acknowledged = self.is_end_acknowledged();
        if is_end || end_acknowledged {
            self.tell_machine(packet, segment, is_end, now);
        }
    }

    /// Puts the bytes of a segment where they belong.
    fn take_bytes(&mut self, payload: &[u8], received: u64, place: &Place, now: Instant) {
        let unread = self.room.len();
        let had_gap = self.receiver.has_gap();
        if unread == 0 && !had_gap {
            self.room.restart();
        }
        // What has come before is cut off at the front, what has no room at the back.
        let known = usize::try_from(-place.distance).unwrap_or(0);
        let ahead = usize::try_from(place.distance).unwrap_or(0);
        let room = usize::try_from(place.window).unwrap_or(0);
        let new = payload.get(known..).unwrap_or_default();
        let new = &new[..new.len().min(room.saturating_sub(ahead))];
        let from = received + ahead as u64;
        let until = from + new.len() as u64;
        if ahead > 0 {
            self.receiver.acknowledge(now);
            if !new.is_empty() && self.receiver.note_stretch(from, until) {
                self.room.put(unread + ahead, new);
            }
            return;
        }
        self.room.put(unread, new);
        let until = self.receiver.joined(until);
        // There is room for all of it: no stretch is beyond the window.
        self.room.extend((until - received) as usize);
        self.receiver.forget_stretches(until);
        if had_gap {
            self.receiver.acknowledge(now);
        } else {
            self.receiver.on_bytes(until, now);
        }
    }

    /// Tells smoltcp that a direction has ended, as if nothing had been sent either way before.
    fn tell_machine(&mut self, packet: &mut [u8], segment: &Segment, is_end: bool, now: Instant) {
        let after_syn = self.peer.first.wrapping_add(1);
        let seq = after_syn.wrapping_add(u32::from(self.receiver.has_ended));
        let end_acknowledged = self.is_end_acknowledged();
        let ack = self.own.first.wrapping_add(1 + u32::from(end_acknowledged));
        replace_ack(packet, segment.tcp_at, ack);
        let len = strip(packet, segment, seq, is_end);
        self.machine.handle_silently(&packet[..len], now);
        self.after_machine(now);
    }

    /// Checks sequence number and flags (RFC 9293, first to fourth check).
    fn is_acceptable(
        &mut self,
        segment: &Segment,
        place: &Place,
        received: u64,
        now: Instant,
    ) -> bool {
        let len = i64::from(segment.sequence_len());
        let is_reset = segment.control == TcpControl::Rst;
        if segment.control == TcpControl::Syn {
            self.receiver.challenge(now);
            return false;
        }
        // Without a timestamp it counts, as with Linux: hosts on the way may have taken it away.
        let is_old = self
            .stamps
            .zip(segment.timestamp)
            .is_some_and(|(stamps, (value, _))| stamps.is_old(value, now) && !is_reset);
        if !place.is_acceptable(len) || is_old {
            if is_reset {
                return false;
            }
            if len == 0 {
                self.receiver.challenge(now);
            } else {
                self.note_duplicate(segment, place, received);
                self.receiver.acknowledge(now);
            }
            return false;
        }
        if is_reset {
            if place.distance == 0 {
                self.finish(Some(Error::Reset));
            } else {
                self.receiver.challenge(now);
            }
            return false;
        }
        segment.ack.is_some()
    }

    /// How long ago that was sent which a segment answers, if it says so.
    fn echo(&self, segment: &Segment, now: Instant) -> Option<Duration> {
        let (stamps, (_, echo)) = self.stamps.zip(segment.timestamp)?;
        segment.ack.and_then(|_| stamps.since(echo, now))
    }

    fn note_duplicate(&mut self, segment: &Segment, place: &Place, received: u64) {
        let bytes = segment.payload.len() as u64;
        if let Some(from) = received.checked_add_signed(place.distance) {
            if bytes > 0 && from + bytes <= received {
                self.receiver.note_duplicate(from, from + bytes);
            }
        }
    }

    /// Hands the acknowledgement to the sending side; says whether the segment is to be looked at
    /// further.
    fn take_ack(&mut self, segment: &Segment, received: u64, place: &Place, now: Instant) -> bool {
        let echo = self.echo(segment, now);
        let Some(sender) = &mut self.sender else {
            return false;
        };
        let Some(ack) = segment.ack else {
            return false;
        };
        let una = sender.una();
        let una_sequence = self.own.first.wrapping_add(1).wrapping_add(una as u32);
        let offset = |sequence: u32| {
            let distance = i64::from(sequence.wrapping_sub(una_sequence) as i32);
            una.checked_add_signed(distance)
        };
        let until = offset(ack);
        let is_too_old = until.is_none_or(|until| until + sender.window_max().max(1) < una);
        if is_too_old || until.is_some_and(|until| until > sender.next()) {
            self.receiver.challenge(now);
            return false;
        }
        let until = until.unwrap_or(una);
        if until < una {
            // Overtaken by a later one.
            return true;
        }
        let mut sack = [(0, 0); 3];
        let mut blocks = 0;
        for &(from, end) in segment.sack.iter().flatten() {
            if let (Some(from), Some(end)) = (offset(from), offset(end)) {
                sack[blocks] = (from, end);
                blocks += 1;
            }
        }
        let shift = self.peer.window_scale.unwrap_or(0);
        sender.on_ack(
            &Ack {
                until,
                window: u64::from(segment.window) << shift,
                sack: &sack[..blocks],
                is_pure: segment.sequence_len() == 0,
                at: received.saturating_add_signed(place.distance),
                echo,
            },
            now,
        );
        true
    }

    /// Sees what smoltcp has made of a segment.
    fn after_machine(&mut self, now: Instant) {
        let state = self.machine.state();
        let was_ended = self.receiver.has_ended;
        let now_ended = matches!(
            state,
            tcp::State::CloseWait
                | tcp::State::LastAck
                | tcp::State::Closing
                | tcp::State::TimeWait
        );
        self.receiver.has_ended |= now_ended;
        if self.receiver.has_ended != was_ended {
            self.receiver.acknowledge(now);
        }
        match state {
            tcp::State::TimeWait => {
                self.phase = Phase::TimeWait {
                    until: now.saturating_add(self.config.time_wait),
                };
            }
            tcp::State::Closed => self.finish(None),
            _ => {}
        }
    }

    /// Takes the resets with which smoltcp answers before the connection is open.
    fn take_answers(&mut self) {
        while let Some(reply) = self.machine.next_reply() {
            let is_reset = parse_tcp(&reply, Checked::Yes)
                .is_some_and(|segment| segment.control == TcpControl::Rst);
            if is_reset && self.answers.len() < ANSWERS_MAX {
                self.answers.push_back(reply);
            }
        }
    }

    /// A packet came after both ends had ended their streams: the last acknowledgement was lost.
    fn late(&mut self, segment: &Segment, now: Instant) {
        if segment.control == TcpControl::Rst {
            return;
        }
        if segment.sequence_len() > 0 {
            self.receiver.acknowledge(now);
        }
        if segment.control == TcpControl::Fin {
            self.phase = Phase::TimeWait {
                until: now.saturating_add(self.config.time_wait),
            };
        }
    }

    /// A packet came for a connection that is no more.
    fn refuse(&mut self, segment: &Segment) {
        if segment.control == TcpControl::Rst || self.answers.len() >= ANSWERS_MAX {
            return;
        }
        let after = segment.seq.wrapping_add(segment.sequence_len());
        let reset = NewSegment {
            from: self.config.local,
            to: self.config.remote,
            seq: segment.ack.unwrap_or(0),
            ack: segment.ack.is_none().then_some(after),
            window: 0,
            control: TcpControl::Rst,
            sack: [None; 3],
            timestamp: None,
            payload: (&[], &[]),
            segment_bytes: None,
            offload_checksum: false,
            left_out: None,
        };
        let mut packet = vec![0; 60];
        if let Some(written) = write_tcp(&reset, &mut packet) {
            packet.truncate(written.bytes);
            self.answers.push_back(packet);
        }
    }
}
