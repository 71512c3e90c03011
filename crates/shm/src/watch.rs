//! The watch table: which lines of an aperture carry tripwires, and what those do.
//!
//! The side that sets tripwires owns the table and stores into it; the side whose transfers
//! they watch only loads from it. That is an importer for the owner's tripwires, and the
//! owner for those that an importer sets on its stores. A bit per cache line says whether a
//! tripwire touches it. So a put that touches no watched line costs one load, of a word that
//! nobody else is changing.
//!
//! ```text
//! header, 64 bytes; words of 8 bytes
//! | 0 STATE bit 0: withdrawn | 1 aperture bytes | 2 slots | 3 head of the far chain | 4..7 zero |
//! bitmap, one word per 4 KiB of aperture: bit l = line l of that page is watched
//! heads, a power of two of words: first slot + 1 of the chain with that hash, or 0
//! slots, 64 bytes each; words of 8 bytes
//! | 0 sequence (odd while changing) | 1 offset | 2 length | 3 source (31..0), flags (63..32) |
//! | 4 next slot + 1 of the chain, or 0 | 5..7 zero |
//! ```
//! A tripwire inside one line is chained under the hash of that line, one inside one page
//! under the hash of the page, any other on the far chain. Source: own design.
//!
//! The side that puts does not trust the table: it bounds slots, lengths of chains and sources.
//! If the table keeps changing, it gives up after some tries, and the tripwire's owner misses an
//! event. Nor does the table's owner trust what it has stored: it
//! keeps the chains in memory of its own, since the other side may be able to change these.

use core::sync::atomic::Ordering;
use std::collections::HashMap;

use crate::region::{Region, Window};

const PAGE_SHIFT: usize = 12;
const LINE_SHIFT: usize = 6;
const HEADER_WORDS: usize = 8;
const SLOT_WORDS: usize = 8;
const FAR_HEAD: usize = 3;

/// STATE bit: the owner has withdrawn the aperture.
pub const STATE_WITHDRAWN: u64 = 1;

/// Most tripwires on one chain (the same line, the same page, or far).
pub const CHAIN_MAX: u32 = 1024;
/// Steps after which a putter gives up on a table that makes no sense.
const STEPS_MAX: u32 = 4 * CHAIN_MAX;
/// The same, for a table of few slots.
const STEPS_MIN: u32 = 256;

/// Flag: put an event into the queue.
pub const FLAG_ENQUEUE: u32 = 1;
/// Flag: count the transfer.
pub const FLAG_COUNT: u32 = 2;
/// Flag: wake the sleeper.
pub const FLAG_WAKE: u32 = 4;

/// Why a tripwire could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    /// The range is empty or does not lie inside the aperture.
    #[error(
        "{len_bytes} bytes at offset {offset} are no part of an aperture of {aperture_bytes} bytes"
    )]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Length.
        len_bytes: u64,
        /// The aperture's length.
        aperture_bytes: u64,
    },
    /// Every slot is taken.
    #[error("all {slots} tripwires of the aperture are in use")]
    TableFull {
        /// Number of slots.
        slots: u32,
    },
    /// Too many tripwires on the same line, the same page, or across pages.
    #[error("more than {CHAIN_MAX} tripwires on the same place")]
    PlaceFull,
}

/// Sizes and offsets (in words) of a table.
#[derive(Clone, Copy, Debug)]
struct Layout {
    aperture_bytes: u64,
    slots: u32,
    bitmap: usize,
    heads: usize,
    heads_mask: u64,
    first_slot: usize,
}

impl Layout {
    fn new(aperture_bytes: u64, slots: u32) -> Layout {
        let pages = (aperture_bytes >> PAGE_SHIFT) as usize + 1;
        let heads_count = (slots.max(8) as usize).next_power_of_two();
        let heads = HEADER_WORDS + pages;
        Layout {
            aperture_bytes,
            slots,
            bitmap: HEADER_WORDS,
            heads,
            heads_mask: heads_count as u64 - 1,
            first_slot: (heads + heads_count).next_multiple_of(SLOT_WORDS),
        }
    }

    fn bytes(&self) -> usize {
        (self.first_slot + self.slots as usize * SLOT_WORDS) * 8
    }

    fn slot(&self, slot: u32) -> usize {
        self.first_slot + slot as usize * SLOT_WORDS
    }

    /// The word that heads the chain of a place.
    fn chain(&self, place: u64) -> usize {
        if place == FAR {
            return FAR_HEAD;
        }
        let hash = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.heads + (hash & self.heads_mask) as usize
    }
}

/// The place of everything that lies in one line.
fn line_place(line: u64) -> u64 {
    line << 1
}

/// The place of everything that lies in one page but not in one line.
fn page_place(page: u64) -> u64 {
    page << 1 | 1
}

/// The place of everything that crosses pages.
const FAR: u64 = u64::MAX;

/// The place under which a tripwire on this (sane) range is chained.
fn place_of(offset: u64, len_bytes: u64) -> u64 {
    let last = offset + len_bytes - 1;
    if offset >> LINE_SHIFT == last >> LINE_SHIFT {
        line_place(offset >> LINE_SHIFT)
    } else if offset >> PAGE_SHIFT == last >> PAGE_SHIFT {
        page_place(offset >> PAGE_SHIFT)
    } else {
        FAR
    }
}

/// Bytes of a table for an aperture of `aperture_bytes` and `slots` tripwires.
#[must_use]
pub fn table_bytes(aperture_bytes: usize, slots: u32) -> usize {
    Layout::new(aperture_bytes as u64, slots).bytes()
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    len_bytes: u64,
    /// Slot + 1.
    next: u32,
}

/// The owner's end of a watch table.
#[derive(Debug)]
pub struct WatchTable {
    window: Window,
    layout: Layout,
    entries: Vec<Option<Entry>>,
    /// Links (slot + 1) to the first of each chain, by the word that heads it.
    heads: HashMap<usize, u32>,
    free: Vec<u32>,
    /// How many tripwires touch each line; made with the first of them.
    lines: Vec<u32>,
}

impl WatchTable {
    /// Initialises a zeroed region; `None` if it is smaller than [`table_bytes`].
    #[must_use]
    pub fn create(region: &Region, aperture_bytes: usize, slots: u32) -> Option<WatchTable> {
        let layout = Layout::new(aperture_bytes as u64, slots);
        let window = region.window(0, layout.bytes())?;
        let table = WatchTable {
            window,
            layout,
            entries: Vec::new(),
            heads: HashMap::new(),
            free: Vec::new(),
            lines: Vec::new(),
        };
        table.store(1, aperture_bytes as u64);
        table.store(2, u64::from(slots));
        Some(table)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        // Release pairs with the Acquire loads of `WatchView::load`: a slot's contents are
        // visible before the chain leads to it, the chain before the watch bit.
        self.window
            .word_mut(word * 8)
            .store(value, Ordering::Release);
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        // Relaxed: only this owner stores here.
        self.window.word(word * 8).load(Ordering::Relaxed)
    }

    /// Sets a tripwire and returns its slot. A put that begins after the caller's heavy
    /// fence sees it.
    ///
    /// # Errors
    /// See [`ArmError`]; nothing has changed then.
    pub fn arm(
        &mut self,
        offset: u64,
        len_bytes: u64,
        source: u32,
        flags: u32,
    ) -> Result<u32, ArmError> {
        let aperture_bytes = self.layout.aperture_bytes;
        let end = offset
            .checked_add(len_bytes)
            .filter(|e| *e <= aperture_bytes);
        if len_bytes == 0 || end.is_none() {
            return Err(ArmError::OutOfRange {
                offset,
                len_bytes,
                aperture_bytes,
            });
        }
        let head = self.layout.chain(place_of(offset, len_bytes));
        if self.chain_len(head) >= CHAIN_MAX {
            return Err(ArmError::PlaceFull);
        }
        let slot = self.take_slot()?;
        let next = self.head(head);
        let at = self.layout.slot(slot);
        let sequence = self.load(at) & !1;
        self.store(at, sequence.wrapping_add(1));
        self.store(at + 1, offset);
        self.store(at + 2, len_bytes);
        self.store(at + 3, u64::from(flags) << 32 | u64::from(source));
        self.store(at + 4, u64::from(next));
        self.store(at, sequence.wrapping_add(2));
        self.entries[slot as usize] = Some(Entry {
            offset,
            len_bytes,
            next,
        });
        self.set_head(head, slot + 1);
        self.watch(offset, len_bytes);
        Ok(slot)
    }

    fn take_slot(&mut self) -> Result<u32, ArmError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = self.entries.len() as u32;
        if slot >= self.layout.slots {
            return Err(ArmError::TableFull {
                slots: self.layout.slots,
            });
        }
        self.entries.push(None);
        Ok(slot)
    }

    fn chain_len(&self, head: usize) -> u32 {
        let mut len = 0;
        let mut at = self.head(head);
        while let Some(entry) = self.entry(at) {
            len += 1;
            at = entry.next;
        }
        len
    }

    /// The link to the first of a chain, or 0.
    fn head(&self, head: usize) -> u32 {
        self.heads.get(&head).copied().unwrap_or(0)
    }

    fn set_head(&mut self, head: usize, link: u32) {
        self.store(head, u64::from(link));
        if link == 0 {
            self.heads.remove(&head);
        } else {
            self.heads.insert(head, link);
        }
    }

    /// The entry that a link (slot + 1) leads to.
    fn entry(&self, link: u32) -> Option<Entry> {
        let slot = (link as usize).checked_sub(1)?;
        *self.entries.get(slot)?
    }

    fn watch(&mut self, offset: u64, len_bytes: u64) {
        if self.lines.is_empty() {
            let lines = (self.layout.aperture_bytes >> LINE_SHIFT) as usize + 1;
            self.lines = vec![0; lines];
        }
        for line in lines_of(offset, len_bytes) {
            self.lines[line as usize] += 1;
            if self.lines[line as usize] == 1 {
                let word = self.layout.bitmap + (line >> 6) as usize;
                self.store(word, self.load(word) | 1 << (line & 63));
            }
        }
    }

    /// Removes the tripwire in `slot`; `false` if there is none.
    pub fn disarm(&mut self, slot: u32) -> bool {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        for line in lines_of(entry.offset, entry.len_bytes) {
            self.lines[line as usize] -= 1;
            if self.lines[line as usize] == 0 {
                let word = self.layout.bitmap + (line >> 6) as usize;
                self.store(word, self.load(word) & !(1 << (line & 63)));
            }
        }
        self.unlink(slot, &entry);
        self.free.push(slot);
        true
    }

    fn unlink(&mut self, slot: u32, entry: &Entry) {
        let link = slot + 1;
        let head = self.layout.chain(place_of(entry.offset, entry.len_bytes));
        let mut at = self.head(head);
        if at == link {
            return self.set_head(head, entry.next);
        }
        while let Some(previous) = self.entry(at) {
            if previous.next == link {
                let slot = at - 1;
                self.store(self.layout.slot(slot) + 4, u64::from(entry.next));
                if let Some(previous) = &mut self.entries[slot as usize] {
                    previous.next = entry.next;
                }
                return;
            }
            at = previous.next;
        }
    }

    /// Marks the aperture as withdrawn. Every line is watched from now on, so that the
    /// next put finds out without having looked for it before.
    pub fn withdraw(&self) {
        self.store(0, STATE_WITHDRAWN);
        for word in self.layout.bitmap..self.layout.heads {
            self.store(word, u64::MAX);
        }
    }
}

fn lines_of(offset: u64, len_bytes: u64) -> core::ops::RangeInclusive<u64> {
    offset >> LINE_SHIFT..=(offset + len_bytes - 1) >> LINE_SHIFT
}

/// A tripwire that a transfer touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its slot, below the number of slots of the table.
    pub slot: u32,
    /// The source to ring for; not yet checked against anything.
    pub source: u32,
    /// What to do.
    pub flags: u32,
}

/// The putter's end of a watch table.
#[derive(Clone, Debug)]
pub struct WatchView {
    window: Window,
    layout: Layout,
}

struct Read {
    offset: u64,
    len_bytes: u64,
    what: u64,
    next: u64,
}

impl WatchView {
    /// A view of a table made for these sizes; `None` if the region is too small.
    #[must_use]
    pub fn open(region: &Region, aperture_bytes: usize, slots: u32) -> Option<WatchView> {
        let layout = Layout::new(aperture_bytes as u64, slots);
        let window = region.window(0, layout.bytes())?;
        Some(WatchView { window, layout })
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        // Acquire pairs with the Release stores of `WatchTable::store`.
        self.window.word(word * 8).load(Ordering::Acquire)
    }

    /// Whether the owner has withdrawn the aperture.
    #[inline]
    #[must_use]
    pub fn withdrawn(&self) -> bool {
        self.load(0) & STATE_WITHDRAWN != 0
    }

    /// Whether a transfer to this range (inside the aperture, not empty) touches a
    /// watched line: a single load unless the range crosses a page.
    #[inline]
    #[must_use]
    pub fn touches(&self, offset: usize, len_bytes: usize) -> bool {
        let first = offset >> PAGE_SHIFT;
        let last = (offset + len_bytes - 1) >> PAGE_SHIFT;
        if first != last {
            return (first..=last).any(|page| self.touched(page, offset, len_bytes) != 0);
        }
        self.touched(first, offset, len_bytes) != 0
    }

    /// The watched lines of `page` that the range touches, as bits.
    #[inline]
    fn touched(&self, page: usize, offset: usize, len_bytes: usize) -> u64 {
        let watched = self.load(self.layout.bitmap + page);
        if watched == 0 {
            return 0;
        }
        let page_line = (page << PAGE_SHIFT) >> LINE_SHIFT;
        let first = (offset >> LINE_SHIFT).saturating_sub(page_line);
        let last = (((offset + len_bytes - 1) >> LINE_SHIFT) - page_line).min(63);
        watched & (u64::MAX << first) & (u64::MAX >> (63 - last))
    }

    /// Calls `fire` for every tripwire that a transfer to this range touches. A tripwire
    /// may be reported twice if the table changes meanwhile.
    #[cold]
    pub fn matching(&self, offset: usize, len_bytes: usize, mut fire: impl FnMut(Hit)) {
        // At worst all are in one chain, which is walked for each.
        let slots = self.layout.slots;
        let mut steps = slots.saturating_mul(slots).clamp(STEPS_MIN, STEPS_MAX);
        let range = (offset as u64, (offset + len_bytes) as u64);
        for page in offset >> PAGE_SHIFT..=(offset + len_bytes - 1) >> PAGE_SHIFT {
            let mut lines = self.touched(page, offset, len_bytes);
            if lines == 0 {
                continue;
            }
            while lines != 0 {
                let line =
                    (page << (PAGE_SHIFT - LINE_SHIFT)) as u64 + u64::from(lines.trailing_zeros());
                lines &= lines - 1;
                self.walk(line_place(line), range, &mut steps, &mut fire);
            }
            self.walk(page_place(page as u64), range, &mut steps, &mut fire);
        }
        self.walk(FAR, range, &mut steps, &mut fire);
    }

    /// Walks the chain of one place from its head, from the start again whenever it
    /// changes underfoot.
    fn walk(&self, place: u64, range: (u64, u64), steps: &mut u32, fire: &mut impl FnMut(Hit)) {
        let head = self.layout.chain(place);
        let mut link = self.load(head);
        while link != 0 && *steps > 0 {
            *steps -= 1;
            let Some(read) = self.read_slot(link) else {
                link = self.load(head);
                continue;
            };
            let end = read.offset.saturating_add(read.len_bytes);
            let sane = read.len_bytes > 0 && end <= self.layout.aperture_bytes;
            let its_place = if sane {
                place_of(read.offset, read.len_bytes)
            } else {
                FAR
            };
            if !sane || self.layout.chain(its_place) != head {
                // We were led off: the slot has been taken out and used elsewhere.
                link = self.load(head);
                continue;
            }
            // Chains are shared by hash, so the tripwire may belong to another place.
            if its_place == place && read.offset < range.1 && end > range.0 {
                fire(Hit {
                    slot: (link - 1) as u32,
                    source: read.what as u32,
                    flags: (read.what >> 32) as u32,
                });
            }
            link = read.next;
        }
    }

    /// The slot that a link leads to, if it is one and keeps still while it is read.
    fn read_slot(&self, link: u64) -> Option<Read> {
        let slot = u32::try_from(link - 1).ok()?;
        if slot >= self.layout.slots {
            return None;
        }
        let at = self.layout.slot(slot);
        let before = self.load(at);
        let read = Read {
            offset: self.load(at + 1),
            len_bytes: self.load(at + 2),
            what: self.load(at + 3),
            next: self.load(at + 4),
        };
        (before % 2 == 0 && self.load(at) == before).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Rng;
    use std::collections::BTreeSet;

    fn hits(view: &WatchView, offset: usize, len: usize) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        if view.touches(offset, len) {
            view.matching(offset, len, |hit| {
                assert!(found.insert(hit.source), "reported twice");
            });
        }
        found
    }

    #[test]
    fn matches_an_oracle_of_ranges() {
        const BYTES: usize = 5 * 4096 + 100;
        let mut rng = Rng::from_seed(3);
        let region = Region::private(table_bytes(BYTES, 64));
        let mut table = WatchTable::create(&region, BYTES, 64).unwrap();
        let view = WatchView::open(&region, BYTES, 64).unwrap();
        let mut oracle: Vec<(u32, usize, usize, u32)> = Vec::new();
        for source in 0..20_000_u32 {
            let offset = rng.below(BYTES as u64) as usize;
            let longest = if rng.below(2) == 0 { 80 } else { BYTES as u64 };
            let len = (1 + rng.below(longest)).min((BYTES - offset) as u64) as usize;
            match rng.below(3) {
                0 => match table.arm(offset as u64, len as u64, source, FLAG_ENQUEUE) {
                    Ok(slot) => oracle.push((slot, offset, len, source)),
                    Err(ArmError::TableFull { .. }) => assert_eq!(oracle.len(), 64),
                    Err(error) => panic!("{error}"),
                },
                1 if !oracle.is_empty() => {
                    let at = rng.below(oracle.len() as u64) as usize;
                    let (slot, ..) = oracle.swap_remove(at);
                    assert!(table.disarm(slot));
                    assert!(!table.disarm(slot));
                }
                _ => {
                    let expected = oracle
                        .iter()
                        .filter(|(_, o, l, _)| *o < offset + len && o + l > offset)
                        .map(|(.., source)| *source)
                        .collect();
                    assert_eq!(hits(&view, offset, len), expected);
                }
            }
        }
    }

    #[test]
    fn an_unwatched_line_is_not_touched() {
        let region = Region::private(table_bytes(8192, 8));
        let mut table = WatchTable::create(&region, 8192, 8).unwrap();
        let view = WatchView::open(&region, 8192, 8).unwrap();
        table.arm(128, 8, 1, FLAG_COUNT).unwrap();
        assert!(!view.touches(0, 128));
        assert!(view.touches(0, 129));
        assert!(view.touches(191, 1), "same line");
        assert!(hits(&view, 191, 1).is_empty(), "but not the same bytes");
        assert!(!view.touches(192, 8000));
    }

    #[test]
    fn bad_ranges_are_refused() {
        let region = Region::private(table_bytes(100, 8));
        let mut table = WatchTable::create(&region, 100, 8).unwrap();
        for (offset, len) in [(0, 0), (0, 101), (100, 1), (u64::MAX, 2), (50, u64::MAX)] {
            let error = table.arm(offset, len, 0, 0).unwrap_err();
            assert!(
                matches!(error, ArmError::OutOfRange { .. }),
                "{offset} {len}"
            );
        }
    }

    #[test]
    fn the_owner_of_a_table_does_not_trust_it() {
        const BYTES: usize = 4096;
        let mut rng = Rng::from_seed(23);
        let region = Region::private(table_bytes(BYTES, 16));
        let mut table = WatchTable::create(&region, BYTES, 16).unwrap();
        let window = region.whole();
        let mut armed = Vec::new();
        for _ in 0..20_000 {
            // Whoever maps it too stores what leads in circles.
            let word = rng.below((window.len_bytes() / 8) as u64) as usize;
            // Relaxed: single-threaded test.
            window
                .word(word * 8)
                .store(rng.below(20), Ordering::Relaxed);
            let offset = rng.below(BYTES as u64 - 8);
            if rng.below(2) == 0 {
                armed.extend(table.arm(offset, 8, 1, FLAG_WAKE));
            } else if let Some(slot) = armed.pop() {
                assert!(table.disarm(slot));
            }
            assert!(armed.len() <= 16);
        }
        // What it says to a putter is wrong now, but it is as full as it should be.
        while armed.len() < 16 {
            armed.push(table.arm(0, 8, 1, FLAG_WAKE).unwrap());
        }
        assert!(table.arm(0, 8, 1, FLAG_WAKE).is_err());
    }

    #[test]
    fn random_bytes_in_the_table_do_no_harm() {
        const BYTES: usize = 3 * 4096;
        let mut rng = Rng::from_seed(11);
        let region = Region::private(table_bytes(BYTES, 32));
        let view = WatchView::open(&region, BYTES, 32).unwrap();
        let window = region.whole();
        for _ in 0..20_000 {
            for _ in 0..8 {
                let word = rng.below((window.len_bytes() / 8) as u64) as usize;
                let value = match rng.below(4) {
                    0 => rng.below(40),
                    1 => u64::MAX,
                    2 => rng.below(BYTES as u64),
                    _ => rng.next_u64(),
                };
                // Relaxed: single-threaded test.
                window.word(word * 8).store(value, Ordering::Relaxed);
            }
            let offset = rng.below(BYTES as u64) as usize;
            let len = 1 + rng.below((BYTES - offset) as u64) as usize;
            view.matching(offset, len, |hit| assert!(hit.slot < 32));
            let _ = view.touches(offset, len);
        }
    }
}
