//! A work queue: descriptors begin, and are done, in the order in which they were posted.
//!
//! An operation may end before one that was posted earlier, as a send behind an RDMA read does. Its descriptor is told
//! as done only when all before it are. So a completion queue gets one entry for each descriptor, in order, and the
//! descriptor that is taken out of the work queue is the one that the entry is for.

use alloc::collections::VecDeque;

#[derive(Debug)]
struct Entry<D> {
    work: D,
    ended: bool,
}

/// A work queue of descriptors `D`, each with a number: 0 for the first one that was posted, and so on.
#[derive(Debug)]
pub struct WorkQueue<D> {
    entries: VecDeque<Entry<D>>,
    /// The number of the front.
    first: u64,
    /// The number of the next one to begin.
    next: u64,
    /// All below this number are told as done.
    told: u64,
    max: usize,
}

impl<D> WorkQueue<D> {
    /// An empty queue, for at most `max` descriptors.
    #[must_use]
    pub fn new(max: usize) -> WorkQueue<D> {
        WorkQueue {
            entries: VecDeque::new(),
            first: 0,
            next: 0,
            told: 0,
            max,
        }
    }

    /// Posts a descriptor. Returns its number, or `None` if the queue is full.
    pub fn post(&mut self, work: D) -> Option<u64> {
        if self.entries.len() >= self.max {
            return None;
        }
        self.entries.push_back(Entry { work, ended: false });
        Some(self.first + self.entries.len() as u64 - 1)
    }

    /// The next descriptor that has not begun, with its number. Those that have ended without beginning are passed
    /// over.
    pub fn peek(&mut self) -> Option<(u64, &D)> {
        self.next = self.next.max(self.first);
        while self.entry(self.next)?.ended {
            self.next += 1;
        }
        let next = self.next;
        self.entry(next).map(|entry| (next, &entry.work))
    }

    /// The descriptor that [`peek`](Self::peek) shows has begun.
    pub fn begin(&mut self) {
        if self.peek().is_some() {
            self.next += 1;
        }
    }

    /// A descriptor has ended. Returns how many are to be told as done now.
    pub fn end(&mut self, number: u64) -> usize {
        if let Some(at) = self.place(number) {
            self.entries[at].ended = true;
        }
        let before = self.told;
        while self.entry(self.told).is_some_and(|entry| entry.ended) {
            self.told += 1;
        }
        usize::try_from(self.told - before).unwrap_or(usize::MAX)
    }

    /// Takes the first descriptor out, if it is done.
    pub fn take(&mut self) -> Option<D> {
        if self.told == self.first {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.first += 1;
        Some(entry.work)
    }

    /// The descriptor of this number, if it is in the queue.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&D> {
        self.entry(number).map(|entry| &entry.work)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut D> {
        let at = self.place(number)?;
        Some(&mut self.entries[at].work)
    }

    /// How many descriptors have not ended.
    #[must_use]
    pub fn open_len(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.ended).count()
    }

    /// The first descriptor that has not ended, with its number and whether it has begun.
    #[must_use]
    pub fn first_open(&self) -> Option<(u64, bool)> {
        let at = self.entries.iter().position(|entry| !entry.ended)?;
        let number = self.first + at as u64;
        Some((number, number < self.next))
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many descriptors are in it, with those that are done and not taken out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn place(&self, number: u64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (at < self.entries.len()).then_some(at)
    }

    fn entry(&self, number: u64) -> Option<&Entry<D>> {
        self.place(number).map(|at| &self.entries[at])
    }
}
