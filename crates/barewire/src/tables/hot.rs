//! Learns whether all events come from a few connections, which are then worth looking at themselves.

/// Most connections that a node looks at itself.
pub(crate) const HOT_MAX: usize = 4;
/// Events in a row that have to come from so few.
const EVENTS_TO_BE_HOT: u32 = 32;

/// Which connections the last events came from.
#[derive(Debug, Default)]
pub(crate) struct HotSet {
    members: [u32; HOT_MAX],
    len: usize,
    /// Events in a row that came from them.
    run: u32,
}

impl HotSet {
    /// A peer rang for the connection with this number.
    #[inline]
    pub fn note(&mut self, number: u32) {
        self.run += 1;
        if self.members[..self.len].contains(&number) {
            return;
        }
        if self.len == HOT_MAX {
            *self = HotSet::default();
            self.run = 1;
        }
        self.members[self.len] = number;
        self.len += 1;
    }

    /// Those connections, if enough events came from them. To be learnt anew after that.
    #[inline]
    pub fn take(&mut self) -> Option<Vec<u32>> {
        if self.run < EVENTS_TO_BE_HOT {
            return None;
        }
        let members = self.members[..self.len].to_vec();
        self.forget();
        Some(members)
    }

    /// Somebody has slept: events are not so frequent that a look at each would pay.
    pub fn forget(&mut self) {
        *self = HotSet::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(numbers: impl IntoIterator<Item = u32>) -> HotSet {
        let mut hot = HotSet::default();
        for number in numbers {
            hot.note(number);
        }
        hot
    }

    #[test]
    fn a_few_connections_become_hot() {
        let events = EVENTS_TO_BE_HOT;
        assert_eq!(noted((0..events).map(|_| 7)).take(), Some(vec![7]));
        let mut four = noted((0..events).map(|at| at % 4));
        assert_eq!(four.take(), Some(vec![0, 1, 2, 3]));
        assert_eq!(four.take(), None);
    }

    #[test]
    fn many_connections_or_few_events_do_not() {
        assert_eq!(noted((0..EVENTS_TO_BE_HOT - 1).map(|_| 7)).take(), None);
        let mut many = HotSet::default();
        for at in 0..10_000 {
            many.note(at % 5);
            assert_eq!(many.take(), None);
        }
    }

    #[test]
    fn who_slept_begins_anew() {
        let mut hot = noted((0..EVENTS_TO_BE_HOT).map(|_| 7));
        hot.forget();
        hot.note(7);
        assert_eq!(hot.take(), None);
    }
}
