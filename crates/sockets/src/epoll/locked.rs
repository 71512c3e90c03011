//! The lock of the epoll tables, and the questions that need no lock.

use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::epoll::tables::{self, Shared, Tables, make};
use crate::process::at_fork::AT_FORK;
use crate::process::lock::{Held, Lock};
use crate::process::memory;

/// Held while the tables are read or changed.
pub static LOCK: &Lock = Lock::at(&AT_FORK.sets.0);
/// What is read without the lock.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());
/// What is reached under the lock.
static TABLES: AtomicPtr<Tables> = AtomicPtr::new(core::ptr::null_mut());

/// What lies in one place: [`SHARED`] and [`TABLES`] lead there.
struct Kept {
    shared: Shared,
    tables: Tables,
}

/// Bytes that [`set_up`] takes.
pub const PRIVATE_BYTES: usize = tables::PRIVATE_BYTES + memory::private_bytes(size_of::<Kept>());

/// Reserves the tables.
pub fn set_up() -> bool {
    make_all().is_some()
}

fn make_all() -> Option<()> {
    let kept = memory::part_private(size_of::<Kept>())?.cast::<Kept>();
    // SAFETY: fresh memory, large enough and aligned to a page, which is never unmapped while something leads
    // there. What is shared is written before there is a reference to it, and nobody changes it then.
    unsafe {
        let shared = &raw mut (*kept).shared;
        let tables = &raw mut (*kept).tables;
        shared.write(tables::make_shared()?);
        tables.write(make(&*shared)?);
        // Release, both, pairs with the Acquire in `shared` and in `tables`.
        SHARED.store(shared, Ordering::Release);
        TABLES.store(tables, Ordering::Release);
    }
    Some(())
}

/// The tables' memory is given back.
pub fn forget() {
    // Relaxed: nobody else is there, here and below.
    SHARED.store(core::ptr::null_mut(), Ordering::Relaxed);
    TABLES.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// What is known without the lock.
pub fn shared() -> Option<&'static Shared> {
    // Acquire pairs with the Release in `make_all`.
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or written before it was stored, and never unmapped. Nobody changes it but by
    // atomics: there is no exclusive reference to it.
    unsafe { shared.as_ref() }
}

/// The tables, with their lock.
pub struct Locked {
    tables: *mut Tables,
    _held: Held<'static>,
}

impl Deref for Locked {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        // SAFETY: the lock makes it exclusive for as long as this is there; never unmapped.
        unsafe { &*self.tables }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Tables {
        // SAFETY: as above.
        unsafe { &mut *self.tables }
    }
}

/// The tables, locked. `None` if this very thread has them, or there are none.
pub fn tables() -> Option<Locked> {
    // Acquire pairs with the Release in `make_all`.
    let tables = TABLES.load(Ordering::Acquire);
    if tables.is_null() {
        return None;
    }
    let held = LOCK.hold()?;
    Some(Locked {
        tables,
        _held: held,
    })
}

/// The number of a set, looked up without the lock.
pub fn number_now(set_fd: c_int) -> Option<u32> {
    shared()?.set_number(set_fd)
}
