//! A proxy's way in: what has arrived from the other host is checked, and stored or said to our node.

use std::os::fd::AsFd;

use barewire_carrier::Arrival;
use barewire_fabric::frame::{CREDIT, HEADER_BYTES, region_bytes, ring_bytes_valid};
use barewire_fabric::memory::{Fences, Outgoing};
use barewire_fabric::ring::fits_ring;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::memory::{HugePages, Placement};
use barewire_sys::socket::Sent;

use crate::error::descriptors_exhausted;
use crate::links::driven::DirectBuffer;
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::remote::connections::{Connection, Receiving, StandIn, source_of};
use crate::remote::proxy::inner::{Inner, Stop};
use crate::remote::record::{HEADER, Head, Kind};

/// Bytes of stand-ins that one other host may make us set aside. They are taken as they are used.
const STAND_IN_BYTES_MAX: u64 = 16 << 30;
/// Connections that one other host may have.
const CONNECTIONS_MAX: usize = 200_000;
/// Reads in one turn: whoever drives has other things to do.
const READS_PER_TURN: usize = 16;

const ANYWHERE: Placement = Placement {
    lock: false,
    numa_node: None,
    huge_pages: HugePages::Never,
};

impl Inner {
    /// Stores what has arrived, and rings our node for it.
    pub fn receive(&mut self, mut buffer: Option<&mut DirectBuffer<'_>>) -> Result<(), Stop> {
        self.tell_node()?;
        let mut result = Ok(());
        for _ in 0..READS_PER_TURN {
            if self.is_node_behind() {
                break;
            }
            let filled = match &mut buffer {
                Some(buffer) => self.fill_inbox_around(buffer),
                None => self.fill_inbox(),
            };
            let arrival = match filled {
                Ok(arrival) => arrival,
                Err(stop) => {
                    result = Err(stop);
                    break;
                }
            };
            match arrival {
                Arrival::Bytes(_) => {
                    self.last_arrival_ns = monotonic_ns();
                    self.has_received = true;
                }
                Arrival::Nothing => break,
                Arrival::End => {
                    result = Err(Stop::Ended);
                    break;
                }
            }
            result = self.handle_inbox();
            if result.is_err() || !self.inbox.was_filled() {
                break;
            }
        }
        // What came before the end, too.
        self.ring_node();
        self.tell_node()?;
        result
    }

    pub(super) fn fill_inbox(&mut self) -> Result<Arrival, Stop> {
        match &mut self.carrier {
            Some(carrier) => Ok(self.inbox.fill(carrier.as_mut())?),
            None => Ok(Arrival::Nothing),
        }
    }

    /// Handles what is in the inbox, but for the beginning of a record.
    fn handle_inbox(&mut self) -> Result<(), Stop> {
        loop {
            if self.receiving.is_some() {
                if !self.go_on_receiving() {
                    return Ok(());
                }
                continue;
            }
            let Some(header) = self.inbox.bytes().first_chunk::<HEADER>() else {
                return Ok(());
            };
            let head = Head::parse(header).map_err(Stop::Misbehaved)?;
            if head.kind == Kind::Frame {
                self.inbox.consume(HEADER);
                self.begin_frame(&head)?;
                continue;
            }
            let end = HEADER + head.payload_bytes;
            let Some(record) = self.inbox.bytes().get(HEADER..end) else {
                return Ok(());
            };
            match head.kind {
                Kind::Control => {
                    let payload = record.to_vec();
                    self.hear_host(&payload)?;
                }
                Kind::Word => {
                    let payload = record.to_vec();
                    self.store_word(&head, &payload)?;
                }
                Kind::Ping => self.hear_ping(&head),
                Kind::Frame => {}
                _ => self.hear_access(&head)?,
            }
            self.inbox.consume(end);
        }
    }

    /// The region of our node that a record is for.
    pub(super) fn begin_frame(&mut self, head: &Head) -> Result<(), Stop> {
        let missing = Stop::Misbehaved("frame for a connection that there is not");
        let Some((index, connection)) = self.connections.at_node(head.connection) else {
            return Err(missing);
        };
        connection.hear_stored(head).map_err(Stop::Misbehaved)?;
        let region = connection.node_region.as_ref().ok_or(missing)?;
        if !fits_ring(
            region.ring_bytes,
            head.offset,
            head.payload_bytes,
            head.next_offset,
        ) {
            return Err(Stop::Misbehaved("frame outside its ring"));
        }
        self.receiving = Some(Receiving {
            index,
            offset: head.offset,
            next_offset: head.next_offset,
            len_bytes: head.payload_bytes,
            header: [0; HEADER_BYTES],
            done_bytes: 0,
        });
        Ok(())
    }

    /// Stores what has arrived of a frame; whether that was the rest of it.
    fn go_on_receiving(&mut self) -> bool {
        let Some(mut receiving) = self.receiving.take() else {
            return true;
        };
        let bytes = self.inbox.bytes();
        let count = bytes.len().min(receiving.len_bytes - receiving.done_bytes);
        let bytes = &bytes[..count];
        let header_left = HEADER_BYTES.saturating_sub(receiving.done_bytes);
        let (of_header, of_payload) = bytes.split_at(header_left.min(count));
        let at = HEADER_BYTES - header_left;
        receiving.header[at..at + of_header.len()].copy_from_slice(of_header);
        let payload_at = receiving.offset + receiving.done_bytes + of_header.len();
        receiving.done_bytes += count;
        let is_whole = receiving.done_bytes == receiving.len_bytes;
        // It was checked when the frame began, and a connection is not let go of in the middle of one.
        if let Some(connection) = self.connections.get(receiving.index) {
            if let Some(region) = &mut connection.node_region {
                region.window.write(payload_at, of_payload);
                if is_whole {
                    region.publish(&receiving);
                    self.touched.push(receiving.index);
                }
            }
        }
        self.inbox.consume(count);
        if !is_whole {
            self.receiving = Some(receiving);
        }
        is_whole
    }

    fn store_word(&mut self, head: &Head, payload: &[u8]) -> Result<(), Stop> {
        let missing = Stop::Misbehaved("word for a connection that there is not");
        let Some((index, connection)) = self.connections.at_node(head.connection) else {
            return Err(missing);
        };
        connection.hear_stored(head).map_err(Stop::Misbehaved)?;
        let mut value = [0; 8];
        value.copy_from_slice(payload);
        let value = u64::from_ne_bytes(value);
        if head.offset == CREDIT {
            connection.hear_read(value);
        }
        let region = connection.node_region.as_ref().ok_or(missing)?;
        region.window.publish_u64(head.offset, value);
        self.touched.push(index);
        Ok(())
    }

    /// Rings our node for what was stored, where it wants to be rung.
    fn ring_node(&mut self) {
        let touched = core::mem::take(&mut self.touched);
        let Some((link, _)) = &self.link else {
            return;
        };
        if touched.is_empty() {
            return;
        }
        // After everything stored; pairs with the fence of whoever arms.
        link.light();
        let mut last = None;
        for index in touched {
            if last.replace(index) == Some(index) {
                continue;
            }
            let Some(connection) = self.connections.get(index) else {
                continue;
            };
            let (Some(region), Some(stand_in)) = (&connection.node_region, &connection.stand_in)
            else {
                continue;
            };
            if stand_in.is_armed() || stand_in.is_starved() {
                link.ring_by_driver(region.source);
            }
        }
    }

    /// Says to our node what waits for it.
    fn tell_node(&mut self) -> Result<(), Stop> {
        let mut told = false;
        while let Some((bytes, fd)) = self.to_node.front() {
            let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
            match self.socket.send(bytes, &fds) {
                Ok(Sent::Done) => drop(self.to_node.pop_front()),
                Ok(Sent::WouldBlock) => break,
                // It is gone; that is seen when its words are read.
                Err(_) => {
                    self.to_node.clear();
                    self.control_pending = true;
                    break;
                }
            }
            told = true;
        }
        if let (true, Some((link, source))) = (told, &self.link) {
            link.ring(*source);
        }
        Ok(())
    }

    /// Handles a control message of the other host's node.
    fn hear_host(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let message =
            Message::parse(bytes).ok_or(Stop::Misbehaved("control message that is none"))?;
        match message {
            Message::Open { .. } => return self.hear_open(&message),
            Message::Accept { .. } => return self.hear_accept(&message),
            Message::Reject { connection, .. } => {
                if let Some((index, _)) = self.connections.at_node(connection) {
                    self.free(index);
                }
            }
            Message::Detach { connection } => {
                let found = self.connections.at_node(connection);
                let (index, entry) = found.ok_or(Stop::Misbehaved(
                    "lets go of a connection that there is not",
                ))?;
                entry.host_detached = true;
                self.free_if_done(index);
            }
            Message::Grant { aperture, .. } => {
                if !self.far.granted(aperture) {
                    return Err(Stop::Misbehaved("grants an aperture twice"));
                }
            }
            Message::Revoke { aperture } => self.far.revoked(aperture),
            Message::Release { aperture } => {
                self.lent.release(aperture).map_err(Stop::Misbehaved)?;
            }
            Message::Bye => self.leave(),
            Message::Abandon { .. } | Message::OutOfBand { .. } => {}
            Message::Hello { .. } | Message::Segment { .. } | Message::Wake => {
                return Err(Stop::Misbehaved(
                    "control message that hosts do not exchange",
                ));
            }
        }
        // What was stored before comes before it.
        self.ring_node();
        self.to_node.push_back((bytes.to_vec(), None));
        self.tell_node()
    }

    fn hear_open(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let &Message::Open {
            connection,
            region,
            message_bytes_max,
            name,
            data,
            ..
        } = message
        else {
            return Err(Stop::Misbehaved("not an open"));
        };
        let Some((index, region)) = self.add_stand_in(&region, |stand_in| Connection {
            at_host: Some(connection),
            stand_in: Some(stand_in),
            ..Connection::default()
        })?
        else {
            self.refuse(connection);
            return Ok(());
        };
        let open = Message::Open {
            connection,
            region,
            source: source_of(index),
            message_bytes_max,
            name,
            data,
        };
        self.to_node.push_back((open.encode(), None));
        self.tell_node()
    }

    /// The other host's node gets to hear that there is no room for one more connection.
    fn refuse(&mut self, connection: u32) {
        let reject = Message::Reject {
            connection,
            code: RejectCode::Busy,
            reason: "too many connections, or too large rings, from one host",
        };
        let bytes = reject.encode();
        // Where there is no room, its node waits until it gives up.
        if self.sending.is_none() && self.outbox.room_bytes() >= HEADER + bytes.len() {
            self.outbox.push(&Head::control(bytes.len()).encode());
            self.outbox.push(&bytes);
        }
    }

    fn hear_accept(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let &Message::Accept {
            connection,
            own,
            region,
            message_bytes_max,
            ..
        } = message
        else {
            return Err(Stop::Misbehaved("not an accept"));
        };
        let found = self.connections.at_node(connection);
        let is_new = found.is_some_and(|(_, entry)| entry.at_host.is_none());
        if !is_new {
            return Err(Stop::Misbehaved("accepts what was not asked for"));
        }
        let allocated = self.allocate(&region)?;
        let Some(allocated) = allocated else {
            return Err(Stop::Misbehaved("a ring of impossible size"));
        };
        let region = allocated.region;
        let Some((index, entry)) = self.connections.at_node(connection) else {
            return Ok(());
        };
        entry.stand_in = Some(allocated);
        if !self.connections.set_at_host(index, own) {
            return Err(Stop::Misbehaved("uses a number twice"));
        }
        let accept = Message::Accept {
            connection,
            own,
            region,
            source: source_of(index),
            message_bytes_max,
        };
        self.to_node.push_back((accept.encode(), None));
        self.tell_node()
    }

    /// Adds a connection with a stand-in for a ring of the other host's; `None` if there may be no more.
    fn add_stand_in(
        &mut self,
        region: &RegionRef,
        connection: impl FnOnce(StandIn) -> Connection,
    ) -> Result<Option<(usize, RegionRef)>, Stop> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Ok(None);
        }
        let Some(stand_in) = self.allocate(region)? else {
            return Ok(None);
        };
        let region = stand_in.region;
        let index = self.add(connection(stand_in))?;
        Ok(Some((index, region)))
    }

    /// Memory into which our node stores in the place of a region of the other host's; `None` if that is too much.
    fn allocate(&mut self, region: &RegionRef) -> Result<Option<StandIn>, Stop> {
        let ring_bytes = region.ring_bytes as usize;
        if !ring_bytes_valid(ring_bytes) {
            return Err(Stop::Misbehaved("a ring of impossible size"));
        }
        let bytes = region_bytes(ring_bytes) as u64;
        if self.stand_in_bytes + bytes > STAND_IN_BYTES_MAX {
            return Ok(None);
        }
        let allocated = self.arena.allocate(ring_bytes, &ANYWHERE)?;
        self.stand_in_bytes += bytes;
        while let Some((number, len_bytes, memfd)) = self.arena.unannounced() {
            let memfd = memfd
                .try_clone_to_owned()
                .map_err(|_| Stop::System(descriptors_exhausted()))?;
            let segment = Message::Segment { number, len_bytes };
            self.to_node.push_back((segment.encode(), Some(memfd)));
        }
        Ok(Some(StandIn::new(allocated)))
    }
}
