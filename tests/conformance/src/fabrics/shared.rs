//! The memory of the network without the network: sealed memfds, each mapped twice, for
//! storing and for loading.

use barewire_fabric::doorbell::PAGE_BYTES;
use barewire_fabric::memory::Fences;
use barewire_shm::Window;
use barewire_sys::memory::{Access, Memfd};
use barewire_sys::wake::{heavy_fence, light_fence, register_expedited};

use crate::fabric::{Doorbells, FabricUnderTest, Side, Windows};

/// Shared memory, with the fences of the network: `membarrier` where the kernel has it.
pub struct Shared;

impl FabricUnderTest for Shared {
    const NAME: &'static str = "shared memory";
}

/// The fences that a link uses.
pub struct LinkFences {
    asymmetric: bool,
}

impl Fences for LinkFences {
    fn light(&self) {
        light_fence(self.asymmetric);
    }
    fn heavy(&self) {
        heavy_fence();
    }
}

/// The storing and the loading end of new memory: the owner can only load.
fn one_way(len_bytes: usize) -> (Window, Window) {
    let bytes = len_bytes.next_multiple_of(4096);
    let memfd = Memfd::create_sealed("conformance", bytes).expect("shared memory");
    let window = |access| {
        let region = memfd.map(access).expect("a mapping");
        region.window(0, len_bytes).expect("a window")
    };
    (window(Access::ReadWrite), window(Access::Read))
}

impl Windows for Shared {
    type Out = Window;
    type In = Window;
    type Fence = LinkFences;

    fn windows(len_bytes: usize) -> [Side<Self>; 2] {
        let asymmetric = register_expedited();
        let fences = || LinkFences { asymmetric };
        let (to_b, from_a) = one_way(len_bytes);
        let (to_a, from_b) = one_way(len_bytes);
        [(to_b, from_b), (to_a, from_a)].map(|(out, inn)| Side {
            out,
            inn,
            fences: fences(),
        })
    }
}

impl Doorbells for Shared {
    type Words = Window;

    fn page() -> [Window; 3] {
        let memfd = Memfd::create_sealed("conformance", PAGE_BYTES).expect("shared memory");
        [(), (), ()].map(|()| memfd.map(Access::ReadWrite).expect("a mapping").whole())
    }
}
