//! One suite per fabric trait, run unchanged for every fabric.
//!
//! A fabric says what it has by implementing the traits of this file: how to make two
//! sides that are connected. [`check`] then runs a suite over it, case by case, and panics
//! with the names of the cases that failed. How a new fabric joins:
//! `docs/conformance.md`.
//!
//! | suite | for | of crate `barewire-fabric` |
//! |---|---|---|
//! | [`window::cases`] | [`Windows`] | `memory::{Outgoing, Incoming, Fences}` |
//! | [`queue::cases`] | [`Windows`] | the message queue and byte stream over its windows |
//! | [`doorbell::cases`] | [`Doorbells`] | `memory::SharedWords` |
//! | [`memory::cases`] | [`Apertures`] | `aperture::Memory` |
//! | [`tripwire::cases`] | [`Apertures`] | `aperture::{TripwireSet, Trap}` |
//! | [`waiting::cases`] | [`Apertures`] with [`OwnerTripwires`] | `aperture::OwnerTripwires` |
//! | [`events::cases`] | [`Apertures`] | `aperture::EventSource` |
//! | [`transport::cases`] | [`Connections`] | `aperture::{Transport, EventSource}` |
//! | [`transport::stream_cases`] | [`Connections`] | `aperture::ByteStream` |
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire_fabric::aperture::{
    ByteStream, EventSource, Memory, OwnerTripwires, Rights, Transport, TripwireSet,
};
use barewire_fabric::memory::{Fences, Incoming, Outgoing, SharedWords};

pub mod doorbell;
pub mod events;
pub mod fabrics;
pub mod memory;
pub mod queue;
pub mod transport;
pub mod tripwire;
pub mod waiting;
pub mod window;

/// What every fabric says of itself.
pub trait FabricUnderTest: 'static {
    /// Its name, for messages.
    const NAME: &'static str;
    /// How long to wait for what must come. Only a broken fabric takes so long.
    const PATIENCE: Duration = Duration::from_secs(20);
    /// How long to wait for what must not come.
    const RESTRAINT: Duration = Duration::from_millis(20);
}

/// One side of two connected by a window in each direction.
pub struct Side<F: Windows> {
    /// Into the other side's memory.
    pub out: F::Out,
    /// What the other side stores.
    pub inn: F::In,
    /// This side's fences.
    pub fences: F::Fence,
}

/// A fabric with one-way windows.
pub trait Windows: FabricUnderTest + Sized {
    /// The storing end.
    type Out: Outgoing + Send;
    /// The loading end.
    type In: Incoming + Send;
    /// Fences between two sides.
    type Fence: Fences + Send;
    /// Two sides, connected by zeroed windows of `len_bytes` (a multiple of 64) each way.
    fn windows(len_bytes: usize) -> [Side<Self>; 2];
}

/// A fabric with memory in which both sides set bits.
pub trait Doorbells: FabricUnderTest {
    /// The memory of a doorbell page.
    type Words: SharedWords + Send;
    /// Views of one zeroed page: the owner's and, from different places, two ringers'.
    fn page() -> [Self::Words; 3];
}

/// One end of an aperture and the event queue of its side.
pub struct ApertureEnd<M, Q> {
    /// The memory.
    pub memory: M,
    /// The queue.
    pub queue: Q,
}

/// The two ends of an aperture.
pub type ApertureEnds<F> = (
    ApertureEnd<<F as Apertures>::Owned, <F as Apertures>::Queue>,
    ApertureEnd<<F as Apertures>::Remote, <F as Apertures>::Queue>,
);

/// A fabric with apertures.
pub trait Apertures: FabricUnderTest {
    /// The owner's end.
    type Owned: Memory + TripwireSet<Trap: Send> + Send + Sync;
    /// The importer's end.
    type Remote: Memory + TripwireSet<Trap: Send> + Send + Sync;
    /// An event queue.
    type Queue: EventSource + Send;
    /// An aperture of zeros, and the event queues of its two sides. Both stay connected
    /// while the ends live. No notice of kind `Tripwire` is in the queues.
    fn aperture(len_bytes: usize, rights: Rights) -> ApertureEnds<Self>;
    /// Takes the aperture away from its importers.
    fn revoke(owned: &Self::Owned);
}

/// A fabric with apertures whose owners tell what they store.
pub trait WatchedOwners: Apertures<Remote: OwnerTripwires> {}
impl<F: Apertures<Remote: OwnerTripwires>> WatchedOwners for F {}

/// A fabric with connections.
pub trait Connections: FabricUnderTest {
    /// One end.
    type End: Transport + Send;
    /// One end of a byte stream.
    type Stream: ByteStream + Send;
    /// An event queue.
    type Queue: EventSource + Send;
    /// The two ends of a connection and their event queues. `ring_bytes`: the receive
    /// memory wanted at each end, a power of two.
    fn connection(ring_bytes: usize) -> [(Self::End, Self::Queue); 2];
    /// The two ends of a byte stream, with whatever has to live as long.
    fn stream(ring_bytes: usize) -> [(Self::Stream, Self::Queue); 2];
}

/// One case of a suite.
pub struct Case {
    /// What it checks.
    pub name: &'static str,
    /// Panics if the fabric is wrong.
    pub run: fn(),
}

/// Makes `cases` of functions that are generic over a fabric.
macro_rules! cases {
    ($(#[$doc:meta])* $name:ident for $bound:ident: $($case:ident),* $(,)?) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name<F: crate::$bound>() -> Vec<crate::Case> {
            vec![$(crate::Case { name: stringify!($case), run: $case::<F> }),*]
        }
    };
}
pub(crate) use cases;

/// Runs a suite and returns the names of the cases that failed.
#[must_use]
pub fn failures(cases: &[Case]) -> Vec<&'static str> {
    assert!(!cases.is_empty(), "a suite without cases checks nothing");
    let failed = |case: &&Case| {
        let failed = catch_unwind(AssertUnwindSafe(case.run)).is_err();
        if failed {
            eprintln!("FAILED: {}", case.name);
        }
        failed
    };
    cases.iter().filter(failed).map(|case| case.name).collect()
}

/// Runs a suite over a fabric.
///
/// # Panics
/// If a case fails; names all that did.
pub fn check<F: FabricUnderTest>(cases: &[Case]) {
    let failed = failures(cases);
    assert!(failed.is_empty(), "{} fails: {failed:?}", F::NAME);
}

/// Checks that a suite rejects a fabric, by this case. Only that case runs: in others a
/// broken fabric may well hang.
///
/// # Panics
/// If it does not.
pub fn must_fail<F: FabricUnderTest>(cases: &[Case], case: &str) {
    let found = cases.iter().find(|c| c.name == case);
    let found = found.unwrap_or_else(|| panic!("no case `{case}`"));
    let rejected = !failures(std::slice::from_ref(found)).is_empty();
    assert!(rejected, "{}: `{case}` does not see what is wrong", F::NAME);
}

/// Waits for a condition.
///
/// # Panics
/// If it does not come true within the fabric's patience.
#[track_caller]
pub(crate) fn eventually<F: FabricUnderTest>(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < F::PATIENCE, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// The value of a result that must be good.
#[track_caller]
pub(crate) fn good<T, E: Debug>(result: Result<T, E>) -> T {
    result.expect("the fabric refused what it must allow")
}

/// Tells the threads of a case that it is over, however it ended, when it is dropped.
pub(crate) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for a condition in a thread beside the case; `false` if the case is over.
pub(crate) fn unless_over(over: &AtomicBool, mut condition: impl FnMut() -> bool) -> bool {
    while !condition() {
        if over.load(Ordering::SeqCst) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Whether a call panics.
pub(crate) fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Bytes that differ from place to place and from seed to seed.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = barewire_units::Rng::from_seed(seed);
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        let word = rng.next_u64().to_ne_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}
