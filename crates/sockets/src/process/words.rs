//! Words that threads or processes share, and whose accesses are all relaxed. The type of a word says why that is
//! enough.
//!
//! A word that makes other memory visible is an atomic of the core library. Each access to one names its partner.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// The atomics of the core library, as far as they are used here.
pub trait Atomic {
    /// What it holds.
    type Value: Copy;

    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
    fn swap(&self, value: Self::Value) -> Self::Value;
    fn exchange(&self, old: Self::Value, new: Self::Value) -> bool;
    fn update(&self, change: impl FnMut(Self::Value) -> Option<Self::Value>) -> bool;
}

/// Those of numbers.
pub trait Number: Atomic {
    fn add(&self, value: Self::Value) -> Self::Value;
    fn sub(&self, value: Self::Value) -> Self::Value;
    fn raise(&self, value: Self::Value) -> Self::Value;
    fn set_bits(&self, bits: Self::Value) -> Self::Value;
    fn clear_bits(&self, bits: Self::Value) -> Self::Value;
}

macro_rules! atomic {
    ($atomic:ty, $value:ty $(, $type:ident)?) => {
        impl $(<$type>)? Atomic for $atomic {
            type Value = $value;

            #[inline(always)]
            fn get(&self) -> $value {
                // Relaxed: reached by `Lone`, `Guarded` and `AtStart` only, which say why.
                self.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn set(&self, value: $value) {
                // Relaxed: as in `get`.
                self.store(value, Ordering::Relaxed);
            }

            #[inline(always)]
            fn swap(&self, value: $value) -> $value {
                // Relaxed: as in `get`.
                self.swap(value, Ordering::Relaxed)
            }

            #[inline(always)]
            fn exchange(&self, old: $value, new: $value) -> bool {
                // Relaxed: as in `get`.
                self.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            }

            #[inline(always)]
            fn update(&self, change: impl FnMut($value) -> Option<$value>) -> bool {
                // Relaxed: as in `get`.
                self.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change)
                    .is_ok()
            }
        }
    };
}

macro_rules! number {
    ($atomic:ty, $value:ty) => {
        atomic!($atomic, $value);

        impl Number for $atomic {
            #[inline(always)]
            fn add(&self, value: $value) -> $value {
                // Relaxed: as in `get`.
                self.fetch_add(value, Ordering::Relaxed)
            }

            #[inline(always)]
            fn sub(&self, value: $value) -> $value {
                // Relaxed: as in `get`.
                self.fetch_sub(value, Ordering::Relaxed)
            }

            #[inline(always)]
            fn raise(&self, value: $value) -> $value {
                // Relaxed: as in `get`.
                self.fetch_max(value, Ordering::Relaxed)
            }

            #[inline(always)]
            fn set_bits(&self, bits: $value) -> $value {
                // Relaxed: as in `get`.
                self.fetch_or(bits, Ordering::Relaxed)
            }

            #[inline(always)]
            fn clear_bits(&self, bits: $value) -> $value {
                // Relaxed: as in `get`.
                self.fetch_and(!bits, Ordering::Relaxed)
            }
        }
    };
}

/// What all three types have.
macro_rules! word {
    ($word:ident) => {
        impl<A: Atomic> $word<A> {
            pub const fn new(word: A) -> Self {
                Self(word)
            }

            #[inline(always)]
            pub fn get(&self) -> A::Value {
                self.0.get()
            }

            #[inline(always)]
            pub fn set(&self, value: A::Value) {
                self.0.set(value);
            }
        }
    };
}

number!(AtomicU8, u8);
number!(AtomicU32, u32);
number!(AtomicI32, i32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
atomic!(AtomicBool, bool);
atomic!(AtomicPtr<T>, *mut T, T);

/// A word that stands for itself: a count for display, a hint, an answer that every thread finds alike. Whoever
/// reads it takes nothing for visible but the word.
#[repr(transparent)]
pub struct Lone<A>(A);

word!(Lone);

impl<A: Atomic> Lone<A> {
    /// Returns what it was.
    #[inline(always)]
    pub fn swap(&self, value: A::Value) -> A::Value {
        self.0.swap(value)
    }

    /// Puts `new` in the place of `old`. Returns whether it was that.
    #[inline(always)]
    pub fn exchange(&self, old: A::Value, new: A::Value) -> bool {
        self.0.exchange(old, new)
    }

    /// Changes it, unless `change` gives `None`. Returns whether it was changed.
    #[inline(always)]
    pub fn update(&self, change: impl FnMut(A::Value) -> Option<A::Value>) -> bool {
        self.0.update(change)
    }
}

/// Each returns what it was.
impl<A: Number> Lone<A> {
    #[inline(always)]
    pub fn add(&self, value: A::Value) -> A::Value {
        self.0.add(value)
    }

    #[inline(always)]
    pub fn sub(&self, value: A::Value) -> A::Value {
        self.0.sub(value)
    }

    /// To `value`, if that is more.
    #[inline(always)]
    pub fn raise(&self, value: A::Value) -> A::Value {
        self.0.raise(value)
    }

    #[inline(always)]
    pub fn set_bits(&self, bits: A::Value) -> A::Value {
        self.0.set_bits(bits)
    }

    #[inline(always)]
    pub fn clear_bits(&self, bits: A::Value) -> A::Value {
        self.0.clear_bits(bits)
    }
}

/// A word that is reached only under a lock, which its variable or its field names. The Release with which a thread
/// frees that lock (the drop of `lock::Held`) pairs with the Acquire with which the next takes it
/// (`Lock::try_hold`). Without other threads no lock is needed: after a fork, or before anybody knows the word.
#[repr(transparent)]
pub struct Guarded<A>(A);

word!(Guarded);

impl<A: Atomic> Guarded<A> {
    /// Returns what it was.
    #[inline(always)]
    pub fn swap(&self, value: A::Value) -> A::Value {
        self.0.swap(value)
    }
}

/// A word that the library's constructor sets, and that is set again only while the process has one thread. A
/// thread that begins later sees it. One that another constructor began may still see the first value. It does no
/// harm there: what needs more than that is reached by the table of descriptors, whose Release in `slots::publish`
/// pairs with the Acquire in `slots::slot`.
#[repr(transparent)]
pub struct AtStart<A>(A);

word!(AtStart);
