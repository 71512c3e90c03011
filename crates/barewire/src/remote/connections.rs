//! What a proxy knows of the connections that go over its link: where to store for its node, and where its node stores.

use std::collections::HashMap;

use barewire_fabric::frame::{ARMED, CREDIT, STARVED, STATE, region_bytes};
use barewire_fabric::memory::{Incoming, Outgoing};
use barewire_fabric::ring::{Mirror, Published, lines_between, publish_repeated};
use barewire_fabric::survey::Forwarded;
use barewire_shm::counters::RegionPlace;
use barewire_shm::{Region, Window};
use slab::Slab;

use crate::links::arena::Allocated;
use crate::links::unconfirmed::{Confirmed, Unconfirmed};
use crate::messages::control::RegionRef;
use crate::remote::record::Head;

/// The region in which our node receives: we store there what the other host's node has sent.
pub(crate) struct NodeRegion {
    pub window: Window,
    pub ring_bytes: usize,
    /// The bit that stands for the connection at our node.
    pub source: u32,
    /// Lines of the ring that were stored, and as many as the other host was told of.
    pub stored_lines: u64,
    told_lines: u64,
}

impl NodeRegion {
    /// The one that our node has named, if it is one.
    pub fn new(segments: &[Region], region: &RegionRef, source: u32) -> Option<NodeRegion> {
        let ring_bytes = region.ring_bytes as usize;
        let segment = segments.get(region.segment as usize)?;
        let window = segment.window(region.offset as usize, region_bytes(ring_bytes))?;
        // Whatever our node publishes is for the other host: it always rings.
        window.write_u64(ARMED, 1);
        window.write_u64(STARVED, 1);
        Forwarded::clear(&window);
        Some(NodeRegion {
            window,
            ring_bytes,
            source,
            stored_lines: 0,
            told_lines: 0,
        })
    }
}

impl NodeRegion {
    /// Publishes a frame, whose payload has been stored.
    pub fn publish(&mut self, frame: &Receiving) {
        let header = u64::from_ne_bytes(frame.header);
        publish_repeated(&self.window, frame.offset, frame.next_offset, header);
        self.stored_lines += lines_between(self.ring_bytes, frame.offset, frame.next_offset);
    }
}

/// A frame that is being stored.
pub(crate) struct Receiving {
    pub index: usize,
    pub offset: usize,
    pub next_offset: usize,
    pub len_bytes: usize,
    /// The header, which is stored last; then the payload, which is stored as it comes.
    pub header: [u8; 8],
    pub done_bytes: usize,
}

/// The memory into which our node stores, in place of the region in which the other host's node receives.
pub(crate) struct StandIn {
    /// Where it lies in this process.
    place: Option<RegionPlace>,
    pub region: RegionRef,
    pub mirror: Mirror<Window>,
    /// What was sent of its words of credit and state.
    pub credit_sent: u64,
    pub state_sent: u64,
    /// How far the other host has what was sent.
    pub confirmed: Confirmed,
}

impl StandIn {
    pub fn new(allocated: Allocated) -> StandIn {
        let ring_bytes = allocated.region.ring_bytes as usize;
        StandIn {
            place: allocated.place,
            region: allocated.region,
            mirror: Mirror::new(allocated.window, ring_bytes),
            credit_sent: 0,
            state_sent: 0,
            confirmed: Confirmed::default(),
        }
    }

    fn window(&self) -> &Window {
        self.mirror.incoming()
    }

    pub fn credit(&self) -> u64 {
        self.window().observe_u64(CREDIT)
    }

    pub fn state(&self) -> u64 {
        self.window().observe_u64(STATE)
    }

    /// Whether there is credit to send and nothing else.
    pub fn has_only_credit(&self) -> bool {
        self.credit() != self.credit_sent
            && self.state() == self.state_sent
            && matches!(self.mirror.peek(), Ok(None))
    }

    /// Whether our node asks to be rung for messages. A fence comes before.
    pub fn is_armed(&self) -> bool {
        self.window().read_u64(ARMED) != 0
    }

    /// Whether our node asks to be rung for credit. A fence comes before.
    pub fn is_starved(&self) -> bool {
        self.window().read_u64(STARVED) != 0
    }
}

/// One connection.
#[derive(Default)]
pub(crate) struct Connection {
    /// Its numbers at our node and at the other host's.
    pub at_node: Option<u32>,
    pub at_host: Option<u32>,
    pub node_region: Option<NodeRegion>,
    pub stand_in: Option<StandIn>,
    /// Which sides have let go of it.
    pub node_detached: bool,
    pub host_detached: bool,
    /// In the list of those to be looked at.
    pub is_listed: bool,
    /// In the list of those whose credit may wait a little.
    pub is_postponed: bool,
    /// Our node has sent something since credit was last sent alone: it seems to answer what it receives.
    pub answers: bool,
}

impl Connection {
    /// How much of the connection is stored here, for a record that says so.
    pub fn tell_stored(&mut self) -> u32 {
        self.node_region.as_mut().map_or(0, |region| {
            region.told_lines = region.stored_lines;
            region.stored_lines as u32
        })
    }

    /// The other host says with a record how much it has stored.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn hear_stored(&mut self, head: &Head) -> Result<(), &'static str> {
        let Some(stand_in) = &mut self.stand_in else {
            return Ok(());
        };
        let sent = stand_in.mirror.position();
        match stand_in.confirmed.arrived(head.number, sent) {
            true => Ok(()),
            false => Err("says that more arrived than was sent"),
        }
    }

    /// The program on the other host has read up to this line.
    pub fn hear_read(&mut self, credit_lines: u64) {
        if let Some(stand_in) = &mut self.stand_in {
            let sent = stand_in.mirror.position();
            stand_in.confirmed.read(credit_lines, sent);
        }
    }

    /// Has the next turn say how much is stored here, if the other host does not know; whether that is so.
    fn owe_stored(&mut self) -> bool {
        let region = self.node_region.as_ref();
        let is_owed = region.is_some_and(|it| it.stored_lines != it.told_lines);
        match (&mut self.stand_in, is_owed) {
            (Some(stand_in), true) => {
                // Credit is sent once more, and that goes with it.
                stand_in.credit_sent = u64::MAX;
                true
            }
            _ => false,
        }
    }

    /// As it is when the link is lost.
    fn into_unconfirmed(self) -> Option<(u32, Unconfirmed)> {
        let stand_in = self.stand_in?;
        let ring_bytes = stand_in.region.ring_bytes as usize;
        Some((
            self.at_node?,
            stand_in.confirmed.into_unconfirmed(ring_bytes),
        ))
    }

    /// A frame was handed to the network.
    pub fn sent(&mut self, frame: &Published) {
        if let Some(stand_in) = &mut self.stand_in {
            stand_in.mirror.advance(frame);
            stand_in.confirmed.sent(frame);
        }
        self.answers = true;
        self.note_sent();
    }

    /// Says where it can be seen from outside (`barewire dump`) how much was sent.
    fn note_sent(&self) {
        if let (Some(region), Some(stand_in)) = (&self.node_region, &self.stand_in) {
            let forwarded = stand_in.place.map(|place| Forwarded {
                fd_number: place.fd_number,
                offset_bytes: place.offset_bytes,
                sent_lines: stand_in.mirror.position(),
            });
            forwarded.inspect(|it| it.write(&region.window));
        }
    }
}

/// All connections of a link.
#[derive(Default)]
pub(crate) struct Connections {
    all: Slab<Connection>,
    by_node: HashMap<u32, usize>,
    by_host: HashMap<u32, usize>,
    /// The one that was last asked for by its number at our node: that and its index.
    last: Option<(u32, usize)>,
}

/// The bit by which the node announces control messages. Those of connections follow.
pub(crate) const CONTROL_SOURCE: u32 = 0;

/// The bit by which the node rings for a connection.
pub(crate) fn source_of(index: usize) -> u32 {
    index as u32 + 1
}

impl Connections {
    /// Adds one, under the numbers that are known of it; `None` if a number is in use.
    pub fn add(&mut self, connection: Connection) -> Option<usize> {
        let (at_node, at_host) = (connection.at_node, connection.at_host);
        let is_known = at_node.is_some_and(|number| self.by_node.contains_key(&number))
            || at_host.is_some_and(|number| self.by_host.contains_key(&number));
        if is_known {
            return None;
        }
        let index = self.all.insert(connection);
        if let Some(number) = at_node {
            self.by_node.insert(number, index);
        }
        if let Some(number) = at_host {
            self.by_host.insert(number, index);
        }
        Some(index)
    }

    /// The number of a connection at our node has become known; `false` if it is in use.
    pub fn set_at_node(&mut self, index: usize, number: u32) -> bool {
        let is_free = self.by_node.insert(number, index).is_none();
        self.all[index].at_node = Some(number);
        is_free
    }

    /// As [`Connections::set_at_node`], at the other host's node.
    pub fn set_at_host(&mut self, index: usize, number: u32) -> bool {
        let is_free = self.by_host.insert(number, index).is_none();
        self.all[index].at_host = Some(number);
        is_free
    }

    /// How far the other host had what was sent on each, by its number at our node.
    pub fn into_unconfirmed(self) -> HashMap<u32, Unconfirmed> {
        let all = self.all.into_iter().map(|(_, connection)| connection);
        all.filter_map(Connection::into_unconfirmed).collect()
    }

    /// Those of which more is stored here than the other host knows. The next turn says so.
    pub fn owe_stored(&mut self) -> Vec<usize> {
        let all = self.all.iter_mut();
        let owed = all.filter_map(|(index, it)| it.owe_stored().then_some(index));
        owed.collect()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&mut self, index: usize) -> Option<&mut Connection> {
        self.all.get_mut(index)
    }

    /// By its number at our node.
    pub fn at_node(&mut self, number: u32) -> Option<(usize, &mut Connection)> {
        let index = match self.last {
            Some((last, index)) if last == number => index,
            _ => *self.by_node.get(&number)?,
        };
        self.last = Some((number, index));
        Some((index, self.all.get_mut(index)?))
    }

    /// By its number at the other host's node.
    pub fn at_host(&mut self, number: u32) -> Option<(usize, &mut Connection)> {
        let index = *self.by_host.get(&number)?;
        Some((index, self.all.get_mut(index)?))
    }

    /// Forgets one.
    pub fn remove(&mut self, index: usize) -> Option<Connection> {
        let connection = self.all.try_remove(index)?;
        self.last = None;
        if let Some(number) = connection.at_node {
            self.by_node.remove(&number);
        }
        if let Some(number) = connection.at_host {
            self.by_host.remove(&number);
        }
        Some(connection)
    }
}
