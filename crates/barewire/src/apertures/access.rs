//! Whether an imported aperture may be used: a word of flags that every access loads. The node's
//! tables and the thread that watches owners can set it, too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::links::base::Base;

pub(crate) const FLAG_REVOKED: u32 = 1;
pub(crate) const FLAG_OWNER_GONE: u32 = 2;
pub(crate) const FLAG_OUTBOUND: u32 = 4;
pub(crate) const FLAG_READ_ONLY: u32 = 8;
/// No thread watches the owner: each access has to ask the kernel.
pub(crate) const FLAG_UNWATCHED: u32 = 16;

/// What the node's tables know of an imported aperture too.
pub(crate) struct AccessFlags {
    /// What refuses or complicates access.
    flags: AtomicU32,
    /// The bits of the tripwires set on the owner's stores: rung when there will be none.
    waiting: Mutex<Vec<u32>>,
}

impl AccessFlags {
    pub fn new(flags: u32) -> AccessFlags {
        AccessFlags {
            flags: AtomicU32::new(flags),
            waiting: Mutex::default(),
        }
    }

    #[inline]
    pub fn flags(&self) -> u32 {
        // Acquire pairs with the Release of `set`.
        self.flags.load(Ordering::Acquire)
    }

    pub fn set(&self, flag: u32) {
        // Release pairs with the Acquire load in `flags`.
        self.flags.fetch_or(flag, Ordering::Release);
    }

    pub fn waiting(&self) -> MutexGuard<'_, Vec<u32>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on accesses are refused by `flag`. Whoever waits for the owner's stores is
    /// woken, to find out.
    fn end(&self, flag: u32, base: &Base) {
        self.set(flag);
        for source in &*self.waiting() {
            base.ring_own(*source);
        }
    }
}

/// The apertures that one peer has granted and that are still held. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Granted(Arc<Mutex<Holdings>>);

#[derive(Default)]
struct Holdings {
    /// By the peer's numbers.
    held: HashMap<u32, Arc<AccessFlags>>,
    gone: bool,
}

impl Granted {
    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are held, and whether this is one of them.
    pub fn count(&self, number: u32) -> (usize, bool) {
        let holdings = self.holdings();
        (holdings.held.len(), holdings.held.contains_key(&number))
    }

    pub fn add(&self, number: u32, access: &Arc<AccessFlags>) {
        let mut holdings = self.holdings();
        holdings.held.insert(number, Arc::clone(access));
        if holdings.gone {
            access.set(FLAG_OWNER_GONE);
        }
    }

    /// Whether none is left.
    pub fn remove(&self, number: u32) -> bool {
        let mut holdings = self.holdings();
        holdings.held.remove(&number);
        holdings.held.is_empty()
    }

    /// The owner has revoked one; numbers that the peer makes up are ignored.
    pub fn revoked(&self, number: u32, base: &Base) {
        if let Some(access) = self.holdings().held.get(&number) {
            access.end(FLAG_REVOKED, base);
        }
    }

    /// From now on a thread watches the owner.
    pub fn watched(&self) {
        for access in self.holdings().held.values() {
            // Release pairs with the Acquire load in `AccessFlags::flags`.
            access.flags.fetch_and(!FLAG_UNWATCHED, Ordering::Release);
        }
    }

    /// The owner of all of them is gone.
    pub fn owner_gone(&self, base: &Base) {
        let mut holdings = self.holdings();
        holdings.gone = true;
        for access in holdings.held.values() {
            access.end(FLAG_OWNER_GONE, base);
        }
    }
}
