//! A lock in memory that a process shares with its children.
//!
//! Its holder may be killed or cancelled. A thread that waits for the lock checks for that, and takes the
//! lock over. If the holder was in the middle of a change, the new holder is told.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::process::{clock, family, ids};
use crate::system::cancel;

/// What the holder is in the middle of, and the thread id of the holder; 0 if it is free.
///
/// | bits | what |
/// |---|---|
/// | 0..30 | the holder's thread id, which is below 2^22 |
/// | 30 | [`MOVING`] |
/// | 31 | [`CHANGING`] |
#[repr(transparent)]
pub struct Lock(AtomicU32);

/// The holder is in the middle of a change.
const CHANGING: u32 = 1 << 31;
/// The holder moves bytes, on the kernel connection or through the ring. The kernel and the ring know how
/// many.
const MOVING: u32 = 1 << 30;
/// What the holder is in the middle of.
const MIDDLE: u32 = CHANGING | MOVING;
/// An id that no thread has: the holder is gone, and its id may become another thread's.
const NOBODY: u32 = MOVING - 1;

/// The lock is held until this is dropped.
pub struct Held<'a> {
    lock: &'a Lock,
    /// What the last holder was in the middle of when it ended.
    left: Cell<u32>,
}

impl Held<'_> {
    /// Whether the last holder ended, killed or cancelled, in the middle of a change.
    pub fn is_taken_over(&self) -> bool {
        self.left.get() != 0
    }

    /// Whether it only moved bytes. A thread that finds out how many can recover, and then calls
    /// [`Held::mended`].
    pub fn needs_mending(&self) -> bool {
        self.left.get() == MOVING
    }

    /// What the last holder left is recovered.
    pub fn mended(&self) {
        self.left.set(0);
        // Relaxed: only the holder stores here.
        let own = self.lock.0.load(Ordering::Relaxed) & !MIDDLE;
        // Release pairs with the Acquire in `take_over`: what was recovered comes first.
        self.lock.0.store(own, Ordering::Release);
    }

    /// Runs `work`, which changes what the lock guards. If the thread ends meanwhile, the next holder is
    /// told.
    pub fn changing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.amid(CHANGING, work)
    }

    /// Runs `work`, which moves bytes and counts them.
    #[inline]
    pub fn moving<T>(&self, work: impl FnOnce() -> T) -> T {
        self.amid(MOVING, work)
    }

    #[inline(always)]
    fn amid<T>(&self, what: u32, work: impl FnOnce() -> T) -> T {
        let amid = self.begin(what);
        let result = work();
        amid.end();
        result
    }

    /// As [`Held::moving`], for work that is no closure: it lies between this and [`Amid::end`].
    #[inline(always)]
    pub fn begin_moving(&self) -> Amid<'_> {
        self.begin(MOVING)
    }

    #[inline(always)]
    fn begin(&self, what: u32) -> Amid<'_> {
        // Relaxed: only the holder stores here.
        let own = self.lock.0.load(Ordering::Relaxed);
        // Release pairs with the Acquire in `take_over`.
        self.lock.0.store(own | what, Ordering::Release);
        // Pairs with `take_over`, after this thread was killed between two instructions. The processor has done all
        // that stands before. So only the compiler must not move the work forward.
        compiler_fence(Ordering::SeqCst);
        Amid {
            lock: self.lock,
            own,
        }
    }
}

/// The holder of a lock is in the middle of something. It stays so if this is dropped, as when the thread is cancelled.
#[must_use]
pub struct Amid<'a> {
    lock: &'a Lock,
    /// The word of the lock before.
    own: u32,
}

impl Amid<'_> {
    /// The work is done.
    #[inline(always)]
    pub fn end(self) {
        // Release pairs with the Acquire in `take_over`: who finds no mark finds the whole work.
        self.lock.0.store(self.own, Ordering::Release);
    }
}

/// Rounds of polling before the first yield.
const SPINS: u32 = 200;
/// Yields before the waits get longer, and the holder is checked.
const YIELDS: u32 = 200;

/// Milliseconds between two checks whether the holder's id belongs to a stranger.
const STRANGER_ROUNDS: u32 = 50;

/// No limit: the holder may be in a call of the program that waits for the other end.
pub const WITHOUT_LIMIT: u32 = u32::MAX;

impl Lock {
    /// A free one.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// One whose word lies elsewhere.
    pub const fn at(word: &AtomicU32) -> &Self {
        // SAFETY: a lock is its word.
        unsafe { &*core::ptr::from_ref(word).cast::<Self>() }
    }

    /// Frees it, whoever holds it: for a child, whose other threads are gone, and for a thread that has
    /// forgotten its [`Held`].
    pub fn reset(&self) {
        // Relaxed: of this thread, or of one that is gone. What a child does not write is still one page with
        // its parent's.
        if self.0.load(Ordering::Relaxed) != 0 {
            // Release pairs with the Acquire in `try_hold`.
            self.0.store(0, Ordering::Release);
        }
    }

    /// A process is gone. If it held the lock, the next thread takes it over.
    pub fn abandon(&self) {
        // Relaxed: only compared.
        let holder = self.0.load(Ordering::Relaxed);
        if holder != 0 && !is_at_work(holder & !MIDDLE) {
            let gone = NOBODY | (holder & MIDDLE);
            // Relaxed: it reads nothing of what the lock guards. Whoever takes over acquires what the holder
            // released, since this is an exchange.
            let _ = self
                .0
                .compare_exchange(holder, gone, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether no thread holds it, or one that was found gone.
    pub fn is_idle(&self) -> bool {
        // Relaxed: whoever takes it acquires.
        matches!(self.0.load(Ordering::Relaxed) & !MIDDLE, 0 | NOBODY)
    }

    /// Whether its last holder ended in the middle of something, and nobody holds it.
    pub fn is_left_amid(&self) -> bool {
        // Relaxed: whoever takes it acquires.
        let word = self.0.load(Ordering::Relaxed);
        word & !MIDDLE == NOBODY && word & MIDDLE != 0
    }

    /// What the lock guards begins anew: a holder that died was in the middle of nothing.
    pub fn begin_anew(&self) {
        self.abandon();
        // Relaxed: whoever takes it acquires.
        if self.0.load(Ordering::Relaxed) & !MIDDLE == NOBODY {
            self.reset();
        }
    }

    /// Takes it if it is free. `None` if another thread holds it, or this very thread, which a signal
    /// handler has interrupted.
    #[inline]
    pub fn try_hold(&self) -> Option<Held<'_>> {
        let own = ids::thread_id();
        // Acquire pairs with the Release in the drop of `Held`, and in `reset`: what the last holder did is seen.
        let taken = self
            .0
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
        // Not `then_some`: a `Held` that is not given away frees the lock when it is dropped.
        taken.is_ok().then(|| Held {
            lock: self,
            left: Cell::new(0),
        })
    }

    /// Waits for it. `None` if this very thread holds it.
    pub fn hold(&self) -> Option<Held<'_>> {
        self.hold_or(WITHOUT_LIMIT, || {})
    }

    /// Waits for it for at most so many milliseconds.
    pub fn hold_for(&self, limit_ms: u32) -> Option<Held<'_>> {
        self.hold_or(limit_ms, || {})
    }

    /// As [`Lock::hold_for`], in a call of the program that ends if the thread is cancelled.
    pub fn hold_unless_cancelled(&self, limit_ms: u32) -> Option<Held<'_>> {
        self.hold_or(limit_ms, cancel::end_if_cancelled)
    }

    fn hold_or(&self, limit_ms: u32, each_ms: impl Fn()) -> Option<Held<'_>> {
        for round in 0..SPINS + YIELDS {
            if let Some(held) = self.try_hold() {
                return Some(held);
            }
            // Relaxed: only compared with what we stored ourselves.
            if self.0.load(Ordering::Relaxed) & !MIDDLE == ids::thread_id() {
                return None;
            }
            if round < SPINS {
                core::hint::spin_loop();
            } else {
                clock::yield_now();
            }
        }
        for round in 0..limit_ms {
            // Now and then also from a stranger, who has the number of a thread that is no more.
            let asks = round % STRANGER_ROUNDS == STRANGER_ROUNDS - 1;
            if let Some(held) = self.try_hold().or_else(|| self.take_over(asks)) {
                return Some(held);
            }
            clock::sleep_us(1000);
            each_ms();
        }
        None
    }

    /// Takes it from a thread that has ended.
    fn take_over(&self, asks: bool) -> Option<Held<'_>> {
        // Relaxed: the exchange below acquires.
        let holder = self.0.load(Ordering::Relaxed);
        let thread = holder & !MIDDLE;
        let is_there = if asks { is_at_work } else { ids::thread_exists };
        if holder == 0 || is_there(thread) {
            return None;
        }
        // What is left stays, until it is mended: this thread may be killed, too.
        let own = ids::thread_id() | (holder & MIDDLE);
        // Acquire pairs with the Release in `amid` and in `mended`. What the holder did since is in memory: the
        // kernel has told us that it is gone.
        let taken = self
            .0
            .compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Held {
            lock: self,
            left: Cell::new(holder & MIDDLE),
        })
    }
}

/// Whether a thread may still be in the middle of something. A killed thread exists until its parent has
/// reaped it, but has no memory any more.
pub fn is_at_work(thread: u32) -> bool {
    ids::thread_exists(thread) && cancel::uncancelled(|| family::has_member(thread))
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // A thread that is cancelled drops this in the middle. Whoever comes next is to know, too.
        // Relaxed: only the holder stores here.
        let left = self.left.get() | (self.lock.0.load(Ordering::Relaxed) & MIDDLE);
        let after = if left == 0 { 0 } else { NOBODY | left };
        // Release pairs with the Acquire in `try_hold` and `take_over`.
        self.lock.0.store(after, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_does_not_get_it_leaves_it_alone() {
        static LOCK: Lock = Lock::new();
        let held = LOCK.try_hold().unwrap();
        std::thread::spawn(|| {
            assert!(LOCK.try_hold().is_none());
            assert!(LOCK.hold_for(2).is_none());
        })
        .join()
        .unwrap();
        assert!(LOCK.try_hold().is_none());
        drop(held);
        assert!(LOCK.try_hold().is_some());
    }

    #[test]
    fn what_is_left_in_the_middle_is_known() {
        let lock = Lock::new();
        let held = lock.try_hold().unwrap();
        // As a thread that is cancelled.
        let ends = std::panic::catch_unwind(core::panic::AssertUnwindSafe(move || {
            held.moving(|| panic!("in the middle"));
        }));
        assert!(ends.is_err() && lock.try_hold().is_none());
        let next = lock.hold().unwrap();
        assert!(next.is_taken_over() && next.needs_mending());
        drop(next);
        let last = lock.hold().unwrap();
        last.mended();
        drop(last);
        let well = lock.try_hold().unwrap();
        assert!(!well.is_taken_over());
    }

    #[test]
    fn one_at_a_time() {
        static LOCK: Lock = Lock::new();
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let _held = LOCK.hold().unwrap();
                        // Relaxed: only one thread is here.
                        assert_eq!(INSIDE.fetch_add(1, Ordering::Relaxed), 0);
                        INSIDE.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
    }
}
