//! A value that one thread works on for all: a thread that finds it locked leaves there what it wants, and goes on.
//!
//! So nobody waits for a lock to have something sent. What was left is always done: by the thread that has the lock, after it
//! has unlocked, or by the one that left it. The model is in `crates/fabric/tests/loom/one_worker.rs`.

use std::sync::{PoisonError, TryLockError};

use crate::remote::sync::{AtomicU8, Mutex, MutexGuard, Ordering, fence};

/// The value.
pub(crate) struct OneWorker<T> {
    value: Mutex<T>,
    /// Bits of what others want that found it locked.
    left: AtomicU8,
}

impl<T> OneWorker<T> {
    pub fn new(value: T) -> OneWorker<T> {
        OneWorker {
            value: Mutex::new(value),
            left: AtomicU8::new(0),
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether something was left while the calling thread had the lock, which it has not any more.
    fn was_left(&self) -> bool {
        // SeqCst fence, which pairs with that in `work`: either we see what was left, or who left it finds the lock free.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        self.left.load(Ordering::Relaxed) != 0
    }

    /// Has `turn` do the work of these bits: in this thread, or in the one that is at work. Never waits.
    pub fn work(&self, bits: u8, mut turn: impl FnMut(&mut T, u8)) {
        let mut bits = bits;
        loop {
            let mut found = self.try_lock();
            if found.is_none() {
                // Release pairs with the Acquire below: whoever does it sees what it is about.
                self.left.fetch_or(bits, Ordering::Release);
                // SeqCst fence, which pairs with that in `was_left`.
                fence(Ordering::SeqCst);
                found = self.try_lock();
            }
            let Some(mut value) = found else { return };
            // Acquire pairs with the Release above.
            bits |= self.left.swap(0, Ordering::Acquire);
            turn(&mut value, bits);
            drop(value);
            if !self.was_left() {
                return;
            }
            bits = 0;
        }
    }

    /// Waits for the lock, and has `f` see the value. Then does what was left meanwhile.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R, turn: impl FnMut(&mut T, u8)) -> R {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.hold(value, f, turn)
    }

    /// As [`OneWorker::with`], if nobody else has the lock.
    pub fn try_with<R>(
        &self,
        f: impl FnOnce(&mut T) -> R,
        turn: impl FnMut(&mut T, u8),
    ) -> Option<R> {
        Some(self.hold(self.try_lock()?, f, turn))
    }

    fn hold<R>(
        &self,
        mut value: MutexGuard<'_, T>,
        f: impl FnOnce(&mut T) -> R,
        turn: impl FnMut(&mut T, u8),
    ) -> R {
        let result = f(&mut value);
        drop(value);
        if self.was_left() {
            self.work(0, turn);
        }
        result
    }
}
