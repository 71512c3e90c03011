//! Things with small numbers that are given again.

use alloc::vec::Vec;

/// Things numbered from 0; a number that is freed is the next to be given.
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
    len_max: usize,
}

impl<T> Slab<T> {
    /// One for at most `len_max` things (and 2³² of them).
    pub(super) const fn new(len_max: usize) -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
            len_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Keeps a thing, or gives it back where there is no place.
    pub(super) fn insert(&mut self, item: T) -> Result<u32, T> {
        if self.len() >= self.len_max {
            return Err(item);
        }
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = Some(item);
            return Ok(number);
        }
        let Ok(number) = u32::try_from(self.items.len()) else {
            return Err(item);
        };
        self.items.push(Some(item));
        Ok(number)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(item)
    }
}
