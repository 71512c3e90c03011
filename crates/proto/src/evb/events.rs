//! A map by the number of an event, made for numbers that come in ascending order and go in
//! about the same: pages of 64 events with what is known of those that are there.
//!
//! A page is found at once while pages follow each other without a gap, else by halving. What
//! is at the end of its page is put in and at its beginning taken out without moving others.

use alloc::collections::VecDeque;

const EVENTS: u64 = 64;

#[derive(Clone, Debug)]
struct Page<T> {
    number: u64,
    /// Which of its events are there.
    used: u64,
    /// Of each of those, in ascending order.
    items: VecDeque<T>,
}

impl<T> Page<T> {
    /// Where the item of `event` is, or would be, and whether it is there.
    fn place(&self, event: u64) -> (usize, bool) {
        let bit = 1 << (event % EVENTS);
        let before = (self.used & (bit - 1)).count_ones() as usize;
        (before, self.used & bit != 0)
    }

    fn get(&self, event: u64) -> Option<&T> {
        let (at, there) = self.place(event);
        there.then(|| self.items.get(at)).flatten()
    }

    fn get_mut(&mut self, event: u64) -> Option<&mut T> {
        let (at, there) = self.place(event);
        there.then(|| self.items.get_mut(at)).flatten()
    }

    fn first(&self) -> u64 {
        self.number * EVENTS + u64::from(self.used.trailing_zeros())
    }

    fn events(&self) -> impl Iterator<Item = u64> {
        let (first, mut left) = (self.number * EVENTS, self.used);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let event = first + u64::from(left.trailing_zeros());
            left &= left - 1;
            Some(event)
        })
    }
}

/// What is known of events.
#[derive(Clone, Debug)]
pub(super) struct EventMap<T> {
    /// In ascending order, none empty.
    pages: VecDeque<Page<T>>,
    len: usize,
    /// Memory of a page that is gone.
    spare: VecDeque<T>,
}

impl<T> EventMap<T> {
    pub(super) const fn new() -> Self {
        Self {
            pages: VecDeque::new(),
            len: 0,
            spare: VecDeque::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the page of `event` is, or would be.
    fn find(&self, event: u64) -> Result<usize, usize> {
        let number = event / EVENTS;
        let first = self.pages.front().map_or(number, |it| it.number);
        let guess = usize::try_from(number.wrapping_sub(first)).unwrap_or(usize::MAX);
        match self.pages.get(guess) {
            Some(page) if page.number == number => Ok(guess),
            _ => self.pages.binary_search_by_key(&number, |it| it.number),
        }
    }

    pub(super) fn get(&self, event: u64) -> Option<&T> {
        let at = self.find(event).ok()?;
        self.pages.get(at)?.get(event)
    }

    pub(super) fn get_mut(&mut self, event: u64) -> Option<&mut T> {
        let at = self.find(event).ok()?;
        self.pages.get_mut(at)?.get_mut(event)
    }

    pub(super) fn contains(&self, event: u64) -> bool {
        self.get(event).is_some()
    }

    /// Puts `item` in; what was there before is gone.
    pub(super) fn insert(&mut self, event: u64, item: T) {
        let found = self.find(event);
        let at = found.unwrap_or_else(|at| {
            let page = Page {
                number: event / EVENTS,
                used: 0,
                items: core::mem::take(&mut self.spare),
            };
            self.pages.insert(at, page);
            at
        });
        let page = &mut self.pages[at];
        let (at, there) = page.place(event);
        if there {
            page.items[at] = item;
            return;
        }
        page.used |= 1 << (event % EVENTS);
        page.items.insert(at, item);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, event: u64) -> Option<T> {
        let found = self.find(event).ok()?;
        let page = self.pages.get_mut(found)?;
        let (at, there) = page.place(event);
        if !there {
            return None;
        }
        page.used &= !(1 << (event % EVENTS));
        let item = page.items.remove(at);
        if page.used == 0 {
            self.spare = self.pages.remove(found)?.items;
        }
        self.len -= 1;
        item
    }

    /// The lowest event.
    pub(super) fn first(&self) -> Option<u64> {
        self.pages.front().map(Page::first)
    }

    /// Takes the lowest event out.
    pub(super) fn pop_first(&mut self) -> Option<(u64, T)> {
        let event = self.first()?;
        self.remove(event).map(|item| (event, item))
    }

    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.len = 0;
    }

    /// All events that are there, in ascending order.
    pub(super) fn events(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().flat_map(Page::events)
    }

    /// The same with what is known of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let pages = self.pages.iter();
        pages.flat_map(|page| page.events().zip(&page.items))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pages.iter_mut().flat_map(|page| &mut page.items)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(u64),
        PopFirst,
        Change(u64),
    }

    /// Near each other, across pages, and at both ends of what there is.
    fn event() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..200_u64,
            1_000_000..1_000_070_u64,
            u64::MAX - 70..=u64::MAX
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => event().prop_map(Step::Insert),
            3 => event().prop_map(Step::Remove),
            1 => Just(Step::PopFirst),
            1 => event().prop_map(Step::Change),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec(step(), 0..400)) {
            let (mut map, mut model) = (EventMap::new(), BTreeMap::new());
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(event) => {
                        map.insert(event, at);
                        model.insert(event, at);
                    }
                    Step::Remove(event) => prop_assert_eq!(map.remove(event), model.remove(&event)),
                    Step::PopFirst => prop_assert_eq!(map.pop_first(), model.pop_first()),
                    Step::Change(event) => {
                        prop_assert_eq!(map.contains(event), model.contains_key(&event));
                        map.get_mut(event).into_iter().for_each(|it| *it += 1);
                        model.get_mut(&event).into_iter().for_each(|it| *it += 1);
                        prop_assert_eq!(map.get(event), model.get(&event));
                    }
                }
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(map.first(), model.keys().next().copied());
            }
            let pairs: Vec<_> = map.iter().map(|(event, &it)| (event, it)).collect();
            prop_assert_eq!(pairs, model.clone().into_iter().collect::<Vec<_>>());
            prop_assert!(map.events().eq(model.keys().copied()));
            prop_assert!(map.values_mut().eq(model.values_mut()));
            map.clear();
            prop_assert_eq!(map.events().next(), None);
        }
    }
}
