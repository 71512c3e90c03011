//! What comes later than the heap's places: slices of time, and beyond them one pile.
//!
//! ```text
//! heap | slice | slice | ... | slice | pile
//!      ^ each 2^k ps wide            ^ from here on in any order
//! ```
//!
//! A place goes to its slice in constant time. When the last slice is taken, the pile is
//! dealt out over new ones. How wide they are is set by the densest part of what is
//! to come, as 64 samples show it: a few packets' worth of events must not all fall into one
//! slice because there are timers a second away, which then stay on the pile.
//!
//! The places of a slice lie in a chain of blocks, all blocks in one slab: nothing is
//! allocated for a slice, and taking one reads memory in order.

use super::heap::Heap;
use super::place::Place;

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// Places of a slice where they are densest, to a power of two.
const SLICE_PLACES: u64 = 64;
/// Places of a block.
const BLOCK_PLACES: usize = 16;
/// Samples of the pile.
const SAMPLES: usize = 64;
/// The fewest samples that show how dense a part is.
const DENSITY_SAMPLES_MIN: usize = 4;

struct Block<E> {
    places: [Place<E>; BLOCK_PLACES],
    next: u32,
}

/// Whose places are: a slice's. All blocks of its chain but the first are full. How full that
/// one is stands here, so that a place goes into memory that need not be read before.
#[derive(Clone, Copy)]
struct Slice {
    first: u32,
    /// Places in the first block.
    places: u32,
}

const EMPTY: Slice = Slice {
    first: NONE,
    places: BLOCK_PLACES as u32,
};

pub(super) struct Ladder<E> {
    slices: Vec<Slice>,
    /// The first slice that was not taken.
    next: usize,
    /// When slice 0 begins.
    begin_ps: u64,
    /// The last time of the last slice.
    last_ps: u64,
    /// A slice is 2^shift ps wide.
    shift: u32,
    blocks: Vec<Block<E>>,
    /// The chain of unused blocks.
    free: u32,
    pile: Vec<Place<E>>,
    /// Places in slices.
    sliced: usize,
}

impl<E: Copy> Ladder<E> {
    pub fn new() -> Self {
        Self {
            slices: Vec::new(),
            next: 0,
            begin_ps: 0,
            last_ps: 0,
            shift: 0,
            blocks: Vec::new(),
            free: NONE,
            pile: Vec::new(),
            sliced: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.sliced + self.pile.len()
    }

    /// Takes a place that comes after all slices that were taken.
    #[inline(never)]
    pub fn push(&mut self, place: Place<E>) {
        if place.time_ps > self.last_ps {
            self.pile.push(place);
        } else {
            self.slice(place);
        }
    }

    fn slice(&mut self, place: Place<E>) {
        self.sliced += 1;
        let index = ((place.time_ps - self.begin_ps) >> self.shift) as usize;
        let mut slice = self.slices[index];
        if slice.places as usize == BLOCK_PLACES {
            slice = Slice {
                first: self.new_block(place, slice.first),
                places: 0,
            };
        }
        self.blocks[slice.first as usize].places[slice.places as usize] = place;
        slice.places += 1;
        self.slices[index] = slice;
    }

    /// A block in front of `next`; it holds copies of `filler`.
    fn new_block(&mut self, filler: Place<E>, next: u32) -> u32 {
        let at = self.free;
        if let Some(block) = self.blocks.get_mut(at as usize) {
            self.free = std::mem::replace(&mut block.next, next);
            return at;
        }
        let at = u32::try_from(self.blocks.len()).unwrap_or(NONE);
        assert!(at != NONE, "at most 2^32 - 1 blocks of events pend at once");
        let places = [filler; BLOCK_PLACES];
        self.blocks.push(Block { places, next });
        at
    }

    /// Puts everything that is here or in `heap` on the pile.
    pub fn take_back(&mut self, heap: &mut Heap<E>) {
        let mut pile = std::mem::take(&mut self.pile);
        pile.append(heap.places_mut());
        while self.next < self.slices.len() {
            self.take_slice(&mut pile);
        }
        self.pile = pile;
        self.last_ps = 0;
    }

    /// Moves the next places that are `alive` to the empty `heap`: a slice of them, or all if
    /// there are at most `few` and no slices. Gives the last time that is now the heap's.
    pub fn next_slice(
        &mut self,
        heap: &mut Heap<E>,
        few: usize,
        mut alive: impl FnMut(&Place<E>) -> bool,
    ) -> u64 {
        loop {
            while self.next < self.slices.len() {
                self.take_slice(heap.places_mut());
                heap.places_mut().retain(&mut alive);
                if heap.len() > 0 {
                    heap.order();
                    return self.end_of(self.next);
                }
            }
            self.pile.retain(&mut alive);
            if self.pile.len() <= few {
                heap.places_mut().append(&mut self.pile);
                heap.order();
                self.last_ps = 0;
                return u64::MAX;
            }
            self.deal();
        }
    }

    /// Takes the next slice.
    fn take_slice(&mut self, into: &mut Vec<Place<E>>) {
        let slice = std::mem::replace(&mut self.slices[self.next], EMPTY);
        self.next += 1;
        let (mut at, mut used) = (slice.first, slice.places as usize);
        while let Some(block) = self.blocks.get_mut(at as usize) {
            into.extend_from_slice(&block.places[..used]);
            self.sliced -= used;
            used = BLOCK_PLACES;
            let next = std::mem::replace(&mut block.next, self.free);
            self.free = std::mem::replace(&mut at, next);
        }
    }

    /// The last time of the first `slices` slices.
    fn end_of(&self, slices: usize) -> u64 {
        let width = u128::from(slices as u64) << self.shift;
        let last = u128::from(self.begin_ps) + width - 1;
        u64::try_from(last).unwrap_or(u64::MAX)
    }

    /// Deals the pile, which is not empty, out over new slices. At least the earliest
    /// sixteenth of it leaves the pile.
    fn deal(&mut self) {
        let times = self.pile.iter().map(|place| place.time_ps);
        self.begin_ps = times.min().unwrap_or(0);
        let (width_ps, until_ps) = self.look();
        self.shift = width_ps.max(1).ilog2();
        let wanted = ((until_ps - self.begin_ps) >> self.shift).saturating_add(1);
        // A power of two, so that the room for them grows only a few times.
        let most = self.pile.len().next_power_of_two();
        let slices = usize::try_from(wanted).map_or(most, |wanted| most.min(wanted));
        self.slices.clear();
        self.slices.resize(slices, EMPTY);
        self.next = 0;
        self.last_ps = self.end_of(slices);
        let mut pile = std::mem::take(&mut self.pile);
        pile.retain(|&place| {
            let later = place.time_ps > self.last_ps;
            if !later {
                self.slice(place);
            }
            later
        });
        self.pile = pile;
    }

    /// How wide a slice should be, and until when most of the pile comes up.
    fn look(&self) -> (u64, u64) {
        let mut times = [0; SAMPLES];
        for (i, time_ps) in times.iter_mut().enumerate() {
            *time_ps = self.pile[i * self.pile.len() / SAMPLES].time_ps;
        }
        times.sort_unstable();
        let places = self.pile.len() as u128;
        let wide = |samples: usize| {
            let time_ps = u128::from(times[samples - 1] - self.begin_ps);
            let places = places * samples as u128 / SAMPLES as u128;
            time_ps * u128::from(SLICE_PLACES) / places.max(1)
        };
        let counts = std::iter::successors(Some(DENSITY_SAMPLES_MIN), |count| Some(count * 2));
        let widths = counts.take_while(|&count| count <= SAMPLES).map(wide);
        let width_ps = u64::try_from(widths.min().unwrap_or(1)).unwrap_or(u64::MAX);
        (width_ps, times[SAMPLES - DENSITY_SAMPLES_MIN])
    }
}
