//! The doorbell page, in which peers set a bit for each source that is ready.
//!
//! ```text
//! word 0        TOP      bit m: some word of mid[m] may be non-zero       (set by peers)
//! word 1        SLEEP    odd: the owner sleeps; counts up               (stored by owner)
//! word 2        mid[0]   bit l: leaf[l] may be non-zero                   (set by peers)
//! words 3 to 7  leaf[0..5]   one bit per source, polled directly          (set by peers)
//! words 8 to 70 mid[1..64]
//! from word 71  leaf[5..4096]
//! from 4168     waiting[0..4024]: not 0: an importer of the aperture with this number may
//!               wait for its owner to store into it      (set by peers, cleared by owner)
//! ```
//!
//! The words of the first 320 sources lie in the first cache line, and the owner polls them
//! whenever it polls TOP. So ringing for one of them is one read-modify-write of one cache line.
//! For the others a ringer sets a bit in leaf, mid and TOP, in this order. Peers set bits with
//! `or`, from the leaf upwards; the owner takes them with `swap`, from the top downwards. Both sides
//! write these words, so they need read-modify-write instructions. Each source has one bit. So a source
//! is pending at most once, however often it is rung, and the page cannot overflow. Draining takes
//! O(pending) steps.
//!
//! A ringer that stops half-way delays its own bit only: every ringer sets all three bits by
//! itself, whatever others have set. [`sweep`] finds the bit of a ringer that died half-way.
//!
//! Source: own design (`docs/decisions/0001`).

use crate::memory::SharedWords;

/// Sources per page.
pub const SOURCES_MAX: u32 = 64 * 64 * 64;
/// Words per page.
pub const PAGE_WORDS: usize = 2 + 64 + 64 * 64;
/// First of the words in which importers say that they wait, on a line of its own.
const WAITING_AT: usize = PAGE_WORDS.next_multiple_of(8);
/// How many of them there are.
const WAITING_WORDS: usize = 4024;
/// Bytes per page.
pub const PAGE_BYTES: usize = (WAITING_AT + WAITING_WORDS) * 8;
const _: () = assert!(PAGE_BYTES == 64 << 10);

const TOP: usize = 0;
const SLEEP: usize = 1;
const LEAVES_IN_FIRST_LINE: usize = 5;

#[inline]
fn mid_index(mid: usize) -> usize {
    if mid == 0 { 2 } else { 7 + mid }
}

#[inline]
fn leaf_index(leaf: usize) -> usize {
    if leaf < LEAVES_IN_FIRST_LINE {
        3 + leaf
    } else {
        66 + leaf
    }
}

const _: () = assert!(66 + 4095 < PAGE_WORDS && 7 + 63 < 66 + LEAVES_IN_FIRST_LINE);

/// Raises the bit of `source` and returns the owner's sleep word: if it is odd, the owner
/// may sleep and has to be woken, unless this process has already woken that very sleep.
///
/// # Panics
/// If `source` is not below [`SOURCES_MAX`]: check what a peer told you first.
#[inline]
pub fn ring<W: SharedWords>(words: &W, source: u32) -> u64 {
    assert!(source < SOURCES_MAX);
    let leaf = (source >> 6) as usize;
    let mid = leaf >> 6;
    words.or(leaf_index(leaf), 1 << (source & 63));
    words.settle();
    if leaf < LEAVES_IN_FIRST_LINE {
        return words.load(SLEEP);
    }
    // A level whose bit is set already will be taken later, and then ours is seen.
    let bit = 1 << (leaf & 63);
    if words.load(mid_index(mid)) & bit == 0 {
        words.or(mid_index(mid), bit);
        words.settle();
    }
    let bit = 1 << mid;
    if words.load(TOP) & bit == 0 {
        words.or(TOP, bit);
    }
    // Also after a climb that found the bits set: whoever set them may not have come to
    // look at the sleep word, and never will.
    words.settle();
    words.load(SLEEP)
}

/// Whether anything may be pending: six loads from one line.
#[inline]
pub fn pending<W: SharedWords>(words: &W) -> bool {
    let direct = (0..LEAVES_IN_FIRST_LINE).fold(0, |bits, l| bits | words.load(leaf_index(l)));
    direct | words.load(TOP) != 0
}

/// The word for an aperture's importers. The last is shared by all that have none of their own.
#[inline]
fn waiting_index(aperture: u32) -> usize {
    WAITING_AT + (aperture as usize).min(WAITING_WORDS - 1)
}

/// Importer: from now on the owner of this page looks, after each of its stores into the
/// aperture with this number, at what its importers wait for. What the owner is to find has
/// been stored before; a heavy fence and another look at what is waited for must follow.
pub fn announce_waiting<W: SharedWords>(words: &W, aperture: u32) {
    let index = waiting_index(aperture);
    if words.load(index) == 0 {
        words.or(index, 1);
    }
}

/// Owner: whether an importer of the aperture may wait for stores: a single load. The store
/// and a light fence come before.
#[inline]
pub fn may_wait<W: SharedWords>(words: &W, aperture: u32) -> bool {
    words.load(waiting_index(aperture)) != 0
}

/// Owner: nobody holds the aperture with this number, so nobody waits.
pub fn nobody_waits<W: SharedWords>(words: &W, aperture: u32) {
    if (aperture as usize) < WAITING_WORDS - 1 && may_wait(words, aperture) {
        words.store(waiting_index(aperture), 0);
    }
}

/// Owner: announces sleep number `sequence` (odd). Returns `false` if something is
/// pending: then do not sleep, and announce being awake.
pub fn announce_sleep<W: SharedWords>(words: &W, sequence: u64) -> bool {
    debug_assert!(sequence % 2 == 1);
    words.store(SLEEP, sequence);
    words.fence();
    !pending(words)
}

/// Owner: announces being awake, with an even `sequence`.
#[inline]
pub fn announce_awake<W: SharedWords>(words: &W, sequence: u64) {
    debug_assert!(sequence % 2 == 0);
    words.store(SLEEP, sequence);
}

/// Owner: lifts every set leaf bit up to the top again. To be called when a peer has died,
/// which may have happened between its setting a leaf bit and the bits above.
pub fn sweep<W: SharedWords>(words: &W) {
    for leaf in LEAVES_IN_FIRST_LINE..64 * 64 {
        if words.load(leaf_index(leaf)) != 0 {
            words.or(mid_index(leaf >> 6), 1 << (leaf & 63));
            words.or(TOP, 1 << (leaf >> 6));
        }
    }
}

/// Owner: what has been taken from the page and not yet been handed out.
#[derive(Debug, Default)]
pub struct Drain {
    top: u64,
    mid: u64,
    mid_number: usize,
    leaf: u64,
    leaf_number: usize,
    /// Where the round of the first line goes on: a direct leaf, or TOP behind them.
    round: usize,
}

impl Drain {
    /// Whether something was taken that has not been handed out.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.top | self.mid | self.leaf == 0
    }

    /// The next pending source; `None` when everything taken has been handed out and the words
    /// of the first line show nothing more, or led to no source as often as there are words.
    /// Each of them gets its turn, so that no source waits for ever behind a busy one.
    #[inline]
    pub fn next_source<W: SharedWords>(&mut self, words: &W) -> Option<u32> {
        // One round per call: a ringer which sets upper bits without lower ones can not
        // hold the owner here.
        let mut looks = LEAVES_IN_FIRST_LINE + 1;
        loop {
            if self.leaf != 0 {
                let bit = self.leaf.trailing_zeros();
                self.leaf &= self.leaf - 1;
                return Some((self.leaf_number as u32) << 6 | bit);
            }
            if self.mid != 0 {
                let bit = self.mid.trailing_zeros() as usize;
                self.mid &= self.mid - 1;
                self.leaf_number = self.mid_number << 6 | bit;
                self.leaf = words.take(leaf_index(self.leaf_number));
                continue;
            }
            if self.top != 0 {
                self.mid_number = self.top.trailing_zeros() as usize;
                self.top &= self.top - 1;
                self.mid = words.take(mid_index(self.mid_number));
                continue;
            }
            if looks == 0 || !self.look(words) {
                return None;
            }
            looks -= 1;
        }
    }

    /// Takes the next word of the first line that shows something; whether one did.
    #[inline]
    fn look<W: SharedWords>(&mut self, words: &W) -> bool {
        let mut shown = u32::from(words.load(TOP) != 0) << LEAVES_IN_FIRST_LINE;
        for leaf in 0..LEAVES_IN_FIRST_LINE {
            shown |= u32::from(words.load(leaf_index(leaf)) != 0) << leaf;
        }
        if shown == 0 {
            return false;
        }
        let later = shown >> self.round << self.round;
        let here = if later == 0 { shown } else { later }.trailing_zeros() as usize;
        self.round = (here + 1) % (LEAVES_IN_FIRST_LINE + 1);
        if here == LEAVES_IN_FIRST_LINE {
            self.top = words.take(TOP);
        } else {
            self.leaf_number = here;
            self.leaf = words.take(leaf_index(here));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering, fence};
    use std::collections::BTreeSet;
    use std::vec::Vec;

    struct Page(Vec<AtomicU64>);

    impl Page {
        fn new() -> Page {
            Page((0..PAGE_BYTES / 8).map(|_| AtomicU64::new(0)).collect())
        }
    }

    impl SharedWords for Page {
        fn load(&self, index: usize) -> u64 {
            self.0[index].load(Ordering::SeqCst)
        }
        fn store(&self, index: usize, value: u64) {
            self.0[index].store(value, Ordering::SeqCst);
        }
        fn or(&self, index: usize, bits: u64) -> u64 {
            self.0[index].fetch_or(bits, Ordering::SeqCst)
        }
        fn take(&self, index: usize) -> u64 {
            self.0[index].swap(0, Ordering::SeqCst)
        }
        fn settle(&self) {
            fence(Ordering::SeqCst);
        }
        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
    }

    #[test]
    fn every_source_has_a_place_of_its_own() {
        let mut seen = BTreeSet::from([TOP, SLEEP]);
        for mid in 0..64 {
            assert!(seen.insert(mid_index(mid)));
        }
        for leaf in 0..4096 {
            assert!(seen.insert(leaf_index(leaf)));
        }
        assert_eq!(seen.len(), PAGE_WORDS);
        assert_eq!(seen.last(), Some(&(PAGE_WORDS - 1)));
    }

    #[test]
    fn what_was_rung_is_drained_once() {
        let page = Page::new();
        let mut rng = barewire_units::Rng::from_seed(7);
        let mut drain = Drain::default();
        for _ in 0..200 {
            let mut rung = BTreeSet::new();
            for _ in 0..rng.below(300) {
                let source = rng.below(u64::from(SOURCES_MAX)) as u32;
                ring(&page, source);
                rung.insert(source);
            }
            let mut drained = BTreeSet::new();
            while let Some(source) = drain.next_source(&page) {
                assert!(drained.insert(source), "source {source} twice");
            }
            assert_eq!(rung, drained);
            assert!(drain.is_idle() && !pending(&page));
        }
    }

    #[test]
    fn a_half_done_climb_is_swept_up() {
        let page = Page::new();
        page.or(leaf_index(4000), 1 << 9);
        let mut drain = Drain::default();
        assert_eq!(drain.next_source(&page), None);
        sweep(&page);
        assert_eq!(drain.next_source(&page), Some(4000 << 6 | 9));
    }

    #[test]
    fn one_half_done_climb_does_not_hide_another() {
        let page = Page::new();
        page.or(leaf_index(9), 1); // stopped here
        ring(&page, 9 << 6 | 5);
        let mut drain = Drain::default();
        assert_eq!(drain.next_source(&page), Some(9 << 6));
        assert_eq!(drain.next_source(&page), Some(9 << 6 | 5));
    }

    #[test]
    fn a_busy_source_hides_no_other() {
        let page = Page::new();
        let others = [70, 319, 320, 5000, SOURCES_MAX - 1];
        for source in others {
            ring(&page, source);
        }
        let mut drain = Drain::default();
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            ring(&page, 0);
            seen.extend(drain.next_source(&page));
        }
        assert!(
            others.iter().all(|source| seen.contains(source)),
            "{seen:?}"
        );
    }

    #[test]
    fn importers_wait_for_the_aperture_that_they_name() {
        let page = Page::new();
        let many = WAITING_WORDS as u32;
        for aperture in [0, 1, many - 2] {
            assert!(!may_wait(&page, aperture));
            announce_waiting(&page, aperture);
            announce_waiting(&page, aperture);
            assert!(may_wait(&page, aperture) && !may_wait(&page, aperture + 1));
            nobody_waits(&page, aperture);
            assert!(!may_wait(&page, aperture));
        }
        // Those without a word of their own are looked after as long as the page lives.
        announce_waiting(&page, many + 5);
        nobody_waits(&page, many + 5);
        nobody_waits(&page, u32::MAX);
        assert!(may_wait(&page, many + 5) && may_wait(&page, u32::MAX));
        assert!(!pending(&page), "no source was rung");
    }

    #[test]
    fn sleep_is_refused_while_something_is_pending() {
        let page = Page::new();
        assert!(announce_sleep(&page, 1));
        assert_eq!(ring(&page, 0), 1);
        announce_awake(&page, 2);
        assert!(!announce_sleep(&page, 3));
    }
}
