//! The queues beside a plain model: a log of all that ever happened, from which each answer is found by the rule.

use std::vec::Vec;

use proptest::prelude::*;

use super::{Envelope, Matching, Pattern};

/// What became of a receive or message in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Waits,
    Claimed(u8),
    Gone,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(Envelope),
    Post(Pattern),
    /// Posts a receive that takes so many messages, first what is there.
    PostMany(Pattern, usize),
    Peek(Pattern),
    Claim(Pattern, u8),
    Take(u8),
    /// The receive of this number, in the order of posting.
    Cancel(usize),
    End(u64),
}

/// The log. Receives and messages are named by their places in it.
#[derive(Default)]
struct Oracle {
    receives: Vec<(Pattern, Fate)>,
    /// How many messages each receive still takes.
    left: Vec<usize>,
    messages: Vec<(Envelope, Fate)>,
    claims: Vec<usize>,
}

fn takes(pattern: Pattern, envelope: Envelope) -> bool {
    let tags = (0..64).all(|bit| {
        pattern.ignore >> bit & 1 == 1 || pattern.tag >> bit & 1 == envelope.tag >> bit & 1
    });
    tags && (pattern.source.is_none() || pattern.source == Some(envelope.source))
}

impl Oracle {
    fn first_message(&self, pattern: Pattern) -> Option<usize> {
        (0..self.messages.len())
            .find(|&at| self.messages[at].1 == Fate::Waits && takes(pattern, self.messages[at].0))
    }

    fn first_receive(&self, mut is_it: impl FnMut(usize, Pattern) -> bool) -> Option<usize> {
        let waits = |at: &usize| self.receives[*at].1 == Fate::Waits;
        (0..self.receives.len())
            .filter(waits)
            .find(|&at| is_it(at, self.receives[at].0))
    }

    /// Does a step in both, and compares the answers.
    fn step(&mut self, core: &mut Matching<usize, usize, u8>, step: Step) {
        match step {
            Step::Arrive(envelope) => {
                let number = self.messages.len();
                let expected = self.first_receive(|_, pattern| takes(pattern, envelope));
                let fate = expected.map_or(Fate::Waits, |_| Fate::Gone);
                let left = &mut self.left;
                let share = |receive: &mut usize| {
                    assert_eq!(Some(*receive), expected);
                    left[*receive] -= 1;
                    (left[*receive] > 0).then_some(*receive)
                };
                assert_eq!(core.arrive_sharing(envelope, share, || number), expected);
                self.messages.push((envelope, fate));
                self.end_receive(expected.filter(|&at| self.left[at] == 0));
            }
            Step::PostMany(pattern, mut left) => {
                while left > 0 {
                    let expected = self.first_message(pattern);
                    let got = core.find(&pattern);
                    assert_eq!(got.map(|(_, message)| message), expected);
                    self.end_message(expected, Fate::Gone);
                    if expected.is_none() {
                        assert!(core.post(pattern, self.receives.len()).is_none());
                        self.receives.push((pattern, Fate::Waits));
                        self.left.push(left);
                        break;
                    }
                    left -= 1;
                }
            }
            Step::Post(pattern) => {
                let number = self.receives.len();
                let expected = self.first_message(pattern);
                let got = core.post(pattern, number);
                assert_eq!(got.map(|(_, _, message)| message), expected);
                assert!(got.is_none_or(|(receive, _, _)| receive == number));
                let fate = expected.map_or(Fate::Waits, |_| Fate::Gone);
                self.receives.push((pattern, fate));
                self.left.push(1);
                self.end_message(expected, Fate::Gone);
            }
            Step::Peek(pattern) => {
                let got = core.peek(&pattern).map(|(_, &message)| message);
                assert_eq!(got, self.first_message(pattern));
            }
            Step::Claim(pattern, key) => {
                let expected = self.first_message(pattern);
                let got = core.claim(&pattern, key).map(|(_, &message)| message);
                assert_eq!(got, expected);
                self.end_message(expected, Fate::Claimed(key));
                self.claims.extend(expected);
            }
            Step::Take(key) => {
                let of_key = |at: &&usize| self.messages[**at].1 == Fate::Claimed(key);
                let expected = self.claims.iter().find(of_key).copied();
                let got = core.take(&key);
                assert_eq!(got.map(|(_, message)| message), expected);
                let envelope = expected.map(|at| self.messages[at].0);
                assert_eq!(got.map(|(envelope, _)| envelope), envelope);
                self.end_message(expected, Fate::Gone);
            }
            Step::Cancel(which) => {
                let expected = self.first_receive(|at, _| at == which);
                assert_eq!(core.cancel(|&receive| receive == which), expected);
                self.end_receive(expected);
            }
            Step::End(source) => loop {
                let expected = self.first_receive(|_, pattern| pattern.source == Some(source));
                assert_eq!(core.orphan(source), expected);
                self.end_receive(expected);
                if expected.is_none() {
                    break;
                }
            },
        }
        self.check(core);
    }

    fn end_receive(&mut self, which: Option<usize>) {
        which
            .into_iter()
            .for_each(|at| self.receives[at].1 = Fate::Gone);
    }

    fn end_message(&mut self, which: Option<usize>, fate: Fate) {
        which.into_iter().for_each(|at| self.messages[at].1 = fate);
    }

    /// What holds after every step.
    fn check(&self, core: &Matching<usize, usize, u8>) {
        let waiting = |fate: &Fate| *fate == Fate::Waits;
        let receives = self.receives.iter().filter(|(_, fate)| waiting(fate));
        let messages = self.messages.iter().filter(|(_, fate)| waiting(fate));
        assert_eq!(core.posted_len(), receives.clone().count());
        assert_eq!(core.unexpected_len(), messages.clone().count());
        for &(pattern, _) in receives {
            let mut missed = messages.clone();
            assert!(!missed.any(|&(envelope, _)| takes(pattern, envelope)));
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tag = || prop_oneof![Just(0_u64), Just(1), Just(2), Just(3), Just(1 << 63 | 1)];
    let ignore = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(u64::MAX), 1 => Just(1 << 63)];
    let source = proptest::option::weighted(0.7, 0..3_u64);
    let pattern = (source, tag(), ignore).prop_map(|(source, tag, ignore)| Pattern {
        source,
        tag,
        ignore,
    });
    let step = prop_oneof![
        6 => (0..3_u64, tag()).prop_map(|(source, tag)| Step::Arrive(Envelope { source, tag })),
        6 => pattern.clone().prop_map(Step::Post),
        2 => (pattern.clone(), 2..5_usize).prop_map(|(pattern, left)| Step::PostMany(pattern, left)),
        1 => pattern.clone().prop_map(Step::Peek),
        1 => (pattern, 0..3_u8).prop_map(|(pattern, key)| Step::Claim(pattern, key)),
        1 => (0..3_u8).prop_map(Step::Take),
        1 => (0..40_usize).prop_map(Step::Cancel),
        1 => (0..3_u64).prop_map(Step::End),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn as_the_log_says(steps in steps()) {
        let (mut oracle, mut core) = (Oracle::default(), Matching::new());
        for step in steps {
            oracle.step(&mut core, step);
        }
    }
}

#[test]
fn a_message_is_only_made_when_nobody_takes_it() {
    let any = Pattern {
        source: None,
        tag: 0,
        ignore: u64::MAX,
    };
    let envelope = Envelope { source: 1, tag: 7 };
    let mut core = Matching::<_, (), ()>::new();
    assert!(core.post(any, "receive").is_none());
    let got = core.arrive(envelope, || unreachable!("a receive takes it"));
    assert_eq!(got, Some("receive"));
}
