//! A proxy's way out: what our node has published, and what it says on its control socket, goes to the other host.

use barewire_fabric::frame::{CREDIT, STATE};
use barewire_fabric::ring::Published;
use barewire_shm::Region;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::socket::Received;
use barewire_sys::wake::EventFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::Misconduct;
use crate::links::link::{Link, WakeUp};
use crate::messages::control::{FLAG_MEMBARRIER, MESSAGE_BYTES_MAX, Message, RegionRef};
use crate::remote::connections::{CONTROL_SOURCE, Connection, NodeRegion};
use crate::remote::proxy::inner::{Inner, Sending, Stage, Stop};
use crate::remote::record::{HEADER, Head, Kind};

/// Credit that waits for a message is sent alone after so many turns of threads that poll. A turn takes some 0.3 us.
const TURNS_POSTPONED_MAX: u32 = 64;
/// Messages read from our node in one turn.
const CONTROL_PER_TURN: usize = 256;

/// Whether something could be done in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    All,
    /// The other host takes no more at present.
    Part,
}

impl From<Misconduct> for Stop {
    fn from(_: Misconduct) -> Stop {
        Stop::Fault("a descriptor that can not be used")
    }
}

impl Inner {
    /// Sends what our node has published and said.
    pub fn send(&mut self) -> Result<(), Stop> {
        let mut did = Did::Part;
        if self.stage == Stage::Up || self.stage == Stage::Leaving {
            self.take_bits();
            did = self.read_node()?;
            if did == Did::All {
                did = self.send_all()?;
            }
        }
        self.answer_ping();
        self.flush()?;
        if did == Did::All && self.stage == Stage::Leaving {
            self.finish_if_sent()?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        if let Some(carrier) = self.carrier.as_mut() {
            self.outbox.flush(carrier.as_mut())?;
        }
        Ok(())
    }

    /// Nobody says anything more: once the rest is sent, the other host is to know.
    fn finish_if_sent(&mut self) -> Result<(), Stop> {
        if let Some(carrier) = self.carrier.as_mut() {
            if self.outbox.is_empty() && carrier.flush()? {
                carrier.finish()?;
                self.stage = Stage::Sent;
                self.far.clear();
            }
        }
        Ok(())
    }

    /// Shows the other host that we are there, and asks it for the same.
    pub fn ping(&mut self) {
        // If there is no room, there is something to send.
        if self.may_add_record(HEADER) {
            let number = self.pings.ask(monotonic_ns());
            self.outbox.push(&Head::ping(number).encode());
        }
        if let Err(stop) = self.flush() {
            self.stop(stop);
        }
    }

    /// Whether a short record finds room, and is not in the middle of another.
    fn may_add_record(&self, bytes: usize) -> bool {
        self.sending.is_none() && self.outbox.room_bytes() >= bytes
    }

    /// Sends back what the other host has asked with. If there is no room, the next turn does.
    fn answer_ping(&mut self) {
        if self.pings.is_asked() && self.may_add_record(HEADER) {
            if let Some(number) = self.pings.take_asked() {
                self.outbox.push(&Head::pong(number).encode());
            }
        }
    }

    /// The other host shows that it is there: asks, or answers.
    pub fn hear_ping(&mut self, head: &Head) {
        if head.offset == 0 {
            return self.pings.asked(head.connection);
        }
        if let Some(ns) = self.pings.answered(head.connection, monotonic_ns()) {
            self.shared.set_round_trip(ns);
        }
    }

    /// Notes what our node has rung for.
    pub(super) fn take_bits(&mut self) {
        while let Some(source) = self.drain.next_source(&self.page) {
            match source {
                CONTROL_SOURCE => self.control_pending = true,
                other => self.list(other as usize - 1),
            }
        }
    }

    pub(super) fn list(&mut self, index: usize) {
        if let Some(connection) = self.connections.get(index) {
            if !core::mem::replace(&mut connection.is_listed, true) {
                self.listed.push_back(index);
            }
        }
    }

    /// Has the credit sent that was postponed; whether there is any.
    pub fn list_postponed(&mut self) -> bool {
        self.turns_postponed = 0;
        let any = !self.postponed.is_empty();
        while let Some(index) = self.postponed.pop() {
            if let Some(connection) = self.connections.get(index) {
                connection.is_postponed = false;
            }
            self.list(index);
        }
        any
    }

    /// A thread that polls takes a turn. Where its node answers what it receives, credit waits for the answer, but not for
    /// long.
    pub fn begin_look(&mut self) {
        if !self.postponed.is_empty() {
            self.turns_postponed += 1;
            if self.turns_postponed >= TURNS_POSTPONED_MAX {
                self.list_postponed();
                return;
            }
        }
        self.may_postpone = self.stage == Stage::Up;
    }

    /// Whether there is room for so many bytes in the outbox, after sending if need be.
    pub(super) fn has_room(&mut self, bytes: usize) -> Result<bool, Stop> {
        if self.outbox.room_bytes() < bytes {
            self.flush()?;
        }
        Ok(self.outbox.room_bytes() >= bytes)
    }

    /// Sends what was published on the connections that our node has rung for.
    pub(super) fn mirror_listed(&mut self) -> Result<Did, Stop> {
        if self.go_on_sending()? == Did::Part {
            return Ok(Did::Part);
        }
        while let Some(index) = self.listed.pop_front() {
            if self.mirror(index)? == Did::Part {
                self.listed.push_front(index);
                return Ok(Did::Part);
            }
            if let Some(connection) = self.connections.get(index) {
                connection.is_listed = false;
            }
        }
        Ok(Did::All)
    }

    /// Whether there is credit alone to send on a connection, which is postponed.
    fn postpones_credit(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get(index) else {
            return false;
        };
        let stand_in = connection.stand_in.as_mut();
        if !connection.answers || !stand_in.is_some_and(|it| it.has_only_credit()) {
            return false;
        }
        if !self.may_postpone {
            connection.answers = false;
            return false;
        }
        if !core::mem::replace(&mut connection.is_postponed, true) {
            self.postponed.push(index);
        }
        true
    }

    /// Sends what was published on one connection: credit, frames, state, in this order.
    fn mirror(&mut self, index: usize) -> Result<Did, Stop> {
        if self.postpones_credit(index) {
            return Ok(Did::All);
        }
        let Some(connection) = self.connections.get(index) else {
            return Ok(Did::All);
        };
        let (Some(number), Some(stand_in)) = (connection.at_host, &mut connection.stand_in) else {
            return Ok(Did::All);
        };
        let state = stand_in.state();
        if self.send_credit((index, number))? == Did::Part {
            return Ok(Did::Part);
        }
        while let Some(frame) = self.next_frame(index)? {
            // Accesses that our node made before it published the frame go before it; later ones do not hold it up.
            let added = match self.frame_after {
                Some((of, added)) if of == index => added,
                _ => self.far.added(),
            };
            self.frame_after = Some((index, added));
            if self.send_requests_before(added)? == Did::Part || !self.has_room(HEADER)? {
                return Ok(Did::Part);
            }
            self.frame_after = None;
            self.push_head_of_frame((index, number), &frame);
            self.sending = Some(Sending {
                index,
                frame,
                done_bytes: 0,
            });
            if self.go_on_sending()? == Did::Part {
                return Ok(Did::Part);
            }
        }
        let Some(stand_in) = self
            .connections
            .get(index)
            .and_then(|c| c.stand_in.as_mut())
        else {
            return Ok(Did::All);
        };
        // It was read before the frames: what it says of them holds.
        if state != core::mem::replace(&mut stand_in.state_sent, state)
            && !self.send_word((index, number), STATE, state)?
        {
            return Ok(self.unsent(index, |stand_in| stand_in.state_sent = u64::MAX));
        }
        Ok(Did::All)
    }

    /// The first frame that was published on a connection and not sent.
    pub(super) fn next_frame(&mut self, index: usize) -> Result<Option<Published>, Stop> {
        let connection = self.connections.get(index);
        let Some(stand_in) = connection.and_then(|it| it.stand_in.as_ref()) else {
            return Ok(None);
        };
        let nonsense = |_| Stop::Fault("a ring with nonsense in it");
        stand_in.mirror.peek().map_err(nonsense)
    }

    /// Sends the credit of a connection if it has changed. `of`: by our index and by the other host's number.
    pub(super) fn send_credit(&mut self, of: (usize, u32)) -> Result<Did, Stop> {
        let connection = self.connections.get(of.0);
        let Some(stand_in) = connection.and_then(|it| it.stand_in.as_mut()) else {
            return Ok(Did::All);
        };
        let credit = stand_in.credit();
        if credit == core::mem::replace(&mut stand_in.credit_sent, credit)
            || self.send_word(of, CREDIT, credit)?
        {
            return Ok(Did::All);
        }
        Ok(self.unsent(of.0, |stand_in| stand_in.credit_sent = u64::MAX))
    }

    /// `of`: the connection, by our index and by the other host's number. There is room.
    pub(super) fn push_head_of_frame(&mut self, of: (usize, u32), frame: &Published) {
        let head = Head {
            kind: Kind::Frame,
            payload_bytes: frame.len_bytes,
            connection: of.1,
            offset: frame.offset,
            next_offset: frame.next_offset,
            number: self.tell_stored(of.0),
        };
        self.outbox.push(&head.encode());
    }

    /// How much of a connection is stored here, to be told now.
    fn tell_stored(&mut self, index: usize) -> u32 {
        let connection = self.connections.get(index);
        connection.map_or(0, |connection| connection.tell_stored())
    }

    /// Has the next turn send the credit that waits, and tell how much is stored here, of connections of which the other host
    /// does not know.
    pub fn acknowledge(&mut self) {
        self.list_postponed();
        for index in self.connections.owe_stored() {
            self.list(index);
        }
    }

    /// A word found no room: it is sent the next time, whatever it is then.
    fn unsent(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut crate::remote::connections::StandIn),
    ) -> Did {
        if let Some(stand_in) = self
            .connections
            .get(index)
            .and_then(|c| c.stand_in.as_mut())
        {
            change(stand_in);
        }
        Did::Part
    }

    /// `of`: the connection, by our index and by the other host's number.
    fn send_word(&mut self, of: (usize, u32), offset: usize, value: u64) -> Result<bool, Stop> {
        if !self.has_room(HEADER + 8)? {
            return Ok(false);
        }
        let head = Head::word(of.1, offset, self.tell_stored(of.0));
        self.outbox.push(&head.encode());
        self.outbox.push(&value.to_ne_bytes());
        Ok(true)
    }

    /// Sends the rest of the frame that is under way.
    pub(super) fn go_on_sending(&mut self) -> Result<Did, Stop> {
        while let Some(sending) = self.sending.take() {
            let left_bytes = sending.frame.len_bytes - sending.done_bytes;
            if !self.has_room(left_bytes.min(1024))? {
                self.sending = Some(sending);
                return Ok(Did::Part);
            }
            let mut connection = self.connections.get(sending.index);
            let stand_in = connection.as_mut().and_then(|c| c.stand_in.as_mut());
            let Some(stand_in) = stand_in else {
                return Err(Stop::Fault(
                    "a connection let go of in the middle of a frame",
                ));
            };
            let count = left_bytes.min(self.outbox.room_bytes());
            let offset = sending.frame.offset + sending.done_bytes;
            self.outbox
                .push_window(stand_in.mirror.incoming(), offset, count);
            if count == left_bytes {
                if let Some(connection) = connection {
                    connection.sent(&sending.frame);
                }
                return Ok(Did::All);
            }
            self.sending = Some(Sending {
                done_bytes: sending.done_bytes + count,
                ..sending
            });
        }
        Ok(Did::All)
    }

    /// Handles what our node says.
    fn read_node(&mut self) -> Result<Did, Stop> {
        if self.go_on_sending()? == Did::Part {
            return Ok(Did::Part);
        }
        for _ in 0..CONTROL_PER_TURN {
            if let Some(held) = self.held.take() {
                if self.forward(held)? == Did::Part {
                    return Ok(Did::Part);
                }
            }
            if !self.control_pending {
                return Ok(Did::All);
            }
            let (mut buffer, mut fds) = ([0; MESSAGE_BYTES_MAX], Vec::new());
            match self.socket.recv(&mut buffer, &mut fds)? {
                Received::Message(len_bytes) => self.hear_node(&buffer[..len_bytes], fds)?,
                Received::WouldBlock => self.control_pending = false,
                // It went without a word, as a node does that is dropped while its lock is held elsewhere.
                Received::Hangup => {
                    self.control_pending = false;
                    self.leave();
                }
                Received::Truncated => {
                    return Err(Stop::Fault("a control message that is too long"));
                }
            }
        }
        Ok(Did::All)
    }

    /// Handles one message of our node's. What is for the other host becomes `held`.
    fn hear_node(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), Stop> {
        let message = Message::parse(bytes).ok_or(Stop::Fault("a control message that is none"))?;
        match message {
            Message::Hello { flags, source, .. } => return self.hear_hello(flags, source, fds),
            Message::Segment { len_bytes, .. } => {
                let region = node_segment(fds, len_bytes as usize)?;
                self.segments.push(region);
                return Ok(());
            }
            Message::Wake => return Ok(()),
            Message::Open { .. } => return self.hear_open_of_node(&message),
            Message::Accept { .. } => return self.hear_accept_of_node(&message),
            Message::Grant { .. } => return self.hear_grant_of_node(&message, fds),
            Message::Revoke { aperture } => self.lent.revoke(aperture),
            Message::Release { .. }
            | Message::Reject { .. }
            | Message::Detach { .. }
            | Message::Abandon { .. }
            | Message::OutOfBand { .. }
            | Message::Bye => {}
        }
        self.held = Some(bytes.to_vec());
        Ok(())
    }

    /// Our node asks for a connection.
    fn hear_open_of_node(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let &Message::Open {
            connection,
            region,
            source,
            message_bytes_max,
            name,
            data,
        } = message
        else {
            return Err(Stop::Fault("not an open"));
        };
        let node_region = self.node_region(&region, source)?;
        self.add(Connection {
            at_node: Some(connection),
            node_region: Some(node_region),
            ..Connection::default()
        })?;
        let open = Message::Open {
            connection,
            region: bare(&region),
            source: 0,
            message_bytes_max,
            name,
            data,
        };
        self.held = Some(open.encode());
        Ok(())
    }

    /// Our node accepts a connection.
    fn hear_accept_of_node(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let &Message::Accept {
            connection,
            own,
            region,
            source,
            message_bytes_max,
        } = message
        else {
            return Err(Stop::Fault("not an accept"));
        };
        let node_region = self.node_region(&region, source)?;
        let found = self.connections.at_host(connection);
        let (index, entry) = found.ok_or(Stop::Fault("it accepts what was not asked for"))?;
        entry.node_region = Some(node_region);
        if !self.connections.set_at_node(index, own) {
            return Err(Stop::Fault("it uses a number twice"));
        }
        let accept = Message::Accept {
            connection,
            own,
            region: bare(&region),
            source: 0,
            message_bytes_max,
        };
        self.held = Some(accept.encode());
        Ok(())
    }

    /// Sends a control message, after what was asked for and published before it.
    fn forward(&mut self, bytes: Vec<u8>) -> Result<Did, Stop> {
        let message =
            Message::parse(&bytes).ok_or(Stop::Fault("a control message that is none"))?;
        match message {
            Message::Detach { connection } => {
                if let Some((index, _)) = self.connections.at_host(connection) {
                    self.list(index);
                }
            }
            Message::Bye => self.take_bits(),
            _ => {}
        }
        let is_last = matches!(message, Message::Detach { .. } | Message::Bye);
        let added = *self.held_after.get_or_insert_with(|| self.far.added());
        let is_blocked = is_last && self.mirror_listed()? == Did::Part
            || self.send_requests_before(added)? == Did::Part;
        if is_blocked || !self.has_room(HEADER + bytes.len())? {
            self.held = Some(bytes);
            return Ok(Did::Part);
        }
        self.held_after = None;
        self.outbox.push(&Head::control(bytes.len()).encode());
        self.outbox.push(&bytes);
        match message {
            Message::Detach { connection } => {
                if let Some((index, entry)) = self.connections.at_host(connection) {
                    entry.node_detached = true;
                    self.free_if_done(index);
                }
            }
            // Of the whole link: there is no such connection.
            Message::Reject { connection, .. } => {
                if let Some((index, _)) = self.connections.at_host(connection) {
                    self.free(index);
                }
            }
            Message::Release { aperture } => self.far.released(aperture),
            Message::Bye => self.leave(),
            _ => {}
        }
        Ok(Did::All)
    }

    /// Our node's doorbell page and eventfd.
    fn hear_hello(&mut self, flags: u32, source: u32, fds: Vec<OwnedFd>) -> Result<(), Stop> {
        let no_hello = || Stop::Fault("a hello without memory");
        let mut fds = fds.into_iter();
        let (page, waker) = (fds.next().ok_or_else(no_hello)?, fds.next());
        let len_bytes = barewire_fabric::doorbell::PAGE_BYTES;
        let page = Memfd::from_peer(page, len_bytes, PeerAccess::ReadWrite)
            .map_err(|bad| Stop::from(Misconduct::from(bad)))?;
        let page = page.map(Access::ReadWrite)?.whole();
        let waker = waker.and_then(|waker| EventFd::from_peer(waker).ok());
        let asymmetric = self.of_node.membarrier && flags & FLAG_MEMBARRIER != 0;
        let link = Link::new(
            self.socket.clone(),
            None,
            self.of_node.own,
            WakeUp {
                page,
                waker,
                asymmetric,
            },
            self.of_node.counters.clone(),
            None,
        );
        self.link = Some((Arc::new(link), source));
        Ok(())
    }

    fn node_region(&self, region: &RegionRef, source: u32) -> Result<NodeRegion, Stop> {
        NodeRegion::new(&self.segments, region, source)
            .ok_or(Stop::Fault("a region outside its segment"))
    }
}

/// What the other host has to know of a region: the size of its ring.
fn bare(region: &RegionRef) -> RegionRef {
    RegionRef {
        segment: 0,
        offset: 0,
        ring_bytes: region.ring_bytes,
    }
}

/// Memory of our node's.
fn node_segment(fds: Vec<OwnedFd>, len_bytes: usize) -> Result<Region, Stop> {
    let fd = fds
        .into_iter()
        .next()
        .ok_or(Stop::Fault("a segment without memory"))?;
    let memfd = Memfd::from_peer(fd, len_bytes, PeerAccess::ReadWrite)
        .map_err(|bad| Stop::from(Misconduct::from(bad)))?;
    Ok(memfd.map(Access::ReadWrite)?)
}
