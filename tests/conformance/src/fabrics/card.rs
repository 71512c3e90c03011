//! The simulated CLAN card: two hosts of the laboratory, whose clock goes on with every
//! access. The suites run threads, so a wait that finds nothing under way ends by the clock
//! of the world, and lets the other thread make its accesses meanwhile.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::aperture::Rights;
use barewire_models::clan::Words;
use barewire_testbed::System as _;
use barewire_testbed::clan::System;
use barewire_testbed::clan::bench::{
    BenchFences, BenchLoads, BenchStores, CardConnection, CardQueue, CardStream, Exported,
    Imported, aperture, connection, stream, windows,
};

use crate::fabric::{
    ApertureEnd, ApertureEnds, Apertures, Connections, Doorbells, FabricUnderTest, Side, Windows,
};

/// The card and its event queue.
pub struct Card;

impl FabricUnderTest for Card {
    const NAME: &'static str = "simulated card";
}

/// CLAN's parameters, with a card that holds as many tripwires as the suites set.
static PARAMETERS: LazyLock<String> = LazyLock::new(|| {
    let own = System.parameters();
    let more = own.replace("cam_entries = 256", "cam_entries = 2048");
    assert_ne!(own, more);
    more
});

fn patience(timeout: Duration) -> Box<dyn FnMut() -> bool> {
    let end = Instant::now() + timeout;
    Box::new(move || {
        thread::yield_now();
        Instant::now() < end
    })
}

impl Apertures for Card {
    type Owned = Exported;
    type Remote = Imported;
    type Queue = CardQueue;

    fn aperture(len_bytes: usize, rights: Rights) -> ApertureEnds<Self> {
        let ends = aperture(&PARAMETERS, len_bytes, rights, patience);
        let ((owned, near), (remote, far)) = ends.expect("CLAN's parameters");
        let owned = ApertureEnd {
            memory: owned,
            queue: near,
        };
        let remote = ApertureEnd {
            memory: remote,
            queue: far,
        };
        (owned, remote)
    }

    fn revoke(owned: &Exported) {
        owned.revoke();
    }
}

impl Connections for Card {
    type End = CardConnection;
    type Stream = CardStream;
    type Queue = CardQueue;

    fn connection(ring_bytes: usize) -> [(CardConnection, CardQueue); 2] {
        connection(&PARAMETERS, ring_bytes, patience).expect("CLAN's parameters")
    }

    fn stream(ring_bytes: usize) -> [(CardStream, CardQueue); 2] {
        stream(&PARAMETERS, ring_bytes, patience).expect("CLAN's parameters")
    }
}

impl Windows for Card {
    type Out = BenchStores;
    type In = BenchLoads;
    type Fence = BenchFences;

    fn windows(len_bytes: usize) -> [Side<Self>; 2] {
        let sides = windows(len_bytes).expect("CLAN's parameters");
        sides.map(|(out, inn, fences)| Side { out, inn, fences })
    }
}

impl Doorbells for Card {
    type Words = Words;

    fn page() -> [Words; 3] {
        let words = Words::default();
        [words.clone(), words.clone(), words]
    }
}
