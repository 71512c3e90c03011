//! A fabric within one process: memory of its own behind plain windows, a list of
//! tripwires, a locked queue. It is the plainest thing that the suites accept, and what
//! the flaws of [`broken`](super::broken) are built into.

mod connections;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::Violation;
use barewire_fabric::aperture::{
    AccessError, Action, EventSource, Memory, Mode, Notice, OwnerTripwires, Rights, Trap,
    TripwireSet,
};
use barewire_fabric::doorbell::PAGE_BYTES;
use barewire_fabric::frame::CREDIT;
use barewire_fabric::memory::{Fences, Incoming, Outgoing, SharedWords};
use barewire_shm::{Region, Window};

use super::broken as flaw;
use crate::fabric::{
    ApertureEnd, ApertureEnds, Apertures, Doorbells, FabricUnderTest, Side, Windows,
};

pub use connections::{Line, PrivateStream, Refused};

/// The fabric, with one flaw or none.
pub struct Private<const FLAW: u8>;

impl<const FLAW: u8> FabricUnderTest for Private<FLAW> {
    const NAME: &'static str = if FLAW == flaw::SOUND {
        "private memory"
    } else {
        "private memory with a flaw"
    };
    const PATIENCE: Duration = if FLAW == flaw::SOUND {
        Duration::from_secs(20)
    } else {
        Duration::from_millis(500)
    };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Suites panic on purpose.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---- windows ----

/// A store that has not been made.
type Held = (usize, Vec<u8>);

/// The storing end of a private window.
pub struct Out<const FLAW: u8> {
    window: Window,
    held: Mutex<Vec<Held>>,
}

impl<const FLAW: u8> Out<FLAW> {
    fn let_go(&self) {
        for (offset, bytes) in lock(&self.held).drain(..) {
            self.window.write_bytes(offset, &bytes);
        }
    }

    fn outside(&self, offset: usize, len: usize) -> bool {
        let end = offset.checked_add(len);
        end.is_none_or(|end| end > self.window.len_bytes()) || (len == 8 && offset % 8 != 0)
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        if FLAW == flaw::UNBOUNDED && self.outside(offset, bytes.len()) {
            return;
        }
        if FLAW == flaw::LATE {
            self.let_go();
        }
        if FLAW == flaw::UNORDERED || FLAW == flaw::LATE {
            lock(&self.held).push((offset, bytes.to_vec()));
            return;
        }
        Outgoing::write(&self.window, offset, bytes);
    }
}

impl<const FLAW: u8> Outgoing for Out<FLAW> {
    fn len_bytes(&self) -> usize {
        self.window.len_bytes()
    }
    fn write(&self, offset: usize, bytes: &[u8]) {
        self.store(offset, bytes);
    }
    fn write_u64(&self, offset: usize, value: u64) {
        if matches!(FLAW, flaw::UNORDERED | flaw::LATE | flaw::UNBOUNDED) {
            self.store(offset, &value.to_ne_bytes());
        } else {
            self.window.write_u64(offset, value);
        }
    }
    fn publish_u64(&self, offset: usize, value: u64) {
        match FLAW {
            flaw::NO_CREDIT if offset == CREDIT => {}
            flaw::LATE | flaw::UNBOUNDED => self.store(offset, &value.to_ne_bytes()),
            flaw::UNORDERED => {
                self.window.publish_u64(offset, value);
                thread::sleep(Duration::from_millis(1));
                self.let_go();
            }
            flaw::TORN => {
                let bytes = value.to_ne_bytes();
                self.window.write_bytes(offset, &bytes[..4]);
                thread::yield_now();
                self.window.write_bytes(offset + 4, &bytes[4..]);
            }
            _ => self.window.publish_u64(offset, value),
        }
    }
}

/// The loading end of a private window.
pub struct In<const FLAW: u8>(Window);

impl<const FLAW: u8> Incoming for In<FLAW> {
    fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }
    fn read(&self, offset: usize, into: &mut [u8]) {
        self.0.read(offset, into);
    }
    fn read_u64(&self, offset: usize) -> u64 {
        self.0.read_u64(offset)
    }
    fn observe_u64(&self, offset: usize) -> u64 {
        self.0.observe_u64(offset)
    }
}

/// Full fences on both sides.
pub struct FullFences;

impl Fences for FullFences {
    fn light(&self) {
        fence(Ordering::SeqCst);
    }
    fn heavy(&self) {
        fence(Ordering::SeqCst);
    }
}

impl<const FLAW: u8> Windows for Private<FLAW> {
    type Out = Out<FLAW>;
    type In = In<FLAW>;
    type Fence = FullFences;

    fn windows(len_bytes: usize) -> [Side<Self>; 2] {
        let [to_b, to_a] = [(), ()].map(|()| Region::private(len_bytes).whole());
        [(&to_b, &to_a), (&to_a, &to_b)].map(|(out, inn)| Side {
            out: Out {
                window: out.clone(),
                held: Mutex::default(),
            },
            inn: In(inn.clone()),
            fences: FullFences,
        })
    }
}

// ---- doorbells ----

/// A private doorbell page.
pub struct Words<const FLAW: u8> {
    page: Window,
    held: Mutex<Option<(usize, u64)>>,
}

impl<const FLAW: u8> Words<FLAW> {
    fn let_go(&self) {
        if let Some((index, value)) = lock(&self.held).take() {
            self.page.store(index, value);
        }
    }
}

impl<const FLAW: u8> SharedWords for Words<FLAW> {
    fn load(&self, index: usize) -> u64 {
        self.page.load(index)
    }
    fn store(&self, index: usize, value: u64) {
        self.let_go();
        if FLAW == flaw::LATE_SLEEP {
            *lock(&self.held) = Some((index, value));
        } else {
            self.page.store(index, value);
        }
    }
    fn or(&self, index: usize, bits: u64) -> u64 {
        self.let_go();
        if FLAW == flaw::LOSES_BITS {
            let before = self.page.load(index);
            thread::yield_now();
            self.page.store(index, before | bits);
            return before;
        }
        self.page.or(index, bits)
    }
    fn take(&self, index: usize) -> u64 {
        self.let_go();
        self.page.take(index)
    }
    fn settle(&self) {
        self.page.settle();
    }
    fn fence(&self) {
        self.page.fence();
    }
}

impl<const FLAW: u8> Doorbells for Private<FLAW> {
    type Words = Words<FLAW>;

    fn page() -> [Words<FLAW>; 3] {
        let page = Region::private(PAGE_BYTES).whole();
        [(), (), ()].map(|()| Words {
            page: page.clone(),
            held: Mutex::default(),
        })
    }
}

// ---- event queues ----

#[derive(Default)]
struct Events {
    fired: VecDeque<Arc<Wire>>,
    ready: BTreeSet<u64>,
    woken: bool,
}

#[derive(Default)]
struct QueueShared<const FLAW: u8> {
    events: Mutex<Events>,
    bell: Condvar,
}

/// A locked list of events.
#[derive(Clone, Default)]
pub struct Queue<const FLAW: u8>(Arc<QueueShared<FLAW>>);

impl<const FLAW: u8> Queue<FLAW> {
    fn change(&self, change: impl FnOnce(&mut Events)) {
        change(&mut lock(&self.0.events));
        if FLAW != flaw::DOES_NOT_WAKE {
            self.0.bell.notify_all();
        }
    }

    fn collect(events: &mut Events, notices: &mut Vec<Notice>, max: usize) -> usize {
        let before = notices.len();
        while notices.len() - before < max {
            if let Some(connection) = events.ready.pop_first() {
                notices.push(Notice::Ready { connection });
            } else if let Some(wire) = events.fired.pop_front() {
                notices.extend(wire.reported::<FLAW>());
            } else {
                break;
            }
        }
        notices.len() - before
    }
}

impl<const FLAW: u8> EventSource for Queue<FLAW> {
    type Error = Violation;

    fn poll_notices(&self, notices: &mut Vec<Notice>, max: usize) -> Result<usize, Violation> {
        Ok(Self::collect(&mut lock(&self.0.events), notices, max))
    }

    fn wait_notices(
        &self,
        notices: &mut Vec<Notice>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize, Violation> {
        let deadline = Instant::now() + timeout;
        let mut events = lock(&self.0.events);
        loop {
            let found = Self::collect(&mut events, notices, max);
            if found > 0 || std::mem::take(&mut events.woken) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(0);
            }
            let waited = self.0.bell.wait_timeout(events, left);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

// ---- apertures and tripwires ----

struct Wire {
    offset: usize,
    len_bytes: usize,
    mode: Mode,
    action: Action,
    armed: AtomicBool,
    queued: AtomicBool,
    count: AtomicU64,
}

impl Wire {
    fn touched<const FLAW: u8>(&self, offset: usize, len_bytes: usize) -> bool {
        let (mut from, mut to) = (self.offset, self.offset + self.len_bytes);
        if FLAW == flaw::COARSE {
            (from, to) = (from / 64 * 64, to.next_multiple_of(64));
        }
        from < offset + len_bytes && to > offset
    }

    fn fire<const FLAW: u8>(self: &Arc<Wire>, queue: &Queue<FLAW>) {
        // SeqCst throughout: plain before fast.
        let once = self.mode == Mode::OneShot && FLAW != flaw::REPEATS;
        if !self.armed.load(Ordering::SeqCst) && FLAW != flaw::UNDEAD {
            return;
        }
        match self.action {
            Action::Count => {
                if !once || self.armed.swap(false, Ordering::SeqCst) {
                    self.count.fetch_add(1, Ordering::SeqCst);
                }
            }
            Action::Wake => queue.change(|events| {
                if once {
                    self.armed.store(false, Ordering::SeqCst);
                }
                events.woken = true;
            }),
            Action::Enqueue { .. } => queue.change(|events| {
                let queued = self.queued.swap(true, Ordering::SeqCst);
                let full = FLAW == flaw::FORGETS && events.fired.len() >= 64;
                if (!queued || FLAW == flaw::NOT_COALESCED) && !full {
                    events.fired.push_back(Arc::clone(self));
                }
            }),
        }
    }

    fn reported<const FLAW: u8>(&self) -> Option<Notice> {
        self.queued.store(false, Ordering::SeqCst);
        let armed = if self.mode == Mode::OneShot && FLAW != flaw::REPEATS {
            self.armed.swap(false, Ordering::SeqCst)
        } else {
            self.armed.load(Ordering::SeqCst) || FLAW == flaw::UNDEAD
        };
        match self.action {
            Action::Enqueue { cookie } if armed => Some(Notice::Tripwire { cookie }),
            _ => None,
        }
    }
}

type Wires = Arc<Mutex<Vec<Arc<Wire>>>>;

/// A tripwire of the private fabric.
pub struct PrivateTrap<const FLAW: u8> {
    wire: Arc<Wire>,
    wires: Wires,
}

impl<const FLAW: u8> Trap for PrivateTrap<FLAW> {
    fn is_armed(&self) -> bool {
        self.wire.armed.load(Ordering::SeqCst)
    }
    fn count(&self) -> u64 {
        self.wire.count.load(Ordering::SeqCst)
    }
    fn disarm(&self) {
        self.wire.armed.store(false, Ordering::SeqCst);
    }
}

impl<const FLAW: u8> Drop for PrivateTrap<FLAW> {
    fn drop(&mut self) {
        self.disarm();
        lock(&self.wires).retain(|wire| !Arc::ptr_eq(wire, &self.wire));
    }
}

struct Shared {
    memory: Window,
    len_bytes: usize,
    rights: Rights,
    /// Held for reading during an importer's access.
    revoked: RwLock<bool>,
}

/// One end of a private aperture.
pub struct End<const FLAW: u8> {
    shared: Arc<Shared>,
    wires: Wires,
    queue: Queue<FLAW>,
    /// At the importer's end: the owner's tripwires and queue.
    owner: Option<(Wires, Queue<FLAW>)>,
    /// The importer's tripwires on what the owner transfers, and its queue.
    on_owner: (Wires, Queue<FLAW>),
}

impl<const FLAW: u8> End<FLAW> {
    fn check(&self, offset: usize, len_bytes: usize) -> Result<(), AccessError> {
        let end = offset.checked_add(len_bytes);
        if end.is_some_and(|end| end <= self.shared.len_bytes) {
            return Ok(());
        }
        Err(AccessError::OutOfRange {
            offset,
            len_bytes,
            aperture_bytes: self.shared.len_bytes,
        })
    }

    fn check_word(&self, offset: usize) -> Result<(), AccessError> {
        if offset % 8 != 0 {
            return Err(AccessError::Misaligned { offset });
        }
        self.check(offset, 8)
    }

    /// Makes an access while the aperture can not be revoked.
    fn access<T>(&self, stores: bool, access: impl FnOnce() -> T) -> Result<T, AccessError> {
        let revoked = self.shared.revoked.read();
        let revoked = revoked.unwrap_or_else(PoisonError::into_inner);
        let imported = self.owner.is_some();
        if imported && *revoked && FLAW != flaw::IGNORES_REVOCATION {
            return Err(AccessError::Revoked);
        }
        let may_store = self.shared.rights == Rights::ReadWrite || FLAW == flaw::IGNORES_RIGHTS;
        if imported && stores && !may_store {
            return Err(AccessError::ReadOnly);
        }
        Ok(access())
    }

    /// After a transfer.
    fn touched(&self, offset: usize, len_bytes: usize) {
        if len_bytes == 0 {
            return;
        }
        let on_owner = (&self.on_owner.0, &self.on_owner.1);
        let mut fired = match &self.owner {
            None => vec![on_owner],
            Some((wires, queue)) => vec![(wires, queue), (&self.wires, &self.queue)],
        };
        if FLAW == flaw::TELLS_OF_IMPORTERS {
            fired.push(on_owner);
        }
        for (wires, queue) in fired {
            for wire in lock(wires).iter() {
                if wire.touched::<FLAW>(offset, len_bytes) {
                    wire.fire(queue);
                }
            }
        }
    }
}

impl<const FLAW: u8> Memory for End<FLAW> {
    fn len_bytes(&self) -> usize {
        self.shared.len_bytes
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let mut bytes = bytes;
        if FLAW == flaw::CUTS_PUTS && offset < self.shared.len_bytes {
            bytes = &bytes[..bytes.len().min(self.shared.len_bytes - offset)];
        }
        self.check(offset, bytes.len())?;
        if FLAW == flaw::EARLY {
            self.touched(offset, bytes.len());
            thread::sleep(Duration::from_millis(1));
        }
        self.access(true, || self.shared.memory.write_bytes(offset, bytes))?;
        if FLAW != flaw::EARLY {
            self.touched(offset, bytes.len());
        }
        Ok(())
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(offset, into.len())?;
        self.access(false, || self.shared.memory.read_bytes(offset, into))
    }

    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.check_word(offset)?;
        self.access(false, || self.shared.memory.atomic_load(offset))
    }

    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.check_word(offset)?;
        self.access(true, || self.shared.memory.atomic_store(offset, value))?;
        self.touched(offset, 8);
        Ok(())
    }

    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.check_word(offset)?;
        let memory = &self.shared.memory;
        let was = self.access(true, || {
            if FLAW == flaw::LOSES_SUMS {
                let was = memory.atomic_load(offset);
                thread::yield_now();
                memory.atomic_store(offset, was.wrapping_add(value));
                was
            } else {
                memory.atomic_add(offset, value)
            }
        })?;
        if self.owner.is_some() || FLAW != flaw::SILENT_SUMS {
            self.touched(offset, 8);
        }
        Ok(was)
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.check_word(offset)?;
        let memory = &self.shared.memory;
        let exchange = || memory.atomic_compare_exchange(offset, current, new);
        let found = self.access(true, exchange)?;
        if found.is_ok() {
            self.touched(offset, 8);
        }
        Ok(found)
    }
}

impl<const FLAW: u8> End<FLAW> {
    fn arm_among(
        &self,
        wires: &Wires,
        (offset, len_bytes): (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<PrivateTrap<FLAW>, AccessError> {
        // Of an empty range no byte lies inside.
        let past_the_end = if len_bytes == 0 {
            usize::MAX
        } else {
            len_bytes
        };
        self.check(offset, past_the_end)?;
        let wire = Arc::new(Wire {
            offset,
            len_bytes,
            mode,
            action,
            armed: AtomicBool::new(true),
            queued: AtomicBool::new(false),
            count: AtomicU64::new(0),
        });
        lock(wires).push(Arc::clone(&wire));
        Ok(PrivateTrap {
            wire,
            wires: Arc::clone(wires),
        })
    }
}

impl<const FLAW: u8> TripwireSet for End<FLAW> {
    type Trap = PrivateTrap<FLAW>;
    type Error = AccessError;

    fn arm(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<PrivateTrap<FLAW>, AccessError> {
        self.arm_among(&self.wires, (offset, len_bytes), mode, action)
    }
}

impl<const FLAW: u8> OwnerTripwires for End<FLAW> {
    fn arm_on_owner(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<PrivateTrap<FLAW>, AccessError> {
        self.arm_among(&self.on_owner.0, (offset, len_bytes), mode, action)
    }
}

impl<const FLAW: u8> Apertures for Private<FLAW> {
    type Owned = End<FLAW>;
    type Remote = End<FLAW>;
    type Queue = Queue<FLAW>;

    fn aperture(len_bytes: usize, rights: Rights) -> ApertureEnds<Self> {
        let shared = Arc::new(Shared {
            memory: Region::private(len_bytes).whole(),
            len_bytes,
            rights,
            revoked: RwLock::new(false),
        });
        let far_queue = Queue::default();
        let on_owner = (Wires::default(), far_queue.clone());
        let end = |queue: Queue<FLAW>, owner| ApertureEnd {
            memory: End {
                shared: Arc::clone(&shared),
                wires: Arc::default(),
                queue: queue.clone(),
                owner,
                on_owner: on_owner.clone(),
            },
            queue,
        };
        let owned = end(Queue::default(), None);
        let owner = (Arc::clone(&owned.memory.wires), owned.queue.clone());
        let remote = end(far_queue, Some(owner));
        (owned, remote)
    }

    fn revoke(owned: &End<FLAW>) {
        let revoked = owned.shared.revoked.write();
        *revoked.unwrap_or_else(PoisonError::into_inner) = true;
    }
}
