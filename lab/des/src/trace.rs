//! A trace: the last events that pass a filter, to look at after a run.

use std::collections::VecDeque;

use barewire_units::Instant;

use crate::event::{Class, Node};

/// An event that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<E> {
    /// When.
    pub time: Instant,
    /// In what class.
    pub class: Class,
    /// Of what entity.
    pub node: Node,
    /// What.
    pub event: E,
}

/// Which events a trace keeps; what is `None` does not matter. Ranges include both ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// From when to when.
    pub times: Option<(Instant, Instant)>,
    /// Which classes.
    pub classes: Option<(Class, Class)>,
    /// Which nodes.
    pub nodes: Option<(Node, Node)>,
}

impl Filter {
    fn passes<E>(&self, record: &Record<E>) -> bool {
        within(self.times, record.time)
            && within(self.classes, record.class)
            && within(self.nodes, record.node)
    }
}

fn within<T: PartialOrd>(range: Option<(T, T)>, value: T) -> bool {
    range.is_none_or(|(low, high)| low <= value && value <= high)
}

/// The last events that passed a filter.
#[derive(Clone, Debug)]
pub struct Trace<E> {
    filter: Filter,
    records_max: usize,
    records: VecDeque<Record<E>>,
    passed: u64,
}

impl<E> Trace<E> {
    /// Keeps the last `records_max` events that pass `filter`.
    #[must_use]
    pub fn new(filter: Filter, records_max: usize) -> Self {
        Self {
            filter,
            records_max,
            records: VecDeque::new(),
            passed: 0,
        }
    }

    pub(crate) fn offer(&mut self, record: Record<E>) {
        if !self.filter.passes(&record) {
            return;
        }
        self.passed += 1;
        if self.records.len() == self.records_max {
            self.records.pop_front();
        }
        if self.records_max > 0 {
            self.records.push_back(record);
        }
    }

    /// What is kept, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record<E>> {
        self.records.iter()
    }

    /// How many events passed, kept or not.
    #[must_use]
    pub const fn passed(&self) -> u64 {
        self.passed
    }
}
