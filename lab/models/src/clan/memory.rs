//! The memory of a host: regions that peers store into, and the windows over them.
//!
//! The windows implement the traits of `barewire-fabric`. A store is only noted here, in
//! the order in which the program made it; whoever drives the model hands it to the card
//! ([`Memory::take_issued`]) and puts it into the peer's region when it has arrived
//! ([`Memory::deliver`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_fabric::doorbell::{PAGE_WORDS, SharedWords};
use barewire_fabric::window::{Incoming, Outgoing};

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

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<Vec<u8>>,
    issued: VecDeque<Store>,
}

/// The memory of a host, as programs and card share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Inner>>);

impl Memory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic in a window (an offset outside) leaves the memory as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new region of zeros, by its number.
    pub fn add_region(&self, len_bytes: usize) -> usize {
        let mut inner = self.inner();
        inner.regions.push(vec![0; len_bytes]);
        inner.regions.len() - 1
    }

    /// The loading window over an own region.
    ///
    /// # Panics
    /// If there is no such region.
    #[must_use]
    pub fn loads(&self, region: usize) -> Loads {
        let len_bytes = self.inner().regions[region].len();
        Loads {
            memory: self.clone(),
            region,
            len_bytes,
        }
    }

    /// The storing window into a region of `len_bytes` of host `to`.
    #[must_use]
    pub fn stores(&self, to: u8, region: usize, len_bytes: usize) -> Stores {
        Stores {
            memory: self.clone(),
            to,
            region,
            len_bytes,
        }
    }

    /// The oldest store that has not been taken.
    pub fn take_issued(&self) -> Option<Store> {
        self.inner().issued.pop_front()
    }

    /// Puts bytes that have arrived into a region; `false` if they do not lie in one.
    pub fn deliver(&self, region: usize, offset: usize, bytes: &[u8]) -> bool {
        let mut inner = self.inner();
        let end = offset.checked_add(bytes.len());
        let place = inner
            .regions
            .get_mut(region)
            .and_then(|region| region.get_mut(offset..end?));
        match place {
            Some(place) => place.copy_from_slice(bytes),
            None => return false,
        }
        true
    }
}

/// The storing window: through the card into a peer's region.
#[derive(Clone, Debug)]
pub struct Stores {
    memory: Memory,
    to: u8,
    region: usize,
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
            offset,
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
    len_bytes: usize,
}

impl Incoming for Loads {
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let end = offset.checked_add(into.len());
        let end = end.unwrap_or_else(|| panic!("a load at {offset} outside"));
        into.copy_from_slice(&self.memory.inner().regions[self.region][offset..end]);
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
pub struct Words(Arc<Mutex<Vec<u64>>>);

impl Default for Words {
    fn default() -> Self {
        Words(Arc::new(Mutex::new(vec![0; PAGE_WORDS])))
    }
}

impl Words {
    fn change(&self, index: usize, change: impl FnOnce(&mut u64)) -> u64 {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = words[index];
        change(&mut words[index]);
        before
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
