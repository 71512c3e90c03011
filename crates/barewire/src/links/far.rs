//! Accesses to memory on another host: what handles ask for, what the proxy of the link sends, and what it hears.
//!
//! A [`Far`] stands between threads that access an aperture of another host ([`crate::links::asking`]) and the proxy that
//! carries the accesses over its link. Each access becomes one or more [`Request`]s, in one queue of the link. So they
//! are carried out by the owner in the order in which they were made.
//!
//! A put is *posted*: it is done when its requests are in the queue. Everything else has a *ticket*, under which the answer
//! comes. Each answer is awaited, and comes once.
//!
//! Memory is bounded. The queue has at most [`QUEUE_BYTES_MAX`]: who finds no room waits. The answers that are under way have
//! at most [`ANSWER_BYTES_MAX`], so that the owner's proxy can keep them all until they are sent, and never has to
//! stop reading for it. Two proxies that stopped for each other would wait for ever.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use barewire_sys::wake::{Epoll, EpollEvent, EventFd, Interest};
use slab::Slab;

/// Longer puts and gets go in pieces, so that they do not hold up the rest of the link.
pub(crate) const PIECE_BYTES: usize = 32 << 10;
/// Bytes of requests that wait to be sent.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// Bytes of answers that may be under way. The proxy of the owner ends the link of who asks for more.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;
/// What a request or an answer counts for, beside its payload. A record's header is shorter.
pub(crate) const OVERHEAD_BYTES: usize = 64;
/// The longest sleep: nothing depends on it.
const SLEEP_MAX: Duration = Duration::from_millis(50);
const TOKEN_BELL: u64 = 0;
const TOKEN_SET: u64 = 1;

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordOp {
    Load,
    Store,
    Add,
    /// Replaces the first operand by the second.
    Exchange,
}

/// What the other host is asked for. Offsets lie inside the aperture, which goes by its owner's number.
#[derive(Debug)]
pub(crate) enum Request {
    Put {
        aperture: u32,
        offset: u64,
        bytes: Vec<u8>,
        /// It is a whole put, which fires tripwires.
        fires: bool,
    },
    /// Pieces of a put have come, which as a whole fires tripwires.
    Fire {
        aperture: u32,
        offset: u64,
        len_bytes: u64,
    },
    Get {
        aperture: u32,
        offset: u64,
        len_bytes: u32,
        ticket: u32,
    },
    Word {
        aperture: u32,
        offset: u64,
        op: WordOp,
        operands: [u64; 2],
        ticket: u32,
    },
    /// Sets a tripwire on the owner's stores, under a number of ours.
    Arm {
        aperture: u32,
        offset: u64,
        len_bytes: u64,
        trap: u32,
        ticket: u32,
    },
    Disarm {
        trap: u32,
    },
}

impl Request {
    pub fn payload_bytes(&self) -> usize {
        match self {
            Request::Put { bytes, .. } => bytes.len(),
            Request::Fire { .. } => 8,
            Request::Get { .. } => 4,
            Request::Word { .. } => 24,
            Request::Arm { .. } => 12,
            Request::Disarm { .. } => 0,
        }
    }

    pub(super) fn cost_bytes(&self) -> usize {
        OVERHEAD_BYTES + self.payload_bytes()
    }
}

/// Why the other host, or the link, refuses an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The link is down.
    Gone,
    Revoked,
    /// There are as many tripwires on the aperture as may be.
    TableFull(u32),
    /// There are too many on one place of it.
    PlaceFull,
}

/// What is known of an aperture of the other host's.
pub(crate) struct FarAperture {
    /// By its owner.
    pub number: u32,
    revoked: AtomicBool,
}

impl FarAperture {
    pub fn is_revoked(&self) -> bool {
        // Acquire pairs with the Release in `Far::revoked`. Nothing else is read because of it.
        self.revoked.load(Ordering::Acquire)
    }
}

/// A tripwire on the stores of the other host.
struct FarTrap {
    /// The bit to ring for it, unless it only counts.
    source: Option<u32>,
    fired: u64,
}

/// An answer that is under way, or has come.
pub(super) enum Ticket {
    /// So many bytes are to come.
    Awaited(usize),
    /// As above; nobody wants it any more.
    Abandoned(usize),
    Answered(Result<Vec<u8>, Refusal>),
}

/// Everything under the lock. It is held for moments only.
pub(super) struct Queues {
    pub(super) ended: bool,
    requests: VecDeque<Request>,
    queue_bytes: usize,
    pub(super) tickets: Slab<Ticket>,
    answer_bytes: usize,
    apertures: HashMap<u32, Arc<FarAperture>>,
    traps: HashMap<u32, FarTrap>,
    last_trap: u32,
    /// A thread sleeps on the descriptors.
    is_led: bool,
    /// Others sleep until it, or whoever drives, wakes them.
    followers: usize,
}

/// What the thread sleeps on that leads.
pub(super) struct Bed {
    epoll: Epoll,
    bell: EventFd,
}

/// Accesses to the memory of one other host.
pub(crate) struct Far {
    queues: Mutex<Queues>,
    /// How many requests have been added, and how many of them have been sent or dropped. Changed under the lock.
    added: AtomicU64,
    sent: AtomicU64,
    changed: Condvar,
    bed: OnceLock<Option<Bed>>,
}

impl Far {
    pub fn new() -> Far {
        Far {
            queues: Mutex::new(Queues {
                ended: false,
                requests: VecDeque::new(),
                queue_bytes: 0,
                tickets: Slab::new(),
                answer_bytes: 0,
                apertures: HashMap::new(),
                traps: HashMap::new(),
                last_trap: 0,
                is_led: false,
                followers: 0,
            }),
            added: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            changed: Condvar::new(),
            bed: OnceLock::new(),
        }
    }

    pub(super) fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed that somebody may wait for.
    fn tell(&self, queues: &Queues) {
        if queues.is_led {
            if let Some(Some(bed)) = self.bed.get() {
                // Failing means that the counter is full: then it wakes all the same.
                let _ = bed.bell.signal();
            }
        }
        if queues.followers > 0 {
            self.changed.notify_all();
        }
    }
}

/// For the proxy.
impl Far {
    /// The other host grants an aperture; `false` if it has done so already.
    pub fn granted(&self, number: u32) -> bool {
        let aperture = Arc::new(FarAperture {
            number,
            revoked: AtomicBool::new(false),
        });
        self.queues().apertures.insert(number, aperture).is_none()
    }

    /// It has withdrawn one.
    pub fn revoked(&self, number: u32) {
        let queues = self.queues();
        if let Some(aperture) = queues.apertures.get(&number) {
            // Release pairs with the Acquire in `is_revoked`.
            aperture.revoked.store(true, Ordering::Release);
        }
        self.tell(&queues);
    }

    /// Our node has given one back.
    pub fn released(&self, number: u32) {
        self.queues().apertures.remove(&number);
    }

    /// How many requests have been added so far. What our node publishes after it has made an access is seen after this
    /// counts the access: so a proxy that sends those first keeps the order.
    #[inline]
    pub fn added(&self) -> u64 {
        // Acquire pairs with the Release in `push`.
        self.added.load(Ordering::Acquire)
    }

    /// Whether as many have been sent.
    #[inline]
    pub fn has_sent(&self, added: u64) -> bool {
        // Relaxed: only the proxy changes it, under a lock of its own.
        self.sent.load(Ordering::Relaxed) >= added
    }

    /// Whether requests wait to be sent.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.has_sent(self.added())
    }

    /// The next request, if `fits` says of its payload that there is room for it.
    pub fn next_request(&self, fits: impl FnOnce(usize) -> bool) -> Option<Request> {
        let mut queues = self.queues();
        let next_bytes = queues.requests.front()?.payload_bytes();
        if !fits(next_bytes) {
            return None;
        }
        let was_full = queues.queue_bytes > QUEUE_BYTES_MAX / 2;
        let request = queues.requests.pop_front()?;
        queues.queue_bytes -= request.cost_bytes();
        if was_full && queues.queue_bytes <= QUEUE_BYTES_MAX / 2 {
            self.tell(&queues);
        }
        // Relaxed: as in `has_sent`.
        self.sent.fetch_add(1, Ordering::Relaxed);
        Some(request)
    }

    /// An answer has come.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn answered(
        &self,
        ticket: u32,
        answer: Result<&[u8], Refusal>,
    ) -> Result<(), &'static str> {
        let mut queues = self.queues();
        if queues.ended {
            return Ok(());
        }
        let key = ticket as usize;
        let (expected, is_wanted) = match queues.tickets.get(key) {
            Some(Ticket::Awaited(bytes)) => (*bytes, true),
            Some(Ticket::Abandoned(bytes)) => (*bytes, false),
            Some(Ticket::Answered(_)) | None => return Err("answer to what was not asked"),
        };
        if answer.is_ok_and(|bytes| bytes.len() != expected) {
            return Err("answer of another length than asked for");
        }
        queues.answer_bytes -= OVERHEAD_BYTES + expected;
        if is_wanted {
            queues.tickets[key] = Ticket::Answered(answer.map(<[u8]>::to_vec));
        } else {
            queues.tickets.remove(key);
        }
        self.tell(&queues);
        Ok(())
    }

    /// A tripwire on the other host's stores has fired so many times more: the bit to ring for it. Those that have been
    /// taken away meanwhile are ignored.
    pub fn fired(&self, trap: u32, times: u64) -> Option<u32> {
        let mut queues = self.queues();
        let trap = queues.traps.get_mut(&trap)?;
        trap.fired = trap.fired.wrapping_add(times);
        trap.source
    }

    /// Nothing more can be asked for. What was posted may still be sent.
    pub fn end(&self) {
        let mut queues = self.queues();
        queues.ended = true;
        self.tell(&queues);
    }

    /// As [`Far::end`], and nothing more can be sent.
    pub fn clear(&self) {
        let mut queues = self.queues();
        queues.ended = true;
        queues.requests = VecDeque::new();
        queues.queue_bytes = 0;
        // Relaxed: as in `has_sent`; what is added is so under the lock.
        let added = self.added.load(Ordering::Relaxed);
        self.sent.store(added, Ordering::Relaxed);
        self.tell(&queues);
    }
}

/// For who asks.
impl Far {
    pub fn aperture(&self, number: u32) -> Option<Arc<FarAperture>> {
        self.queues().apertures.get(&number).cloned()
    }

    /// A number for a tripwire, which is not used again soon: a firing may be under way to the last that had it.
    pub(super) fn add_trap(&self, source: Option<u32>) -> u32 {
        let mut queues = self.queues();
        loop {
            queues.last_trap = queues.last_trap.wrapping_add(1);
            let number = queues.last_trap;
            if let Entry::Vacant(free) = queues.traps.entry(number) {
                free.insert(FarTrap { source, fired: 0 });
                return number;
            }
        }
    }

    pub(super) fn remove_trap(&self, number: u32) -> bool {
        self.queues().traps.remove(&number).is_some()
    }

    /// How often a tripwire has fired.
    pub fn count(&self, trap: u32) -> u64 {
        self.queues().traps.get(&trap).map_or(0, |trap| trap.fired)
    }

    /// Adds a request without an answer, whether or not there is room.
    pub(super) fn push(&self, queues: &mut Queues, request: Request) {
        queues.queue_bytes += request.cost_bytes();
        queues.requests.push_back(request);
        // Release pairs with the Acquire in `added`.
        self.added.fetch_add(1, Ordering::Release);
    }

    /// Waits for a change of what `step` looks at, but not longer than [`SLEEP_MAX`]: on the descriptors, or until another
    /// thread that does so wakes us.
    /// `set`: those descriptors. `lie_down`: sleeps by [`Bed::sleep`], if that may be.
    pub(super) fn sleep<T>(
        &self,
        set: BorrowedFd<'_>,
        lie_down: impl FnOnce(&Bed),
        step: &mut impl FnMut(&mut Queues) -> Option<T>,
    ) -> Option<T> {
        let bed = self.bed.get_or_init(|| Bed::new(set));
        let mut queues = self.queues();
        let found = step(&mut queues);
        if found.is_some() {
            return found;
        }
        let Some(bed) = bed.as_ref().filter(|_| !queues.is_led) else {
            queues.followers += 1;
            let longest = if queues.is_led {
                SLEEP_MAX
            } else {
                // No descriptor is left to sleep on.
                SLEEP_MAX / 50
            };
            let waited = self.changed.wait_timeout(queues, longest);
            let mut queues = waited.unwrap_or_else(PoisonError::into_inner).0;
            queues.followers -= 1;
            return step(&mut queues);
        };
        queues.is_led = true;
        drop(queues);
        lie_down(bed);
        let mut queues = self.queues();
        queues.is_led = false;
        if queues.followers > 0 {
            // One of them leads now.
            self.changed.notify_one();
        }
        None
    }
}

impl Queues {
    /// Whether there is room for a request, and for its answer if it has one.
    pub(super) fn has_room(&self, cost_bytes: usize, answer_bytes: Option<usize>) -> bool {
        let answer_bytes = answer_bytes.map_or(0, |bytes| OVERHEAD_BYTES + bytes);
        self.queue_bytes + cost_bytes <= QUEUE_BYTES_MAX
            && self.answer_bytes + answer_bytes <= ANSWER_BYTES_MAX
    }

    /// A ticket for an answer of so many bytes, for which there is room.
    pub(super) fn add_ticket(&mut self, answer_bytes: usize) -> u32 {
        self.answer_bytes += OVERHEAD_BYTES + answer_bytes;
        self.tickets.insert(Ticket::Awaited(answer_bytes)) as u32
    }
}

impl Bed {
    fn new(set: BorrowedFd<'_>) -> Option<Bed> {
        let bed = Bed {
            epoll: Epoll::new().ok()?,
            bell: EventFd::new().ok()?,
        };
        bed.epoll.add(&bed.bell, TOKEN_BELL, Interest::READ).ok()?;
        bed.epoll.add(set, TOKEN_SET, Interest::READ).ok()?;
        Some(bed)
    }

    /// Sleeps until a link can be driven, or the bell rings.
    pub fn sleep(&self) {
        let mut events: Vec<EpollEvent> = Vec::with_capacity(2);
        // Whatever comes of it is seen by the next look.
        let _ = self.epoll.wait(&mut events, Some(SLEEP_MAX));
        if events.iter().any(|event| event.token == TOKEN_BELL) {
            let _ = self.bell.drain();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(far: &Far, len_bytes: u32) -> u32 {
        let mut queues = far.queues();
        let ticket = queues.add_ticket(len_bytes as usize);
        let (aperture, offset) = (1, 0);
        far.push(
            &mut queues,
            Request::Get {
                aperture,
                offset,
                len_bytes,
                ticket,
            },
        );
        ticket
    }

    #[test]
    fn answers_are_taken_once_and_only_as_asked() {
        let far = Far::new();
        let ticket = get(&far, 4);
        assert!(far.answered(ticket + 1, Ok(&[0; 4])).is_err());
        assert!(far.answered(u32::MAX, Err(Refusal::Revoked)).is_err());
        assert!(far.answered(ticket, Ok(&[0; 5])).is_err());
        assert_eq!(far.answered(ticket, Ok(&[1; 4])), Ok(()));
        assert!(far.answered(ticket, Ok(&[1; 4])).is_err());
        assert_eq!(far.queues().answer_bytes, 0);
    }

    #[test]
    fn requests_leave_in_order_and_make_room() {
        let far = Far::new();
        let first = get(&far, 8);
        get(&far, 9);
        assert!(far.next_request(|_| false).is_none());
        let next = far.next_request(|bytes| bytes == 4);
        assert!(matches!(next, Some(Request::Get { ticket, .. }) if ticket == first));
        assert!(far.has_requests());
        assert!(far.next_request(|_| true).is_some() && !far.has_requests());
        assert_eq!(far.queues().queue_bytes, 0);
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let far = Far::new();
        let mut asked = 0;
        while far.queues().has_room(64, Some(PIECE_BYTES)) {
            get(&far, PIECE_BYTES as u32);
            asked += 1;
        }
        assert_eq!(asked, ANSWER_BYTES_MAX / (PIECE_BYTES + OVERHEAD_BYTES));
        far.clear();
        assert!(!far.has_requests() && far.queues().ended);
        assert_eq!(far.answered(77, Ok(&[])), Ok(()), "nobody asks any more");
    }

    #[test]
    fn firings_of_tripwires_taken_away_are_ignored() {
        let far = Far::new();
        let trap = far.add_trap(Some(7));
        assert_eq!(far.fired(trap, 2), Some(7));
        assert_eq!(far.count(trap), 2);
        assert!(far.remove_trap(trap));
        assert_eq!((far.fired(trap, 1), far.count(trap)), (None, 0));
        assert_ne!(far.add_trap(None), trap);
    }
}
