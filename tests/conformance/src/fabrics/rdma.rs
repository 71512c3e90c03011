//! The simulated RDMA card: two hosts of the laboratory, whose clock goes on with every access.

use barewire_testbed::rdma::bench::{RdmaFences, RdmaLoads, RdmaStores, windows};

use crate::fabric::{FabricUnderTest, Side, Windows};

/// The card and a switch.
pub struct Rdma;

impl FabricUnderTest for Rdma {
    const NAME: &'static str = "simulated RDMA card";
}

impl Windows for Rdma {
    type Out = RdmaStores;
    type In = RdmaLoads;
    type Fence = RdmaFences;

    fn windows(len_bytes: usize) -> [Side<Self>; 2] {
        let sides = windows(len_bytes).expect("the card's parameters");
        sides.map(|(out, inn, fences)| Side { out, inn, fences })
    }
}
