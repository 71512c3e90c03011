//! Models of the protocols under loom: every interleaving and every value that the memory
//! model lets a load return, without a bound on preemptions unless the model states one.
//!
//! Run by `RUSTFLAGS="--cfg barewire_loom" cargo test --release -p barewire-fabric --test loom`.
//!
//! Each model takes a *flaw*. With none it must pass; with each of the flaws that it is
//! there to find it must fail. A model that no flaw can fail proves nothing.
//!
//! What loom does not show: `SeqCst` accesses count as acquire-release (fences are modelled),
//! a load sees one of the last seven stores only, and an asymmetric barrier is modelled
//! as a full fence on both sides.
#![cfg(barewire_loom)]

#[path = "loom/window.rs"]
mod window;

#[path = "loom/arming.rs"]
mod arming;
#[path = "loom/doorbell.rs"]
mod doorbell;
#[path = "loom/duplex.rs"]
mod duplex;
#[path = "loom/free_places.rs"]
mod free_places_model;
#[path = "loom/hybrid.rs"]
mod hybrid;
#[path = "loom/hybrid_back.rs"]
mod hybrid_back;
#[path = "loom/hybrid_edge.rs"]
mod hybrid_edge;
#[path = "loom/hybrid_ends.rs"]
mod hybrid_ends;
#[path = "loom/hybrid_memory.rs"]
mod hybrid_memory;
#[path = "loom/hybrid_short.rs"]
mod hybrid_short;
#[path = "loom/one_worker.rs"]
mod one_worker_model;
#[path = "loom/ring.rs"]
mod ring;
#[path = "loom/waiting.rs"]
mod waiting;

/// Of the library for C, with loom's atomics.
#[path = "../../capi/src/free_places.rs"]
mod free_places;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

/// Of the links to other hosts, with loom's lock and atomics.
#[path = "../../barewire/src/remote/one_worker.rs"]
mod one_worker;

mod remote {
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU8, Ordering, fence};
        pub(crate) use loom::sync::{Mutex, MutexGuard};
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `body` in every way there is and prints how many that were (shown by
/// `--nocapture`).
pub fn check(body: impl Fn() + Send + Sync + 'static) {
    check_within(None, body);
}

/// As [`check`], with at most so many involuntary thread switches per run.
pub fn check_within(preemptions: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicU64::new(0));
    let counter = runs.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 50_000;
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("model");
    println!("{name}: {} runs", runs.load(Ordering::Relaxed));
}

/// How the models say that the protocol failed, so that a panic of loom itself (too many
/// threads, say) is not taken for it.
const SYMPTOMS: [&str; 7] = [
    "assertion `left == right` failed",
    "honest frames",
    "lines reused",
    "waits for",
    "asleep while",
    "without a bit",
    "rang for nobody",
];

/// Whether some run of `body` fails. `body` is told nothing of it, so that the very model
/// that proves the protocol is the one that must find the flaw.
pub fn fails(body: impl Fn() + Send + Sync + 'static) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(|| check_within(Some(3), body)));
    let Err(panic) = outcome else { return false };
    let said = match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    };
    let known = SYMPTOMS.iter().any(|symptom| said.contains(symptom));
    assert!(known, "failed for another reason: {said}");
    true
}

/// Asserts that [`fails`].
pub fn check_caught(what: &str, body: impl Fn() + Send + Sync + 'static) {
    assert!(fails(body), "the model does not notice: {what}");
}
