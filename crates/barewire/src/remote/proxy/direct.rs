//! A proxy's short ways for long messages: from where the program has one to the carrier, and from there to where the
//! program wants one.
//!
//! *Out.* The ordinary way copies a message twice, into the ring and into the outbox ([`super::to_host`]). Here it takes its
//! place in the ring, since credit is counted by that, but its bytes are not stored there. What the carrier does not take
//! at once is kept in the outbox. So the program may do with its memory what it likes as soon as the call returns.
//!
//! *In.* The ordinary way copies it out of the inbox into the ring, and from there to the program. Here a read from the
//! carrier leaves out the inbox, but for as many bytes as the headers of a long frame take: what follows them goes into the
//! buffer of the thread that waits. If it was not such a frame after all, it is put into the inbox, where it belongs. After two
//! of those the next reads are ordinary ones.
//!
//! ```text
//! a read:         | record 24 | header 8 | 56 unused | payload ...        | next records ... |
//! goes into:      | inbox                            | program's buffer   | inbox            |
//! ```

use barewire_carrier::Arrival;
use barewire_fabric::frame::{HEADER_BYTES, Kind as FrameKind, LINE_BYTES, unpack};
use barewire_fabric::memory::Outgoing;
use barewire_fabric::ring::Published;

use crate::links::driven::{DIRECT_BYTES_MIN, DirectBuffer, StoredFrame};
use crate::remote::connections::Receiving;
use crate::remote::inbox::INBOX_BYTES;
use crate::remote::outbox::OUTBOX_BYTES;
use crate::remote::proxy::inner::{Inner, Stage, Stop};
use crate::remote::record::{HEADER, Head, Kind};

/// The longest message that goes this way: it has room in an empty outbox, with all headers, credit, and what is around it
/// in the ring.
const DIRECT_BYTES_MAX: usize = OUTBOX_BYTES - 4096;

/// What comes before the payload of a long frame.
const BEFORE_BYTES: usize = HEADER + LINE_BYTES;
/// The most that a read stores elsewhere: the inbox has room for it.
const ELSEWHERE_BYTES_MAX: usize = INBOX_BYTES / 2;
/// Reads for the rest of a frame, before that goes the ordinary way: nobody is kept here by crumbs.
const READS_FOR_REST_MAX: u32 = 100;

/// A frame whose payload begins on a line of its own, and can go anywhere.
struct LongFrame {
    /// Of the connection.
    index: usize,
    head: Head,
    header: [u8; HEADER_BYTES],
    payload_bytes: usize,
}

/// The way out.
impl Inner {
    /// See [`Driven::send_direct`](crate::links::driven::Driven::send_direct).
    pub fn send_direct(
        &mut self,
        source: u32,
        message: &[u8],
        announce: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.take_bits();
        let Some(of) = self.with_clear_way(source as usize - 1) else {
            return false;
        };
        if message.len() > DIRECT_BYTES_MAX || !announce() {
            return false;
        }
        if let Err(stop) = self.send_announced(of, message) {
            self.stop(stop);
        }
        self.before_sleep();
        true
    }

    /// The connection, by our index and by the other host's number, if nothing goes before a message on it but its credit.
    fn with_clear_way(&mut self, index: usize) -> Option<(usize, u32)> {
        let is_anything_before = self.stage != Stage::Up
            || self.sending.is_some()
            || self.held.is_some()
            || self.control_pending
            || self.frame_after.is_some()
            || !self.outbox.is_empty()
            || self.listed.iter().any(|other| *other != index)
            || self.has_accesses();
        if is_anything_before {
            return None;
        }
        let at_host = self.connections.get(index)?.at_host?;
        let is_first = matches!(self.next_frame(index), Ok(None));
        is_first.then_some((index, at_host))
    }

    /// Sends the message that was published last on a connection; nothing else of it waits.
    fn send_announced(&mut self, of: (usize, u32), message: &[u8]) -> Result<(), Stop> {
        let mut parts = Vec::with_capacity(2);
        let mut left = message;
        while let Some(frame) = self.next_frame(of.0)? {
            let (_, payload_bytes) = frame.payload();
            let (part, rest) = left.split_at(payload_bytes);
            left = rest;
            self.push_head_of_frame(of, &frame);
            self.push_start_of_frame(of.0, &frame);
            parts.push((self.outbox.len_bytes(), part));
        }
        // Behind the message: it stands at the beginning of what is read, as the other host expects it. There is room.
        self.send_credit(of)?;
        if let Some(carrier) = &mut self.carrier {
            self.outbox.flush_with(&parts, carrier.as_mut())?;
        }
        // What else there is to say of the connection.
        self.mirror_listed()?;
        self.flush()
    }

    /// What comes before the payload of a frame goes from the ring into the outbox. The whole frame counts as sent.
    fn push_start_of_frame(&mut self, index: usize, frame: &Published) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        if let Some(stand_in) = &connection.stand_in {
            let (payload_at, _) = frame.payload();
            let ring = stand_in.mirror.incoming();
            self.outbox
                .push_window(ring, frame.offset, payload_at - frame.offset);
        }
        connection.sent(frame);
    }
}

/// The way in.
impl Inner {
    /// As [`Inner::fill_inbox`]. What comes is stored in the buffer if it is the payload of a frame for that.
    pub fn fill_inbox_around(&mut self, buffer: &mut DirectBuffer<'_>) -> Result<Arrival, Stop> {
        let is_between_records = self.inbox.bytes().is_empty() && self.receiving.is_none();
        if !is_between_records || buffer.stored.is_some() {
            return self.fill_inbox();
        }
        if self.is_for_next_frame(buffer) {
            return self.fill_direct(buffer);
        }
        let arrival = self.fill_inbox()?;
        self.long_from = self.long_frame_at_begin().map(|frame| frame.index);
        self.has_missed = false;
        Ok(arrival)
    }

    /// Whether a long frame may come next on the connection of a buffer, and goes there.
    fn is_for_next_frame(&mut self, buffer: &DirectBuffer<'_>) -> bool {
        let index = buffer.source as usize - 1;
        if self.long_from != Some(index) || buffer.memory.len() < DIRECT_BYTES_MIN {
            return false;
        }
        let region = self
            .connections
            .get(index)
            .and_then(|it| it.node_region.as_ref());
        // Otherwise something was stored since the ring was found empty.
        region.is_some_and(|region| region.stored_lines == buffer.tail_lines)
    }

    fn fill_direct(&mut self, buffer: &mut DirectBuffer<'_>) -> Result<Arrival, Stop> {
        let Some(carrier) = &mut self.carrier else {
            return Ok(Arrival::Nothing);
        };
        let most_bytes = buffer.memory.len().min(ELSEWHERE_BYTES_MAX);
        let memory = &mut buffer.memory[..most_bytes];
        let (arrival, found_bytes) =
            self.inbox
                .fill_around(BEFORE_BYTES, memory, carrier.as_mut())?;
        if arrival == Arrival::Nothing {
            return Ok(arrival);
        }
        let expected = self.long_from;
        let frame = self.long_frame_at_begin();
        let frame = frame.filter(|it| Some(it.index) == expected && it.payload_bytes <= most_bytes);
        let Some(frame) = frame else {
            // It is something else. Once that may be what goes before a long frame, such as the end of a ring or credit.
            if std::mem::replace(&mut self.has_missed, true) {
                self.long_from = None;
            }
            self.inbox.insert(BEFORE_BYTES, &memory[..found_bytes]);
            return Ok(arrival);
        };
        self.has_missed = false;
        let (payload, behind) = memory.split_at_mut(frame.payload_bytes);
        let more_bytes = found_bytes.saturating_sub(payload.len());
        self.inbox.insert(BEFORE_BYTES, &behind[..more_bytes]);
        self.inbox.consume(BEFORE_BYTES);
        let done_bytes = self.read_rest(payload, found_bytes.min(payload.len()));
        buffer.stored = self.take_direct(&frame, &payload[..done_bytes])?;
        Ok(arrival)
    }

    /// Reads the rest of a payload, unless it is slow to come; returns how much of it is there.
    fn read_rest(&mut self, payload: &mut [u8], found_bytes: usize) -> usize {
        let mut done_bytes = found_bytes;
        for _ in 0..READS_FOR_REST_MAX {
            let Some(carrier) = self.carrier.as_mut().filter(|_| done_bytes < payload.len()) else {
                break;
            };
            match carrier.read(&mut payload[done_bytes..]) {
                Ok(Arrival::Bytes(count)) => done_bytes += count,
                Ok(Arrival::Nothing) => {}
                // The next read tells it again.
                Ok(Arrival::End) | Err(_) => break,
            }
        }
        done_bytes
    }

    /// The long frame with which the inbox begins, if it does.
    fn long_frame_at_begin(&mut self) -> Option<LongFrame> {
        let head = Head::parse(self.inbox.bytes().first_chunk::<HEADER>()?).ok()?;
        let payload_bytes = head.payload_bytes.checked_sub(LINE_BYTES)?;
        if head.kind != Kind::Frame || payload_bytes < DIRECT_BYTES_MIN {
            return None;
        }
        let header = self
            .inbox
            .bytes()
            .get(HEADER..BEFORE_BYTES)?
            .first_chunk()?;
        let (index, connection) = self.connections.at_node(head.connection)?;
        let position = connection.node_region.as_ref()?.stored_lines;
        let (kind, begin, len_bytes) = unpack(u64::from_ne_bytes(*header), position).ok()?;
        let is_long = matches!(kind, FrameKind::Whole | FrameKind::More)
            && begin == LINE_BYTES
            && len_bytes == payload_bytes;
        is_long.then_some(LongFrame {
            index,
            head,
            header: *header,
            payload_bytes,
        })
    }

    /// Publishes a frame of which so much of the payload is elsewhere, if that is all. Otherwise it goes on the ordinary way.
    fn take_direct(
        &mut self,
        frame: &LongFrame,
        payload: &[u8],
    ) -> Result<Option<StoredFrame>, Stop> {
        self.begin_frame(&frame.head)?;
        let Some(receiving) = self.receiving.take() else {
            return Ok(None);
        };
        let connection = self.connections.get(frame.index);
        let Some(region) = connection.and_then(|it| it.node_region.as_mut()) else {
            return Ok(None);
        };
        let receiving = Receiving {
            header: frame.header,
            done_bytes: LINE_BYTES + payload.len(),
            ..receiving
        };
        let payload_offset = receiving.offset + LINE_BYTES;
        if payload.len() == frame.payload_bytes {
            region.publish(&receiving);
            return Ok(Some(StoredFrame {
                payload_offset,
                payload_bytes: payload.len(),
            }));
        }
        region.window.write(payload_offset, payload);
        self.receiving = Some(receiving);
        Ok(None)
    }
}
