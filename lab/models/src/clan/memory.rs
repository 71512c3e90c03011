//! The memory of a host: regions that peers store into, and the windows over them.
//!
//! The windows implement the traits of `barewire-fabric`. A store is only noted here, in
//! the order in which the program made it; whoever drives the model hands it to the card
//! ([`Memory::take_issued`]) and puts it into the peer's region when it has arrived
//! ([`Memory::deliver`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_fabric::aperture::Rights;
use barewire_fabric::doorbell::PAGE_WORDS;
use barewire_fabric::memory::{Incoming, Outgoing, SharedWords};

/// A store that a program has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The host that it goes to.
    pub to: u8,
    /// The region there.
    pub region: usize,
    /// Offset in the region.
    pub offset: usize,
    /// What is stored.
    pub bytes: Vec<u8>,
    /// Everything before it must have left the processor first.
    pub ordered: bool,
}

impl Store {
    /// Takes off the part up to the next multiple of `entry_bytes`.
    pub(super) fn split_entry(&mut self, entry_bytes: usize) -> Store {
        let entry_bytes = entry_bytes.max(1);
        let room = entry_bytes - self.offset % entry_bytes;
        let rest = self.bytes.split_off(room.min(self.bytes.len()));
        let entry = Store {
            bytes: std::mem::replace(&mut self.bytes, rest),
            ..*self
        };
        self.offset += entry.bytes.len();
        self.ordered = false;
        entry
    }
}

/// A region, as the card's table of apertures has it.
#[derive(Debug)]
struct Region {
    bytes: Vec<u8>,
    rights: Rights,
    /// Peers may use it.
    open: bool,
    /// Up to where peers have stored.
    touched: usize,
}

impl Region {
    fn may(&self, stores: bool) -> bool {
        self.open && (self.rights == Rights::ReadWrite || !stores)
    }
}

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<Region>,
    issued: VecDeque<Store>,
}

/// What a card asks of the card at the other end, which answers with what was there.
///
/// OPEN: the source has stores and loads only. The two changes are ours: a peer's card does
/// them while it holds its host's bus, so nothing comes between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Load so many bytes.
    Load(usize),
    /// Add to a word.
    Add(u64),
    /// Replace a word if it is the first by the second.
    Exchange(u64, u64),
}

impl Operation {
    /// Bytes that it moves over the bus of the host whose memory it is.
    #[must_use]
    pub const fn bus_bytes(self) -> usize {
        match self {
            Self::Load(len_bytes) => len_bytes,
            Self::Add(_) | Self::Exchange(..) => 16,
        }
    }

    /// Its operands, as a packet carries them.
    #[must_use]
    pub fn operands(self) -> Vec<u8> {
        match self {
            Self::Load(len_bytes) => (len_bytes as u64).to_be_bytes().to_vec(),
            Self::Add(value) => value.to_be_bytes().to_vec(),
            Self::Exchange(current, new) => [current.to_be_bytes(), new.to_be_bytes()].concat(),
        }
    }

    fn changes(self) -> bool {
        !matches!(self, Self::Load(_))
    }

    /// What becomes of a word.
    fn applied(self, word: u64) -> u64 {
        match self {
            Self::Load(_) => word,
            Self::Add(value) => word.wrapping_add(value),
            Self::Exchange(current, new) if word == current => new,
            Self::Exchange(..) => word,
        }
    }
}

/// The memory of a host, as programs and card share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Inner>>);

impl Memory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic in a window (an offset outside) leaves the memory as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new region of zeros, by its number, that peers may load from and store into.
    pub fn add_region(&self, len_bytes: usize) -> usize {
        self.add_region_for(len_bytes, Rights::ReadWrite)
    }

    /// A new region of zeros, by its number.
    pub fn add_region_for(&self, len_bytes: usize, rights: Rights) -> usize {
        let mut inner = self.inner();
        inner.regions.push(Region {
            bytes: vec![0; len_bytes],
            rights,
            open: true,
            touched: 0,
        });
        inner.regions.len() - 1
    }

    /// From now on the card refuses what peers want of a region.
    pub fn close_region(&self, region: usize) {
        if let Some(region) = self.inner().regions.get_mut(region) {
            region.open = false;
        }
    }

    /// Bytes of all regions, which may not be paged out; and of them, up to where peers have
    /// stored in each.
    #[must_use]
    pub fn used_bytes(&self) -> (u64, u64) {
        let inner = self.inner();
        inner.regions.iter().fold((0, 0), |(all, touched), region| {
            let len = region.bytes.len() as u64;
            (all + len, touched + region.touched as u64)
        })
    }

    /// The loading window over an own region.
    ///
    /// # Panics
    /// If there is no such region.
    #[must_use]
    pub fn loads(&self, region: usize) -> Loads {
        let len_bytes = self.inner().regions[region].bytes.len();
        self.loads_at(region, 0, len_bytes)
    }

    /// The loading window over `len_bytes` of an own region, from `base` on.
    #[must_use]
    pub fn loads_at(&self, region: usize, base: usize, len_bytes: usize) -> Loads {
        Loads {
            memory: self.clone(),
            region,
            base,
            len_bytes,
        }
    }

    /// The storing window into a region of `len_bytes` of host `to`.
    #[must_use]
    pub fn stores(&self, to: u8, region: usize, len_bytes: usize) -> Stores {
        self.stores_at(to, region, 0, len_bytes)
    }

    /// The storing window into `len_bytes` of a region of host `to`, from `base` on.
    #[must_use]
    pub fn stores_at(&self, to: u8, region: usize, base: usize, len_bytes: usize) -> Stores {
        Stores {
            memory: self.clone(),
            to,
            region,
            base,
            len_bytes,
        }
    }

    /// The oldest store that has not been taken.
    pub fn take_issued(&self) -> Option<Store> {
        self.inner().issued.pop_front()
    }

    /// Puts bytes that have arrived into a region; `false` if they do not lie in one, or it is
    /// not for peers to store into.
    pub fn deliver(&self, region: usize, offset: usize, bytes: &[u8]) -> bool {
        let mut inner = self.inner();
        let Some(region) = inner.regions.get_mut(region).filter(|r| r.may(true)) else {
            return false;
        };
        let end = offset.saturating_add(bytes.len());
        let Some(place) = region.bytes.get_mut(offset..end) else {
            return false;
        };
        place.copy_from_slice(bytes);
        region.touched = region.touched.max(end);
        true
    }

    /// Does what a peer's card asks for: what was there, and whether it is something else
    /// now; `None` if it is refused.
    pub fn operate(
        &self,
        region: usize,
        offset: usize,
        operation: Operation,
    ) -> Option<(Vec<u8>, bool)> {
        let mut inner = self.inner();
        let region = inner.regions.get_mut(region)?;
        region.may(operation.changes()).then_some(())?;
        operate_on(&mut region.bytes, offset, operation)
    }

    /// As [`Memory::operate`], by the host itself, whom no table refuses.
    pub fn operate_locally(
        &self,
        region: usize,
        offset: usize,
        operation: Operation,
    ) -> Option<(Vec<u8>, bool)> {
        let mut inner = self.inner();
        operate_on(&mut inner.regions.get_mut(region)?.bytes, offset, operation)
    }

    /// Stores into an own region.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn store_locally(&self, region: usize, offset: usize, bytes: &[u8]) {
        let place = &mut self.inner().regions[region].bytes[offset..offset + bytes.len()];
        place.copy_from_slice(bytes);
    }
}

fn operate_on(bytes: &mut [u8], offset: usize, operation: Operation) -> Option<(Vec<u8>, bool)> {
    let len_bytes = match operation {
        Operation::Load(len_bytes) => len_bytes,
        Operation::Add(_) | Operation::Exchange(..) => 8,
    };
    let place = bytes.get_mut(offset..offset.checked_add(len_bytes)?)?;
    let was = place.to_vec();
    let mut replaced = false;
    if let (true, Ok(word)) = (operation.changes(), <[u8; 8]>::try_from(&was[..])) {
        let word = u64::from_ne_bytes(word);
        place.copy_from_slice(&operation.applied(word).to_ne_bytes());
        replaced = !matches!(operation, Operation::Exchange(current, _) if current != word);
    }
    Some((was, replaced))
}

/// The storing window: through the card into a peer's region.
#[derive(Clone, Debug)]
pub struct Stores {
    memory: Memory,
    to: u8,
    region: usize,
    base: usize,
    len_bytes: usize,
}

impl Stores {
    fn issue(&self, offset: usize, bytes: &[u8], ordered: bool) {
        let end = offset.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.len_bytes),
            "a store of {} bytes at {offset} outside {} bytes",
            bytes.len(),
            self.len_bytes
        );
        if bytes.is_empty() {
            return;
        }
        self.memory.inner().issued.push_back(Store {
            to: self.to,
            region: self.region,
            offset: self.base + offset,
            bytes: bytes.to_vec(),
            ordered,
        });
    }
}

fn assert_aligned(offset: usize) {
    assert!(offset % 8 == 0, "a word at {offset}");
}

impl Outgoing for Stores {
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.issue(offset, bytes, false);
    }

    fn write_u64(&self, offset: usize, value: u64) {
        assert_aligned(offset);
        self.issue(offset, &value.to_ne_bytes(), false);
    }

    fn publish_u64(&self, offset: usize, value: u64) {
        assert_aligned(offset);
        self.issue(offset, &value.to_ne_bytes(), true);
    }
}

/// The loading window over an own region.
#[derive(Clone, Debug)]
pub struct Loads {
    memory: Memory,
    region: usize,
    base: usize,
    len_bytes: usize,
}

impl Incoming for Loads {
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let end = offset.checked_add(into.len());
        let inside = end.filter(|end| *end <= self.len_bytes);
        let end = self.base + inside.unwrap_or_else(|| panic!("a load at {offset} outside"));
        let region = &self.memory.inner().regions[self.region];
        into.copy_from_slice(&region.bytes[self.base + offset..end]);
    }

    fn read_u64(&self, offset: usize) -> u64 {
        assert_aligned(offset);
        let mut word = [0; 8];
        self.read(offset, &mut word);
        u64::from_ne_bytes(word)
    }

    fn observe_u64(&self, offset: usize) -> u64 {
        self.read_u64(offset)
    }
}

/// The doorbell page of a host: the words of its event queue.
#[derive(Clone, Debug)]
pub struct Words(Arc<Mutex<Page>>);

#[derive(Debug)]
struct Page {
    words: Vec<u64>,
    taken: u64,
}

impl Default for Words {
    fn default() -> Self {
        Words(Arc::new(Mutex::new(Page {
            words: vec![0; PAGE_WORDS],
            taken: 0,
        })))
    }
}

impl Words {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut u64)) -> u64 {
        let word = &mut self.page().words[index];
        let before = *word;
        change(word);
        before
    }

    /// Words that the owner has taken: each is a line that the card has stored.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.page().taken
    }
}

/// Under a lock each access is whole and ordered with all others.
impl SharedWords for Words {
    fn load(&self, index: usize) -> u64 {
        self.change(index, |_| {})
    }

    fn store(&self, index: usize, value: u64) {
        self.change(index, |word| *word = value);
    }

    fn or(&self, index: usize, bits: u64) -> u64 {
        self.change(index, |word| *word |= bits)
    }

    fn take(&self, index: usize) -> u64 {
        self.page().taken += 1;
        self.change(index, |word| *word = 0)
    }

    fn settle(&self) {}

    fn fence(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_waits_until_it_is_delivered() {
        let (near, far) = (Memory::default(), Memory::default());
        let region = far.add_region(64);
        let (out, inn) = (near.stores(1, region, 64), far.loads(region));
        out.write(3, &[1, 2]);
        out.publish_u64(8, 7);
        assert_eq!(inn.observe_u64(8), 0);
        while let Some(store) = near.take_issued() {
            assert_eq!(store.ordered, store.offset == 8);
            assert!(far.deliver(store.region, store.offset, &store.bytes));
        }
        assert_eq!((inn.observe_u64(8), inn.read_u64(0)), (7, 0x02_0100_0000));
        assert!(!far.deliver(region, 63, &[0; 2]) && !far.deliver(1, 0, &[0]));
        assert_eq!(far.used_bytes(), (64, 16));
    }

    #[test]
    fn a_peer_may_do_what_the_table_says() {
        let memory = Memory::default();
        let region = memory.add_region_for(16, Rights::Read);
        memory.store_locally(region, 8, &7_u64.to_ne_bytes());
        let word = |value: u64| Some((value.to_ne_bytes().to_vec(), false));
        assert_eq!(memory.operate(region, 8, Operation::Load(8)), word(7));
        assert_eq!(memory.operate(region, 8, Operation::Add(1)), None);
        assert!(!memory.deliver(region, 0, &[1]));
        assert_eq!(
            memory.operate(region, 9, Operation::Load(8)),
            None,
            "outside"
        );
        let add = Operation::Add(u64::MAX);
        let was = |value: u64| Some((value.to_ne_bytes().to_vec(), true));
        assert_eq!(memory.operate_locally(region, 8, add), was(7));
        let missed = Operation::Exchange(7, 1);
        assert_eq!(memory.operate_locally(region, 8, missed), word(6));
        let met = Operation::Exchange(6, 1);
        assert_eq!(memory.operate_locally(region, 8, met), was(6));
        memory.close_region(region);
        assert_eq!(memory.operate(region, 8, Operation::Load(8)), None);
        assert_eq!(memory.loads(region).read_u64(8), 1);
    }

    #[test]
    fn windows_over_a_part_stay_in_it() {
        let (near, far) = (Memory::default(), Memory::default());
        let region = far.add_region(64);
        near.stores_at(1, region, 32, 16).write(8, &[5; 8]);
        let store = near.take_issued().expect("it was made");
        assert!(far.deliver(store.region, store.offset, &store.bytes));
        assert_eq!(
            far.loads_at(region, 32, 16).read_u64(8),
            u64::from_ne_bytes([5; 8])
        );
        let outside = std::panic::catch_unwind(|| far.loads_at(region, 32, 16).read_u64(16));
        assert!(outside.is_err());
    }

    #[test]
    fn a_store_is_taken_apart_at_the_entries() {
        let memory = Memory::default();
        memory.stores(0, 0, 200).write(20, &[9; 70]);
        let mut store = memory.take_issued().expect("it was made");
        let mut parts = Vec::new();
        while !store.bytes.is_empty() {
            let entry = store.split_entry(32);
            parts.push((entry.offset, entry.bytes.len()));
        }
        assert_eq!(parts, [(20, 12), (32, 32), (64, 26)]);
    }
}
