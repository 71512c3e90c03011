//! One step of a pipeline: it works on one thing at a time, in their order.

use std::collections::VecDeque;

/// A step of a pipeline.
#[derive(Clone, Debug)]
pub struct Stage<T> {
    waiting: VecDeque<T>,
    busy: bool,
}

impl<T> Default for Stage<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            busy: false,
        }
    }
}

impl<T> Stage<T> {
    /// Puts `thing` behind the others.
    pub fn push(&mut self, thing: T) {
        self.waiting.push_back(thing);
    }

    /// The thing that could be begun now: none while one is under way.
    #[must_use]
    pub fn next(&self) -> Option<&T> {
        self.waiting.front().filter(|_| !self.busy)
    }

    /// Begins it.
    pub fn begin(&mut self) {
        self.busy = !self.waiting.is_empty();
    }

    /// Ends the work on the first, and gives it out.
    pub fn finish(&mut self) -> Option<T> {
        self.busy = false;
        self.waiting.pop_front()
    }
}
