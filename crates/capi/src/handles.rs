//! Handles: numbers by which C programs name objects, and the tables in which they are looked up.
//!
//! A handle is 64 bits: the place of its object in the table of its kind, the kind, and a generation that is another
//! for each object that the place has had. So a handle that was closed, or is of another kind, is found out.
//!
//! | bits | mean |
//! |---|---|
//! | 0 to 17 | the place |
//! | 18 to 23 | the kind, from 1 |
//! | 24 to 55 | the generation, from 1 |
//!
//! A place has two words. The first is the handle of its object while a call may begin with it, and otherwise zero. So a
//! call begins with a load, a comparison and a store, and ends with a store. None of them is locked. The second word
//! says why no call may begin: it is the handle with one of two bits.
//!
//! | bit | means |
//! |---|---|
//! | 61 | something of the object is held between two calls ([`InUse::hold`]) |
//! | 62 | the place is free, and the rest is the handle of the next object there; or all is zero, before the first |
//!
//! One thread at a time uses a handle. A call while another thread is in one is an error; this is not certain to be
//! found out if both begin at the same moment. So it is a condition of the functions in the header.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::failure::{BwE, Failure, Result};
use crate::free_places::FreePlaces;

const PLACE_BITS: u32 = 18;
const KIND_SHIFT: u32 = PLACE_BITS;
const GENERATION_SHIFT: u32 = 24;
const FREE: u64 = 1 << 62;
const HELD: u64 = 1 << 61;
/// What of the second word is the handle.
const NUMBER: u64 = HELD - 1;

const PLACES: usize = 1 << PLACE_BITS;
const SEGMENT: usize = 64;
const SEGMENTS: usize = PLACES / SEGMENT;

/// What a handle can stand for.
pub(crate) trait Object: Sized + Send + 'static {
    /// Another for each type, from 1 to 63.
    const KIND: u64;
    /// As errors call it.
    const NAME: &'static str;

    /// The table of all objects of this type.
    fn table() -> &'static Table<Self>;

    /// Gives up what is held between two calls, before the object is taken out of its place.
    ///
    /// # Safety
    /// The object at `this` is whole, and nobody else uses it.
    unsafe fn let_go(_this: *mut Self) {}
}

/// A handle as C has it.
pub(crate) trait Handle: Copy {
    type Object: Object;
    fn number(self) -> u64;
    fn from_number(number: u64) -> Self;
}

/// A place. Each has cache lines of its own, because the thread that uses the object writes here in every call. Zero is
/// one that is free.
#[repr(C, align(64))]
struct Place<T> {
    /// The handle of the object while a call may begin with it.
    open: AtomicU64,
    /// The handle of the object, or of the next one, and what the place is in.
    about: AtomicU64,
    /// While it is free: for the list of free places.
    next_free: AtomicU32,
    object: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Place<T> {
    const fn new() -> Place<T> {
        Place {
            open: AtomicU64::new(0),
            about: AtomicU64::new(0),
            next_free: AtomicU32::new(0),
            object: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// All objects of a type. Places are never given back to the system, and stay where they are.
pub(crate) struct Table<T> {
    /// The first places. They are part of the table, so that finding one takes no load.
    first: [Place<T>; SEGMENT],
    /// All others, made when they are needed.
    segments: [AtomicPtr<Place<T>>; SEGMENTS],
    free: FreePlaces,
    /// How many places have been used at all.
    used: AtomicU32,
}

// SAFETY: an object is reached only by the thread that has emptied `open` (or by a caller that breaks the condition that
// one thread at a time uses a handle), and objects are `Send`.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: Object> Table<T> {
    pub const fn new() -> Table<T> {
        Table {
            first: [const { Place::new() }; SEGMENT],
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            free: FreePlaces {
                head: AtomicU64::new(0),
            },
            used: AtomicU32::new(0),
        }
    }

    /// The place that a number names, if there is one.
    #[inline(always)]
    fn place(&'static self, number: u64) -> Option<&'static Place<T>> {
        let at = (number & (PLACES as u64 - 1)) as usize;
        match self.first.get(at) {
            Some(place) => Some(place),
            None => self.later_place(at),
        }
    }

    fn later_place(&'static self, at: usize) -> Option<&'static Place<T>> {
        // Pairs with the exchange in `made`: the places are made.
        let segment = self.segments[at / SEGMENT].load(Ordering::Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a segment has SEGMENT places, and is never freed.
        Some(unsafe { &*segment.add(at % SEGMENT) })
    }

    /// The same, which is made if it is not there.
    fn made(&'static self, at: usize) -> &'static Place<T> {
        loop {
            if let Some(place) = self.place(at as u64) {
                return place;
            }
            let places: Vec<Place<T>> = (0..SEGMENT).map(|_| Place::new()).collect();
            let places = Box::into_raw(places.into_boxed_slice());
            // Release pairs with the load in `later_place`. Relaxed on failure: it is looked up again.
            let stored = self.segments[at / SEGMENT].compare_exchange(
                ptr::null_mut(),
                places.cast(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if stored.is_err() {
                // SAFETY: just made, and nobody has seen it.
                drop(unsafe { Box::from_raw(places) });
            }
        }
    }

    /// A place that was free. If another thread has just made the next one, but not yet used it, that is no matter.
    fn free_place(&'static self) -> Result<(usize, &'static Place<T>)> {
        let next = |at| &self.made(at as usize).next_free;
        if let Some(at) = self.free.take(next) {
            return Ok((at as usize, self.made(at as usize)));
        }
        let one_more = |used| ((used as usize) < PLACES).then_some(used + 1);
        // Relaxed: only counts; a new place is zero, which `made` tells of.
        let used = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        match used {
            Ok(at) => Ok((at as usize, self.made(at as usize))),
            Err(used) => Err(Failure::caller(
                BwE::LimitReached,
                format!("{used} handles of a {} are open; close some", T::NAME),
            )),
        }
    }

    /// Gives an object a place; its number.
    fn insert(&'static self, object: T) -> Result<u64> {
        let (at, place) = self.free_place()?;
        // Relaxed: the list of free places has told of it.
        let number = match place.about.load(Ordering::Relaxed) & NUMBER {
            0 => 1 << GENERATION_SHIFT | T::KIND << KIND_SHIFT | at as u64,
            next => next,
        };
        // SAFETY: the place was free, and is ours now: nobody has its number yet.
        unsafe { (*place.object.get()).write(object) };
        // Relaxed: only says which mistake a call is.
        place.about.store(number, Ordering::Relaxed);
        // Pairs with the load in `enter`: the object is there.
        place.open.store(number, Ordering::Release);
        Ok(number)
    }

    fn release(&self, place: &Place<T>, number: u64) {
        let generation = ((number >> GENERATION_SHIFT) as u32).wrapping_add(1).max(1);
        let at = number & (PLACES as u64 - 1);
        let next = u64::from(generation) << GENERATION_SHIFT | T::KIND << KIND_SHIFT | at;
        // Relaxed: the list tells whoever takes the place; for others it only says which mistake a call is.
        place.about.store(FREE | next, Ordering::Relaxed);
        self.free.give(at as u32, &place.next_free);
    }
}

/// An object that this thread is in a call with.
pub(crate) struct InUse<T: Object> {
    place: &'static Place<T>,
    number: u64,
    /// Whether something of it is held after the call.
    held: bool,
}

impl<T: Object> InUse<T> {
    /// Something of the object is held until a later call, which begins with [`enter_held`]. Until then no other call is
    /// possible with the handle.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Nothing is held any more.
    pub fn let_go(&mut self) {
        self.held = false;
    }

    /// The object, of which a part may be borrowed by what is held.
    pub fn as_ptr(&self) -> *mut T {
        self.place.object.get().cast()
    }
}

impl<T: Object> Deref for InUse<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the place has an object, which only this thread uses until `self` is dropped.
        unsafe { (*self.place.object.get()).assume_init_ref() }
    }
}

impl<T: Object> DerefMut for InUse<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { (*self.place.object.get()).assume_init_mut() }
    }
}

impl<T: Object> Drop for InUse<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Each pairs with its load in `enter` or `enter_held`, should another thread use it next.
        match self.held {
            false => self.place.open.store(self.number, Ordering::Release),
            true => self
                .place
                .about
                .store(self.number | HELD, Ordering::Release),
        }
    }
}

/// Begins a call with the object of a handle.
#[inline(always)]
pub(crate) fn enter<H: Handle>(handle: H) -> Result<InUse<H::Object>> {
    let number = handle.number();
    let Some(place) = H::Object::table().place(number) else {
        return Err(refusal(handle));
    };
    // Pairs with the stores in `insert` and `InUse::drop`. Zero is no handle, and means that no call may begin.
    if number == 0 || place.open.load(Ordering::Acquire) != number {
        return Err(refusal(handle));
    }
    // Relaxed: so that others see that it is in use, in case they break the rule.
    place.open.store(0, Ordering::Relaxed);
    Ok(InUse {
        place,
        number,
        held: false,
    })
}

/// The same, for an object of which something is held.
pub(crate) fn enter_held<H: Handle>(handle: H) -> Result<InUse<H::Object>> {
    let number = handle.number();
    let Some(place) = H::Object::table().place(number) else {
        return Err(refusal(handle));
    };
    // Pairs with the store in `InUse::drop`.
    if number & !NUMBER != 0 || place.about.load(Ordering::Acquire) != number | HELD {
        return Err(refusal(handle));
    }
    // Relaxed: as in `enter`.
    place.about.store(number, Ordering::Relaxed);
    Ok(InUse {
        place,
        number,
        held: true,
    })
}

/// Takes an object out; its handle is closed.
pub(crate) fn take<H: Handle>(handle: H) -> Result<H::Object> {
    let taken = enter(handle).or_else(|_| enter_held(handle))?;
    // SAFETY: the object is whole, and ours.
    unsafe { H::Object::let_go(taken.as_ptr()) };
    let (place, number) = (taken.place, taken.number);
    // No call begins with this handle any more.
    std::mem::forget(taken);
    // SAFETY: the place has an object, which is read once: afterwards the place is free.
    let object = unsafe { (*place.object.get()).assume_init_read() };
    H::Object::table().release(place, number);
    Ok(object)
}

/// Opens a handle for an object.
pub(crate) fn open<H: Handle>(object: H::Object) -> Result<H> {
    H::Object::table().insert(object).map(H::from_number)
}

/// Why a handle cannot be used.
#[cold]
fn refusal<H: Handle>(handle: H) -> Failure {
    let (number, name) = (handle.number(), H::Object::NAME);
    if number == 0 {
        return Failure::caller(
            BwE::Null,
            format!("the handle of the {name} is zero: none was opened"),
        );
    }
    let kind = number >> KIND_SHIFT & 63;
    let place = H::Object::table().place(number);
    // Relaxed: only says which mistake it was.
    let word = place.map_or(FREE, |place| place.about.load(Ordering::Relaxed));
    if kind != H::Object::KIND {
        return Failure::caller(BwE::Handle, format!("the handle is none of a {name}"));
    }
    if word & FREE != 0 || word & NUMBER != number {
        return Failure::caller(
            BwE::Handle,
            format!("the handle of the {name} is closed, or was never opened"),
        );
    }
    if word & HELD != 0 {
        return Failure::caller(
            BwE::WrongOrder,
            "room is reserved: commit or abandon it before any other call with this handle",
        );
    }
    // Relaxed: as above.
    if place.is_some_and(|place| place.open.load(Ordering::Relaxed) == number) {
        return Failure::caller(BwE::WrongOrder, "nothing is reserved: call reserve first");
    }
    Failure::caller(
        BwE::InUse,
        format!(
            "another thread is in a call with this {name}: clone the handle, or split the connection"
        ),
    )
}
