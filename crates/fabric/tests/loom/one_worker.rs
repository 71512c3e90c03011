//! The value that one thread works on for all (`crates/barewire/src/remote/one_worker.rs`): what a thread has left there is
//! done, whichever way it and the thread that has the lock meet. The model lives here because loom is here.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::one_worker::OneWorker;
use crate::{check, check_caught};

/// How often something was asked for, and how often it had been when work was last done.
struct Wished {
    asked: AtomicU32,
    of: OneWorker<u32>,
}

impl Wished {
    fn new() -> Arc<Wished> {
        Arc::new(Wished {
            asked: AtomicU32::new(0),
            of: OneWorker::new(0),
        })
    }

    /// Relaxed: that the lock and the bits order it is what the model shows.
    fn turn(&self, done: &mut u32) {
        *done = self.asked.load(Ordering::Relaxed);
    }

    fn ask(&self) {
        // Relaxed: as above.
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.of.work(1, |done, _| self.turn(done));
    }

    /// Looks, and does what was left meanwhile.
    fn look(&self) {
        self.of.with(|_| self.seen(), |done, _| self.turn(done));
    }

    /// Looks, and forgets what was left.
    fn look_and_forget(&self) {
        self.of.with(|_| self.seen(), |_, _| ());
    }

    /// Takes a step, so that another thread may come while the lock is held. Relaxed: the value does not matter.
    fn seen(&self) {
        self.asked.load(Ordering::Relaxed);
    }
}

fn two_threads(mine: fn(&Wished), other: fn(&Wished)) {
    let one = Wished::new();
    let two = Arc::clone(&one);
    let thread = thread::spawn(move || other(&two));
    mine(&one);
    thread.join().expect("no panic");
    // Relaxed: the thread has been joined.
    let asked = one.asked.load(Ordering::Relaxed);
    one.of.with(|done| assert_eq!(*done, asked), |_, _| ());
}

#[test]
fn what_was_left_to_another_thread_is_done() {
    check(|| two_threads(Wished::ask, Wished::ask));
    check(|| two_threads(Wished::ask, Wished::look));
}

#[test]
fn a_look_that_forgets_what_was_left_is_caught() {
    check_caught("what was left is forgotten", || {
        two_threads(Wished::ask, Wished::look_and_forget)
    });
}
