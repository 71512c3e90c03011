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
//! | 61 | in the table only: something of the object is held between two calls ([`InUse::hold`]) |
//! | 62 | in the table only: the place is free, and the rest is the handle of the next object there |
//! | 63 | in the table only: a thread is in a call with it |
//!
//! One thread at a time uses a handle. That costs a load, a comparison and two stores, none of them locked. A call while
//! another thread is in one is an error; this is not certain to be found out if both begin at the same moment. So it is
//! a condition of the functions in the header.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::failure::{BwE, Failure, Result};

const PLACE_BITS: u32 = 18;
const KIND_SHIFT: u32 = PLACE_BITS;
const GENERATION_SHIFT: u32 = 24;
const IN_CALL: u64 = 1 << 63;
const FREE: u64 = 1 << 62;
const HELD: u64 = 1 << 61;
/// What may be set in the number that a program gives.
const NUMBER: u64 = HELD - 1;

const SEGMENT: usize = 64;
const SEGMENTS: usize = (1 << PLACE_BITS) / SEGMENT;

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

/// A place. Each has cache lines of its own, because the thread that uses the object writes here in every call.
#[repr(C, align(64))]
struct Place<T> {
    /// The handle of the object, with the bits of the table.
    word: AtomicU64,
    object: UnsafeCell<MaybeUninit<T>>,
}

/// All objects of a type. Places are never given back to the system.
pub(crate) struct Table<T> {
    segments: [AtomicPtr<Place<T>>; SEGMENTS],
    free: Mutex<Free>,
}

struct Free {
    /// Places that had an object.
    again: Vec<u32>,
    /// How many places have been used at all.
    used: usize,
}

// SAFETY: an object is reached only by the thread that has set IN_CALL (or by a caller that breaks the condition that
// one thread at a time uses a handle), and objects are `Send`.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: Object> Table<T> {
    pub const fn new() -> Table<T> {
        Table {
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            free: Mutex::new(Free {
                again: Vec::new(),
                used: 0,
            }),
        }
    }

    /// The place that a number names, if there is one.
    #[inline(always)]
    fn place(&'static self, number: u64) -> Option<&'static Place<T>> {
        let at = (number & ((1 << PLACE_BITS) - 1)) as usize;
        // Pairs with the store in `segment`: the places are made.
        let segment = self.segments[at / SEGMENT].load(Ordering::Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a segment has SEGMENT places, and is never freed.
        Some(unsafe { &*segment.add(at % SEGMENT) })
    }

    /// Makes sure that there is a segment for this place.
    fn segment(&self, at: usize) {
        let segment = &self.segments[at / SEGMENT];
        // Relaxed: stored under the lock that we have.
        if !segment.load(Ordering::Relaxed).is_null() {
            return;
        }
        let place = |nth: usize| Place {
            word: AtomicU64::new(FREE | first_number::<T>(at + nth)),
            object: UnsafeCell::new(MaybeUninit::uninit()),
        };
        let places: Vec<Place<T>> = (0..SEGMENT).map(place).collect();
        let places = Box::leak(places.into_boxed_slice());
        // Pairs with the load in `place`.
        segment.store(places.as_mut_ptr(), Ordering::Release);
    }

    /// Gives an object a place; its number.
    fn insert(&'static self, object: T) -> Result<u64> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match free.again.pop() {
            Some(at) => at as usize,
            None if free.used == SEGMENTS * SEGMENT => {
                return Err(Failure::caller(
                    BwE::LimitReached,
                    format!(
                        "{} handles of a {} are open; close some",
                        free.used,
                        T::NAME
                    ),
                ));
            }
            None => {
                self.segment(free.used);
                free.used += 1;
                free.used - 1
            }
        };
        let place = self.place(at as u64).expect("it was made");
        // Relaxed: freed under this lock.
        let number = place.word.load(Ordering::Relaxed) & !FREE;
        // SAFETY: the place was free, and is ours now: nobody has its number yet.
        unsafe { (*place.object.get()).write(object) };
        // Pairs with the load in `enter`: the object is there.
        place.word.store(number, Ordering::Release);
        Ok(number)
    }

    fn release(&self, place: &Place<T>, number: u64) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = ((number >> GENERATION_SHIFT) as u32).wrapping_add(1).max(1);
        let at = number & ((1 << PLACE_BITS) - 1);
        let next = u64::from(generation) << GENERATION_SHIFT | T::KIND << KIND_SHIFT | at;
        // Pairs with the load in `enter`.
        place.word.store(FREE | next, Ordering::Release);
        free.again.push(at as u32);
    }
}

fn first_number<T: Object>(at: usize) -> u64 {
    1 << GENERATION_SHIFT | T::KIND << KIND_SHIFT | at as u64
}

/// An object that this thread is in a call with.
pub(crate) struct InUse<T: Object> {
    place: &'static Place<T>,
    /// What the word becomes afterwards.
    word: u64,
}

impl<T: Object> InUse<T> {
    /// Something of the object is held until a later call, which begins with [`enter_held`]. Until then no other call is
    /// possible with the handle.
    pub fn hold(&mut self) {
        self.word |= HELD;
    }

    /// Nothing is held any more.
    pub fn let_go(&mut self) {
        self.word &= !HELD;
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
        // Pairs with the load in `enter`, should another thread use it next.
        self.place.word.store(self.word, Ordering::Release);
    }
}

/// Begins a call with the object of a handle.
#[inline(always)]
pub(crate) fn enter<H: Handle>(handle: H) -> Result<InUse<H::Object>> {
    let number = handle.number() & NUMBER;
    begin(handle, number, number)
}

/// The same, for an object of which something is held.
pub(crate) fn enter_held<H: Handle>(handle: H) -> Result<InUse<H::Object>> {
    let number = handle.number() & NUMBER;
    begin(handle, number, number | HELD)
}

#[inline(always)]
fn begin<H: Handle>(handle: H, number: u64, expected: u64) -> Result<InUse<H::Object>> {
    let Some(place) = H::Object::table().place(number) else {
        return Err(refusal(handle));
    };
    // Pairs with the stores in `insert`, `release` and `InUse::drop`.
    if place.word.load(Ordering::Acquire) != expected {
        return Err(refusal(handle));
    }
    // Relaxed: so that others see that it is in use, in case they break the rule.
    place.word.store(number | IN_CALL, Ordering::Relaxed);
    Ok(InUse {
        place,
        word: expected,
    })
}

/// Takes an object out; its handle is closed.
pub(crate) fn take<H: Handle>(handle: H) -> Result<H::Object> {
    let mut taken = enter(handle).or_else(|_| enter_held(handle))?;
    // SAFETY: the object is whole, and ours.
    unsafe { H::Object::let_go(taken.as_ptr()) };
    taken.let_go();
    let (place, number) = (taken.place, taken.word);
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
    let word = place.map_or(FREE, |place| place.word.load(Ordering::Relaxed));
    if kind != H::Object::KIND {
        return Failure::caller(BwE::Handle, format!("the handle is none of a {name}"));
    }
    if word & FREE != 0 || word & NUMBER != number & NUMBER {
        return Failure::caller(
            BwE::Handle,
            format!("the handle of the {name} is closed, or was never opened"),
        );
    }
    if word & IN_CALL != 0 {
        return Failure::caller(
            BwE::InUse,
            format!(
                "another thread is in a call with this {name}: clone the handle, or split the connection"
            ),
        );
    }
    Failure::caller(
        BwE::WrongOrder,
        match word & HELD {
            0 => "nothing is reserved: call reserve first",
            _ => "room is reserved: commit or abandon it before any other call with this handle",
        },
    )
}
