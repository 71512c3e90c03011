//! A heap with four children per place: they share a cache line or two, and halve the depth.

use super::place::Place;

const ARITY: usize = 4;

pub(super) struct Heap<E> {
    places: Vec<Place<E>>,
    /// The first place was taken. Mostly what happens schedules something, which then sinks
    /// from the top, where otherwise one place would sink and another rise.
    hole: bool,
}

impl<E: Copy> Heap<E> {
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            hole: false,
        }
    }

    pub fn len(&self) -> usize {
        self.places.len() - usize::from(self.hole)
    }

    /// What comes up next.
    pub fn first(&mut self) -> Option<&Place<E>> {
        self.close();
        self.places.first()
    }

    pub fn take_first(&mut self) -> Option<Place<E>> {
        let first = *self.first()?;
        self.hole = true;
        Some(first)
    }

    pub fn push(&mut self, place: Place<E>) {
        if self.hole {
            self.hole = false;
            self.sift_down(0, place);
        } else {
            let at = self.places.len();
            self.places.push(place);
            self.sift_up(at, place);
        }
    }

    fn close(&mut self) {
        if !self.hole {
            return;
        }
        self.hole = false;
        if let Some(last) = self.places.pop() {
            self.sift_down(0, last);
        }
    }

    /// Its places, in no order. [`Heap::order`] what is put in here.
    pub fn places_mut(&mut self) -> &mut Vec<Place<E>> {
        self.close();
        &mut self.places
    }

    /// Makes a heap of the places that are there.
    pub fn order(&mut self) {
        for at in (0..self.places.len().div_ceil(ARITY)).rev() {
            self.sift_down(at, self.places[at]);
        }
    }

    /// Puts `place` at `at` or where it belongs above.
    fn sift_up(&mut self, mut at: usize, place: Place<E>) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !place.before(&self.places[parent]) {
                break;
            }
            self.places[at] = self.places[parent];
            at = parent;
        }
        self.places[at] = place;
    }

    /// Puts `place` at `at` or where it belongs below; nowhere in an empty heap.
    fn sift_down(&mut self, mut at: usize, place: Place<E>) {
        loop {
            let first = at * ARITY + 1;
            let children = match self.places.get(first..) {
                None | Some([]) => break,
                Some(rest) => &rest[..rest.len().min(ARITY)],
            };
            let mut least = 0;
            for (i, child) in children.iter().enumerate().skip(1) {
                if child.before(&children[least]) {
                    least = i;
                }
            }
            let child = children[least];
            if !child.before(&place) {
                break;
            }
            self.places[at] = child;
            at = first + least;
        }
        if let Some(here) = self.places.get_mut(at) {
            *here = place;
        }
    }
}
