//! The counters page: what a node is doing, for anyone allowed to look, at any time.
//!
//! The node writes with plain stores; `barewire ls` and `barewire stat` map the same
//! memory read-only and disturb nobody.
//!
//! ```text
//! header, 4096 bytes; words of 8 bytes
//! |  0 magic "BWCOUNT1" | 1 version | 2 pid | 3 uid | 4 start, ns since boot | 5 slots |
//! |  6 highest slot in use + 1 | 7..8 node id | 9 placement of memory | 11..15 zero     |
//! | 10 links to other hosts that found no record                                         |
//! | 16.. event queue counters, in the order of `QueueCounter`                          |
//! | 64.. 32 users of 8 words: 0 user + 1, 0: free | 1..6 `Held`, in its order | 7 zero   |
//!
//! placement: | 0 locked | 1 near a NUMA node | 3..2 huge pages: 0 no, 1 tried, 2 required |
//!            | 63..32 the NUMA node                                                       |
//!
//! 64 records of links to other hosts, 128 bytes each; words of 8 bytes (`counters/remotes.rs`)
//! | 0 state: 0 free, 1 up, 2 being written, 3 down | 1 round trip in ns, smoothed; 0: not known  |
//! | 2 the peer's process (31..0), encrypted (32) | 3 zero                                |
//! | 4..5 transport | 6..9 name under which the peer has proved itself; empty: none       |
//! | 10..15 address                                        all UTF-8, zero padded         |
//!
//! slot, 128 bytes; words of 8 bytes
//! | 0 state (7..0): 0 free, 1 open, 2 closing; which use of the number this is (31..8);|
//! |   the peer's number of the connection + 1 (63..32; 0: it was not said)             |
//! | 1 connection number (31..0), where the region of the ring in begins, in lines      |
//! |   (63..32)                                                                         |
//! | 2 peer pid (31..0), descriptor of the memory that the region lies in + 1 (63..32)  |
//! | 3 peer uid (31..0), record of the link to another host + 1 (63..32; 0: none)        |
//! | 4 ring bytes out (31..0), in (63..32)                                               |
//! | 5..10 counters, order of `Counter` | 11 position of the reader of the ring in, in  |
//! |   lines | 12..15 name, UTF-8, zero padded                                          |
//! ```
//! Version 1 had no records of links to other hosts. Earlier writers of version 2 store 1 in word 0 of an open slot;
//! readers ask only whether the word is 0. Byte order of the host. Source: own design.

mod remotes;

use core::sync::atomic::{Ordering, fence};

use crate::region::{Region, Window};

use remotes::{REMOTES_BYTES, Remotes};
pub use remotes::{REMOTES_MAX, RemoteCopy, RemoteCounters, RemoteInfo};

/// "BWCOUNT1", read as a little-endian word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BWCOUNT1");
/// Version of the layout.
pub const VERSION: u64 = 2;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 128;
/// Longest name kept in a slot; longer ones are cut.
pub const NAME_BYTES: usize = 32;

/// Counters of the event queue, in their order in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCounter {
    /// Events handed out.
    Events,
    /// Times the node went to sleep.
    Sleeps,
    /// Times it woke and found nothing.
    SpuriousWakes,
    /// Waits that were satisfied while spinning (not counting those that a first look at
    /// the ring satisfied).
    SpinHits,
    /// Wake-ups that this node sent to others.
    WakesSent,
    /// Links now open.
    Links,
    /// Connections now open.
    Connections,
    /// Links closed because the peer broke the protocol.
    Violations,
    /// Peers that died.
    Deaths,
    /// Requests of peers of other users that would have exceeded a budget.
    Refusals,
    /// What peers of other users hold now: links.
    ForeignLinks,
    /// Connections.
    ForeignConnections,
    /// Bytes of private memory.
    ForeignPrivateBytes,
    /// Mappings.
    ForeignMappings,
    /// Descriptors.
    ForeignDescriptors,
    /// Events that have not been handed out.
    ForeignEvents,
}

/// Number of [`QueueCounter`]s, with their names.
pub const QUEUE_COUNTERS: [(QueueCounter, &str); 16] = [
    (QueueCounter::Events, "events"),
    (QueueCounter::Sleeps, "sleeps"),
    (QueueCounter::SpuriousWakes, "spurious_wakes"),
    (QueueCounter::SpinHits, "spin_hits"),
    (QueueCounter::WakesSent, "wakes_sent"),
    (QueueCounter::Links, "links"),
    (QueueCounter::Connections, "connections"),
    (QueueCounter::Violations, "violations"),
    (QueueCounter::Deaths, "deaths"),
    (QueueCounter::Refusals, "refusals"),
    (QueueCounter::ForeignLinks, "foreign_links"),
    (QueueCounter::ForeignConnections, "foreign_connections"),
    (QueueCounter::ForeignPrivateBytes, "foreign_private_bytes"),
    (QueueCounter::ForeignMappings, "foreign_mappings"),
    (QueueCounter::ForeignDescriptors, "foreign_descriptors"),
    (QueueCounter::ForeignEvents, "foreign_events"),
];

/// What the peers of one other user hold of a node, in the order of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Links.
    Links,
    /// Connections.
    Connections,
    /// Bytes of private memory.
    PrivateBytes,
    /// Mappings.
    Mappings,
    /// Descriptors.
    Descriptors,
    /// Events that have not been handed out.
    Events,
}

/// Number of [`Held`], with their names.
pub const HELD: [(Held, &str); 6] = [
    (Held::Links, "links"),
    (Held::Connections, "connections"),
    (Held::PrivateBytes, "private_bytes"),
    (Held::Mappings, "mappings"),
    (Held::Descriptors, "descriptors"),
    (Held::Events, "events"),
];

/// Users that a page has room for; what others hold is in the sums only.
pub const USERS_MAX: usize = 32;

/// Counters of a connection, in their order in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Messages sent (writes, for a stream).
    MessagesOut,
    /// Bytes sent.
    BytesOut,
    /// Messages received (reads, for a stream).
    MessagesIn,
    /// Bytes received.
    BytesIn,
    /// Times sending found the ring full.
    Full,
    /// Doorbells rung.
    Bells,
}

/// Number of [`Counter`]s.
pub const COUNTERS: usize = 6;

const FIRST_QUEUE_COUNTER: usize = 16;
const FIRST_USER: usize = 64;
const USER_WORDS: usize = 8;
const FIRST_COUNTER: usize = 5;
const PLACEMENT: usize = 9;
const REMOTES_UNCOUNTED: usize = 10;
const READER: usize = 11;
const LINE_BYTES: u64 = 64;
/// State of a slot that is in use.
const OPEN: u64 = 1;
const _: () = assert!(FIRST_QUEUE_COUNTER + QUEUE_COUNTERS.len() <= FIRST_USER);
const _: () = assert!((FIRST_USER + USERS_MAX * USER_WORDS) * 8 <= HEADER_BYTES);
const _: () = assert!(HELD.len() < USER_WORDS);
const _: () =
    assert!((FIRST_COUNTER + COUNTERS) * 8 <= 12 * 8 && 12 * 8 + NAME_BYTES == SLOT_BYTES);

/// Bytes of a page with this many slots.
#[must_use]
pub fn page_bytes(slots: u32) -> usize {
    slot_offset(slots)
}

fn slot_offset(number: u32) -> usize {
    HEADER_BYTES + REMOTES_BYTES + number as usize * SLOT_BYTES
}

/// Who a node is, for the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Process.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// CLOCK_MONOTONIC when the node was made, in nanoseconds.
    pub started_ns: u64,
    /// Random number of the node.
    pub node_id: [u64; 2],
}

/// Whether memory lies on huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Huge {
    /// As the system does it.
    #[default]
    No,
    /// As much as the kernel gave.
    Tried,
    /// All of it.
    Required,
}

/// How the memory that a node makes is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// It is kept from being swapped out.
    pub locked: bool,
    /// The NUMA node that its pages are taken from.
    pub numa_node: Option<u32>,
    /// Whether it lies on huge pages.
    pub huge_pages: Huge,
}

impl Placed {
    fn pack(self) -> u64 {
        let huge = match self.huge_pages {
            Huge::No => 0,
            Huge::Tried => 1,
            Huge::Required => 2,
        };
        let node = self.numa_node.map_or(0, |node| u64::from(node) << 32 | 2);
        u64::from(self.locked) | huge << 2 | node
    }

    fn unpack(word: u64) -> Placed {
        Placed {
            locked: word & 1 != 0,
            numa_node: (word & 2 != 0).then_some((word >> 32) as u32),
            huge_pages: match word >> 2 & 3 {
                1 => Huge::Tried,
                2 => Huge::Required,
                _ => Huge::No,
            },
        }
    }
}

/// Where the region of a connection's ring lies in its owner's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// The descriptor of that memory in the process of the owner.
    pub fd_number: u32,
    /// Where the region begins in it, in bytes: a multiple of 64.
    pub offset_bytes: u64,
}

impl RegionPlace {
    /// For the upper halves of the words 1 and 2; zeros, which say nothing, if it has no room.
    fn pack(place: Option<RegionPlace>) -> (u64, u64) {
        let fit = |place: RegionPlace| {
            let lines = u32::try_from(place.offset_bytes / LINE_BYTES).ok()?;
            let fd = place.fd_number.checked_add(1)?;
            Some((u64::from(lines) << 32, u64::from(fd) << 32))
        };
        place.and_then(fit).unwrap_or_default()
    }

    fn unpack(first: u64, second: u64) -> Option<RegionPlace> {
        Some(RegionPlace {
            fd_number: ((second >> 32) as u32).checked_sub(1)?,
            offset_bytes: (first >> 32) * LINE_BYTES,
        })
    }
}

fn remotes_of(page: &Window) -> Remotes {
    // A page has them: whoever made or opened it has asked for more.
    Remotes::new(page, HEADER_BYTES, REMOTES_UNCOUNTED * 8)
}

/// The node's end of the page.
#[derive(Clone, Debug)]
pub struct CounterPage {
    window: Window,
    slots: u32,
}

impl CounterPage {
    /// Initialises a zeroed region of [`page_bytes`]`(slots)`; `None` if it is too small.
    #[must_use]
    pub fn create(region: &Region, slots: u32, identity: Identity) -> Option<CounterPage> {
        let window = region.window(0, page_bytes(slots))?;
        let page = CounterPage { window, slots };
        page.set(1, VERSION);
        page.set(2, u64::from(identity.pid));
        page.set(3, u64::from(identity.uid));
        page.set(4, identity.started_ns);
        page.set(5, u64::from(slots));
        page.set(7, identity.node_id[0]);
        page.set(8, identity.node_id[1]);
        // Release pairs with the Acquire load of the magic in `CounterView::open`.
        page.window.word_mut(0).store(MAGIC, Ordering::Release);
        Some(page)
    }

    /// Says how the memory that the node makes is placed.
    pub fn set_placed(&self, placed: Placed) {
        self.set(PLACEMENT, placed.pack());
    }

    #[inline]
    fn set(&self, word: usize, value: u64) {
        // Relaxed: a counter; readers tolerate any mixture of old and new.
        self.window
            .word_mut(word * 8)
            .store(value, Ordering::Relaxed);
    }

    /// Adds to a counter of the event queue. Callable from any thread.
    #[inline]
    pub fn add(&self, counter: QueueCounter, by: u64) {
        let word = self
            .window
            .word_mut((FIRST_QUEUE_COUNTER + counter as usize) * 8);
        // Relaxed: a counter; nothing is ordered by it.
        word.fetch_add(by, Ordering::Relaxed);
    }

    /// Takes from a counter of the event queue that counts what is open now.
    pub fn sub(&self, counter: QueueCounter, by: u64) {
        let word = self
            .window
            .word_mut((FIRST_QUEUE_COUNTER + counter as usize) * 8);
        // Relaxed: a counter; nothing is ordered by it.
        word.fetch_sub(by, Ordering::Relaxed);
    }

    /// Begins to count what the peers of a user hold; `None` if there is no room for one more.
    /// One thread at a time opens.
    #[must_use]
    pub fn open_user(&self, uid: u32) -> Option<UserCounters> {
        let places = (0..USERS_MAX).map(|at| (FIRST_USER + at * USER_WORDS) * 8);
        // Acquire pairs with the Release store in `UserCounters::close`: all words are zero.
        let mut free = places.filter(|at| self.window.word(*at).load(Ordering::Acquire) == 0);
        let user = UserCounters {
            window: self.window.sub(free.next()?, USER_WORDS * 8)?,
        };
        // Release pairs with the Acquire load in `CounterView::users`.
        let word = user.window.word_mut(0);
        word.store(u64::from(uid) + 1, Ordering::Release);
        Some(user)
    }

    /// Shows a link to another host. Callable from any thread.
    #[must_use]
    pub fn open_remote(&self, about: &RemoteInfo<'_>) -> RemoteCounters {
        remotes::open(self.remotes(), about)
    }

    fn remotes(&self) -> Remotes {
        remotes_of(&self.window)
    }

    /// Opens slot `number` for a connection; `None` if the page has no such slot (the
    /// connection then goes uncounted).
    #[must_use]
    pub fn open_slot(&self, number: u32, about: &SlotInfo<'_>) -> Option<SlotCounters> {
        if number >= self.slots {
            return None;
        }
        let slot = SlotCounters {
            window: self.window.sub(slot_offset(number), SLOT_BYTES)?,
        };
        // Release, a fence: pairs with the Acquire fence in `SlotView::counter`. Who sees a counter of the new connection
        // sees that word 0 is not that of the old one any more.
        fence(Ordering::Release);
        for word in 1..SLOT_BYTES / 8 {
            slot.set(word, 0);
        }
        let (lines, fd) = RegionPlace::pack(about.region);
        slot.set(1, lines | u64::from(about.connection));
        slot.set(2, fd | u64::from(about.peer_pid));
        let remote = about.remote.map_or(0, |number| u64::from(number) + 1);
        slot.set(3, remote << 32 | u64::from(about.peer_uid));
        let sizes = u64::from(about.ring_bytes_in) << 32 | u64::from(about.ring_bytes_out);
        slot.set(4, sizes);
        let mut name = [0_u8; NAME_BYTES];
        let len = about.name.len().min(NAME_BYTES);
        name[..len].copy_from_slice(&about.name.as_bytes()[..len]);
        slot.window.write_bytes(12 * 8, &name);
        // Release pairs with the Acquire load of the state in `CounterView::slot`.
        let state = about.state();
        slot.window.word_mut(0).store(state, Ordering::Release);
        // Relaxed: the highest slot is a hint for readers.
        let word = self.window.word_mut(6 * 8);
        word.fetch_max(u64::from(number) + 1, Ordering::Relaxed);
        Some(slot)
    }
}

/// The writable counters of one user.
#[derive(Clone, Debug)]
pub struct UserCounters {
    window: Window,
}

impl UserCounters {
    /// They hold so much more. Callable from any thread.
    pub fn add(&self, what: Held, by: u64) {
        let word = self.window.word_mut((1 + what as usize) * 8);
        // Relaxed: a counter; nothing is ordered by it.
        word.fetch_add(by, Ordering::Relaxed);
    }

    /// They hold so much less.
    pub fn sub(&self, what: Held, by: u64) {
        let word = self.window.word_mut((1 + what as usize) * 8);
        // Relaxed: as above.
        word.fetch_sub(by, Ordering::Relaxed);
    }

    /// They hold nothing any more.
    pub fn close(&self) {
        // Release pairs with the Acquire load in `CounterPage::open_user`.
        self.window.word_mut(0).store(0, Ordering::Release);
    }
}

/// What a slot is opened with.
#[derive(Clone, Copy, Debug)]
pub struct SlotInfo<'a> {
    /// Number of the connection.
    pub connection: u32,
    /// Which use of that number this is: the low 24 bits are told.
    pub serial: u64,
    /// The number that the peer has given it, if that is known.
    pub peer_connection: Option<u32>,
    /// The peer's process, 0 if unknown.
    pub peer_pid: u32,
    /// The peer's user.
    pub peer_uid: u32,
    /// The record of its link to another host ([`RemoteCounters::number`]).
    pub remote: Option<u32>,
    /// Bytes of the ring we store into.
    pub ring_bytes_out: u32,
    /// Bytes of the ring we read from.
    pub ring_bytes_in: u32,
    /// Where the region of that ring lies, if that can be said.
    pub region: Option<RegionPlace>,
    /// Name connected to.
    pub name: &'a str,
}

impl SlotInfo<'_> {
    /// Word 0 of an open slot.
    fn state(&self) -> u64 {
        // A number that has no room is not said.
        let peer = self
            .peer_connection
            .and_then(|number| number.checked_add(1));
        let peer = u64::from(peer.unwrap_or(0));
        peer << 32 | (self.serial & 0xff_ffff) << 8 | OPEN
    }
}

/// The writable counters of one connection.
#[derive(Clone, Debug)]
pub struct SlotCounters {
    window: Window,
}

impl SlotCounters {
    #[inline]
    fn set(&self, word: usize, value: u64) {
        // Relaxed: a counter; readers tolerate any mixture of old and new.
        self.window
            .word_mut(word * 8)
            .store(value, Ordering::Relaxed);
    }

    /// Stores the value of a counter (its single writer keeps the sum).
    #[inline]
    pub fn store(&self, counter: Counter, value: u64) {
        self.set(FIRST_COUNTER + counter as usize, value);
    }

    /// Stores up to where the ring in has been read, in lines since the connection began.
    #[inline]
    pub fn store_reader(&self, position: u64) {
        self.set(READER, position);
    }

    /// Frees the slot.
    pub fn close(&self) {
        self.set(0, 0);
    }
}

/// A counters page seen from outside.
#[derive(Clone, Debug)]
pub struct CounterView {
    window: Window,
    slots: u32,
}

/// What the peers of a user hold, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCopy {
    /// The user.
    pub uid: u32,
    /// In the order of [`Held`].
    pub held: [u64; HELD.len()],
}

/// A copy of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCopy {
    /// Word 0 as it is: another one as soon as another connection has the slot.
    pub state: u64,
    /// Number of the connection.
    pub connection: u32,
    /// The number that the peer has given it, if that was said.
    pub peer_connection: Option<u32>,
    /// The peer's process, 0 if unknown.
    pub peer_pid: u32,
    /// The peer's user.
    pub peer_uid: u32,
    /// The record of its link to another host, as [`CounterView::remotes`] numbers them.
    pub remote: Option<u32>,
    /// Bytes of the ring stored into.
    pub ring_bytes_out: u32,
    /// Bytes of the ring read from.
    pub ring_bytes_in: u32,
    /// Where the region of that ring lies in its owner's memory, if that was said.
    pub region: Option<RegionPlace>,
    /// Up to where that ring has been read, in lines since the connection began.
    pub reader: u64,
    /// In the order of [`Counter`].
    pub counters: [u64; COUNTERS],
    /// Name connected to, perhaps cut.
    pub name: String,
}

impl CounterView {
    /// Opens a page that another process made; `None` if it is none of this version.
    #[must_use]
    pub fn open(region: &Region) -> Option<CounterView> {
        let header = region.window(0, HEADER_BYTES)?;
        // Acquire pairs with the Release store of the magic in `CounterPage::create`.
        if header.word(0).load(Ordering::Acquire) != MAGIC {
            return None;
        }
        // Relaxed: ordered by the load of the magic.
        let read = |word: usize| header.word(word * 8).load(Ordering::Relaxed);
        let slots = u32::try_from(read(5)).ok()?;
        if read(1) != VERSION {
            return None;
        }
        let window = region.window(0, page_bytes(slots))?;
        Some(CounterView { window, slots })
    }

    #[inline]
    fn read(&self, word: usize) -> u64 {
        // Relaxed: a counter; any recent value will do.
        self.window.word(word * 8).load(Ordering::Relaxed)
    }

    /// Who the node is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            pid: self.read(2) as u32,
            uid: self.read(3) as u32,
            started_ns: self.read(4),
            node_id: [self.read(7), self.read(8)],
        }
    }

    /// How the memory that the node makes is placed.
    #[must_use]
    pub fn placed(&self) -> Placed {
        Placed::unpack(self.read(PLACEMENT))
    }

    /// A counter of the event queue.
    #[must_use]
    pub fn queue_counter(&self, counter: QueueCounter) -> u64 {
        self.read(FIRST_QUEUE_COUNTER + counter as usize)
    }

    /// What the peers of each other user hold.
    #[must_use]
    pub fn users(&self) -> Vec<UserCopy> {
        let places = (0..USERS_MAX).map(|at| FIRST_USER + at * USER_WORDS);
        let user = |first: usize| {
            // Acquire pairs with the Release store in `CounterPage::open_user`.
            let number = self.window.word(first * 8).load(Ordering::Acquire);
            let uid = u32::try_from(number.checked_sub(1)?).ok()?;
            let held = core::array::from_fn(|at| self.read(first + 1 + at));
            Some(UserCopy { uid, held })
        };
        places.filter_map(user).collect()
    }

    /// Its links to other hosts, with the numbers of their records.
    #[must_use]
    pub fn remotes(&self) -> Vec<(u32, RemoteCopy)> {
        remotes_of(&self.window).copies()
    }

    /// How many more there are than have a record.
    #[must_use]
    pub fn remotes_uncounted(&self) -> u64 {
        self.read(REMOTES_UNCOUNTED)
    }

    /// Slots to look at: beyond them none has ever been used.
    #[must_use]
    pub fn slots_used(&self) -> u32 {
        (self.read(6) as u32).min(self.slots)
    }

    /// A copy of slot `number`, if a connection is open there.
    #[must_use]
    pub fn slot(&self, number: u32) -> Option<SlotCopy> {
        if number >= self.slots {
            return None;
        }
        let slot = self.window.sub(slot_offset(number), SLOT_BYTES)?;
        // Acquire pairs with the Release store of the state in `open_slot`.
        let state = slot.word(0).load(Ordering::Acquire);
        if state == 0 {
            return None;
        }
        // Relaxed: counters; any recent value will do.
        let read = |word: usize| slot.word(word * 8).load(Ordering::Relaxed);
        let (first, second) = (read(1), read(2));
        let mut name = [0; NAME_BYTES];
        slot.read_bytes(12 * 8, &mut name);
        let len = name.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        Some(SlotCopy {
            state,
            connection: first as u32,
            peer_connection: ((state >> 32) as u32).checked_sub(1),
            peer_pid: second as u32,
            peer_uid: read(3) as u32,
            remote: ((read(3) >> 32) as u32).checked_sub(1),
            ring_bytes_out: read(4) as u32,
            ring_bytes_in: (read(4) >> 32) as u32,
            region: RegionPlace::unpack(first, second),
            reader: read(READER),
            counters: core::array::from_fn(|i| read(FIRST_COUNTER + i)),
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
        })
    }

    /// Slot `number`, to be looked at as long as its word 0 is `state`, as [`SlotCopy::state`] has it.
    #[must_use]
    pub fn watch(&self, number: u32, state: u64) -> Option<SlotView> {
        if number >= self.slots {
            return None;
        }
        let slot = self.window.sub(slot_offset(number), SLOT_BYTES)?;
        Some(SlotView { slot, state })
    }
}

/// The counters of one connection, for who looks again and again.
#[derive(Clone, Debug)]
pub struct SlotView {
    slot: Window,
    state: u64,
}

impl SlotView {
    /// A counter; `None` if the connection has ended.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> Option<u64> {
        // Relaxed: a counter; any recent value will do.
        let value = self
            .slot
            .word((FIRST_COUNTER + counter as usize) * 8)
            .load(Ordering::Relaxed);
        // Acquire, a fence: pairs with the Release fence in `open_slot`.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let state = self.slot.word(0).load(Ordering::Relaxed);
        (state == self.state && state != 0).then_some(value)
    }
}

#[cfg(test)]
mod tests;
