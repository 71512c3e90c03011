//! What a fabric has, as the suites see it: how to make two sides that are connected.

use std::time::Duration;

use barewire_carrier::Carrier;
use barewire_fabric::aperture::{
    ByteStream, EventSource, Memory, OwnerTripwires, Rights, Transport, TripwireSet,
};
use barewire_fabric::memory::{Fences, Incoming, Outgoing, SharedWords};

/// What every fabric says of itself.
pub trait FabricUnderTest: 'static {
    /// Its name, for messages.
    const NAME: &'static str;
    /// How long to wait for what must come. Only a broken fabric takes so long.
    const PATIENCE: Duration = Duration::from_secs(20);
    /// Where an access takes a round trip between hosts, long cases make so many times fewer of them.
    const SLOWNESS: u64 = 1;
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

/// What takes bytes to another host. Both sides are on this one.
pub trait Carriers: FabricUnderTest {
    /// One side.
    type Carrier: Carrier;
    /// Two sides that are connected.
    fn pair() -> [Self::Carrier; 2];
}
