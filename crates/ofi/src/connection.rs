//! A connected endpoint with its queues and its memory, as a safe object.
//!
//! It knows nothing of what the messages mean. A slot is lent to the provider from the moment
//! an operation takes it until the operation completes (see `memory.rs`).

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use crate::error::OfiError;
use crate::library::{Info, Library};
use crate::memory::Slots;
use crate::objects::{BATCH, Completion, Completions, Event, Handle, WaitList};
use crate::raw::{
    FI_EAGAIN, fi_ops_msg, fid, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mr,
};
use crate::wait_set::WaitSet;

/// A fabric with its queue of events, and the descriptor that all of a link is waited for on.
///
/// The fields are in the order in which they have to be closed.
pub(crate) struct Events {
    set: WaitSet,
    queue: Handle<fid_eq>,
    queue_descriptor: RawFd,
    fabric: Handle<fid_fabric>,
    library: &'static Library,
}

impl Events {
    /// Opens the fabric that a description names.
    pub(crate) fn open(info: &Info) -> Result<Events, OfiError> {
        let library = info.library();
        let fabric = Handle::open(info)?;
        let (queue, queue_descriptor) = fabric.event_queue(library)?;
        let set = WaitSet::new()?;
        set.watch(queue_descriptor)?;
        Ok(Events {
            set,
            queue,
            queue_descriptor,
            fabric,
            library,
        })
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.queue.read(self.library)
    }

    /// Whether one may sleep until there is an event.
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.fabric.may_sleep(&mut [self.queue.fid()])
    }

    /// The descriptor to wait on.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// The descriptor of libfabric's queue of events.
    pub(crate) fn queue_descriptor(&self) -> RawFd {
        self.queue_descriptor
    }

    /// The fabric.
    pub(crate) fn fabric(&self) -> &Handle<fid_fabric> {
        &self.fabric
    }

    /// The queue of events.
    pub(crate) fn queue(&self) -> &Handle<fid_eq> {
        &self.queue
    }
}

/// How many slots there are, and how large they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Slots to send from.
    pub(crate) sends: usize,
    /// Slots to receive into.
    pub(crate) receives: usize,
    /// Bytes of each.
    pub(crate) slot_bytes: usize,
}

/// Whether the queue of completions is to name a list of descriptors to wait on. The provider
/// `tcp` of libfabric 1.17 then looks by `poll`, and each look is shorter. Later ones always
/// have a set of their own, and so have nothing to gain.
fn names_list(library: &Library, info: &Info) -> bool {
    const LAST_WITH_GAIN: u32 = 1 << 16 | 17;
    library.version_number() <= LAST_WITH_GAIN && info.describe().provider == "tcp"
}

/// What completed.
#[derive(Debug)]
pub(crate) enum Done {
    /// The operation on this slot; the slot is ours again. So many bytes were received.
    Slot(usize, usize),
    /// An operation, or the queue of completions, failed for this reason.
    Failed(String),
}

/// An endpoint, its queue of completions, and its memory.
///
/// The fields are in the order in which they have to be closed; the memory goes last, when
/// nobody uses it any more.
pub(crate) struct Connection {
    endpoint: Option<Handle<fid_ep>>,
    completions: Handle<fid_cq>,
    /// What the queue of completions is waited for on, if it names a list.
    wait_list: Option<WaitList>,
    registration: Option<Handle<fid_mr>>,
    _domain: Handle<fid_domain>,
    /// The queue of events and the fabric.
    pub(crate) events: Events,
    slots: Slots,
    /// Completions that were read and not given.
    batch: [Completion; BATCH],
    batch_at: usize,
    batch_end: usize,
    /// Why it can not be waited for, until told.
    failure: Option<String>,
    /// The longest message that is sent without a completion.
    inject_bytes: usize,
}

impl Connection {
    /// An endpoint of this description, with its own domain and queues.
    ///
    /// # Errors
    /// Why not; and the events, so that their owner can go on.
    pub(crate) fn new(
        events: Events,
        info: &Info,
        sizes: Sizes,
    ) -> Result<Connection, Box<(Events, OfiError)>> {
        let parts = Connection::parts(&events, info, sizes);
        let (domain, completions, endpoint, registration, slots) = match parts {
            Ok(parts) => parts,
            Err(error) => return Err(Box::new((events, error))),
        };
        Ok(Connection {
            endpoint: Some(endpoint),
            wait_list: names_list(events.library, info).then(WaitList::default),
            completions,
            registration,
            _domain: domain,
            events,
            slots,
            batch: [Completion {
                context: 0,
                bytes: 0,
            }; BATCH],
            batch_at: 0,
            batch_end: 0,
            failure: None,
            inject_bytes: info.describe().inject_bytes,
        })
    }

    #[allow(clippy::type_complexity)]
    fn parts(
        events: &Events,
        info: &Info,
        sizes: Sizes,
    ) -> Result<
        (
            Handle<fid_domain>,
            Handle<fid_cq>,
            Handle<fid_ep>,
            Option<Handle<fid_mr>>,
            Slots,
        ),
        OfiError,
    > {
        let (library, fabric) = (events.library, &events.fabric);
        let described = info.describe();
        let count = sizes.sends + sizes.receives;
        if sizes.sends > described.sends_max
            || sizes.receives > described.receives_max
            || sizes.slot_bytes > described.message_bytes_max
        {
            return Err(OfiError::Failed {
                what: "making an endpoint",
                reason: format!(
                    "the provider allows {} sends and {} receives of {} bytes, {sizes:?} are needed",
                    described.sends_max, described.receives_max, described.message_bytes_max
                ),
            });
        }
        let slots = Slots::new(count, sizes.slot_bytes);
        let domain = fabric.domain(info)?;
        let registration = match described.needs_registration {
            true => {
                let (memory, bytes) = slots.all();
                // SAFETY: the registration is closed before the memory is freed: by the order
                // of fields in `Connection`, and of locals here.
                Some(unsafe { domain.register(library, memory, bytes)? })
            }
            false => None,
        };
        let (completions, descriptor) =
            domain.completion_queue(library, count + 1, names_list(library, info))?;
        let endpoint = domain.endpoint(info, &events.queue, &completions)?;
        if let Some(descriptor) = descriptor {
            events.set.watch(descriptor)?;
        }
        Ok((domain, completions, endpoint, registration, slots))
    }

    fn endpoint(&self) -> &Handle<fid_ep> {
        self.endpoint.as_ref().expect("closed only by drop")
    }

    /// Begins to connect.
    pub(crate) fn connect(&mut self, to: SocketAddr, data: &[u8]) -> Result<(), OfiError> {
        self.endpoint().connect(self.events.library, to, data)
    }

    /// Accepts the request that its description came with.
    pub(crate) fn accept(&mut self, data: &[u8]) -> Result<(), OfiError> {
        self.endpoint().accept(self.events.library, data)
    }

    /// Our address and the other side's, for people.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (
            self.endpoint().own_address(),
            self.endpoint().peer_address(),
        )
    }

    /// Bytes of each slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slots.slot_bytes()
    }

    /// Copies bytes into a slot that is ours.
    pub(crate) fn store(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        self.slots.store(slot, at, bytes);
    }

    /// Copies bytes out of a slot that is ours.
    pub(crate) fn load(&self, slot: usize, at: usize, into: &mut [u8]) {
        self.slots.load(slot, at, into);
    }

    /// Whether a slot is lent to the provider.
    pub(crate) fn is_lent(&self, slot: usize) -> bool {
        self.slots.is_lent(slot)
    }

    /// The endpoint and its operations on messages, and the descriptor of our memory.
    fn operations(&self) -> (*mut fid_ep, &fi_ops_msg, *mut std::ffi::c_void) {
        let endpoint = self.endpoint().as_ptr();
        // SAFETY: the objects are live, and the table lives as long as the library.
        unsafe {
            let memory = match &self.registration {
                Some(registration) => (*registration.as_ptr()).mem_desc,
                None => std::ptr::null_mut(),
            };
            (endpoint, &*(*endpoint).msg, memory)
        }
    }

    /// What a call gave: whether the provider has taken the operation; it may be full.
    fn taken(&mut self, code: isize) -> Result<bool, String> {
        match code {
            0 => Ok(true),
            code if code == -(FI_EAGAIN as isize) => Ok(false),
            code => Err(self.events.library.text(code as i32)),
        }
    }

    /// Lends a slot to be received into.
    ///
    /// # Errors
    /// What libfabric says.
    pub(crate) fn post_receive(&mut self, slot: usize) -> Result<bool, String> {
        let bytes = self.slots.slot_bytes();
        let (place, context) = self.slots.lend(slot, bytes);
        let (endpoint, operations, memory) = self.operations();
        // SAFETY: the objects are live; the slot has so many bytes, and stays lent until the
        // operation completes or the endpoint is closed.
        let code = unsafe { (operations.recv)(endpoint, place.cast(), bytes, memory, 0, context) };
        let taken = self.taken(code);
        if taken != Ok(true) {
            self.slots.take_back(slot);
        }
        taken
    }

    /// Sends the first bytes of a slot. Short messages are copied, and the slot stays ours.
    ///
    /// # Errors
    /// What libfabric says.
    pub(crate) fn send(&mut self, slot: usize, bytes: usize) -> Result<bool, String> {
        if bytes <= self.inject_bytes {
            let place = self.slots.peek(slot, bytes);
            let (endpoint, operations, _) = self.operations();
            // SAFETY: the objects are live; the call has copied the bytes when it returns.
            let code = unsafe { (operations.inject)(endpoint, place.cast(), bytes, 0) };
            return self.taken(code);
        }
        let (place, context) = self.slots.lend(slot, bytes);
        let (endpoint, operations, memory) = self.operations();
        // SAFETY: as in `post_receive`.
        let code = unsafe { (operations.send)(endpoint, place.cast(), bytes, memory, 0, context) };
        let taken = self.taken(code);
        if taken != Ok(true) {
            self.slots.take_back(slot);
        }
        taken
    }

    /// The next completion. If there is none, the provider is driven first.
    pub(crate) fn next(&mut self) -> Option<Done> {
        if let Some(reason) = self.failure.take() {
            return Some(Done::Failed(reason));
        }
        if self.batch_at == self.batch_end {
            self.batch_at = 0;
            self.batch_end = 0;
            match self.completions.read(self.events.library, &mut self.batch) {
                Completions::Some(count) => self.batch_end = count,
                Completions::None => return None,
                Completions::Broken(reason) => return Some(Done::Failed(reason)),
                Completions::Failed(context, reason) => {
                    if let Some(slot) = self.slots.slot_of(context) {
                        self.slots.take_back(slot);
                    }
                    return Some(Done::Failed(reason));
                }
            }
        }
        let done = self.batch[self.batch_at];
        self.batch_at += 1;
        let Some(slot) = self.slots.slot_of(done.context) else {
            return Some(Done::Failed("a completion of an unknown operation".into()));
        };
        self.slots.take_back(slot);
        Some(Done::Slot(slot, done.bytes.min(self.slots.slot_bytes())))
    }

    /// Whether completions were read that [`Connection::next`] has not given.
    pub(crate) fn has_batch(&self) -> bool {
        self.batch_at < self.batch_end
    }

    /// Whether one may sleep until there is an event or a completion.
    pub(crate) fn may_sleep(&mut self) -> bool {
        if self.wait_list.is_some() {
            // Before the look at the queues: what arrives after it is told anew.
            self.events.set.forget_told();
        }
        let mut queues: [*mut fid; 2] = [self.completions.fid(), self.events.queue.fid()];
        !self.has_batch() && self.events.fabric.may_sleep(&mut queues) && self.is_watched()
    }

    /// Whether all that the queue of completions is waited for on is watched, after a look at
    /// the queue. If not, it is from now on, and the queue has to be looked at once more.
    fn is_watched(&mut self) -> bool {
        let Some(list) = &mut self.wait_list else {
            return true;
        };
        let events = &mut self.events;
        let read = self.completions.wait_list(events.library, list);
        let followed = read.and_then(|()| events.set.follow(list.change_index, list.iter()));
        followed.unwrap_or_else(|error| {
            self.failure = Some(error.to_string());
            false
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(endpoint) = self.endpoint.take() else {
            return;
        };
        endpoint.shutdown();
        if !endpoint.close() {
            // The provider may still use the memory: better lost than overwritten.
            self.slots.leak();
        }
    }
}
