//! The simulated CLAN card: two hosts of the laboratory, whose clock goes on with every
//! access.

use barewire_models::clan::Words;
use barewire_testbed::clan::bench::{BenchFences, BenchLoads, BenchStores, windows};

use crate::{Doorbells, FabricUnderTest, Side, Windows};

/// The card and its event queue.
pub struct Card;

impl FabricUnderTest for Card {
    const NAME: &'static str = "simulated card";
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
