//! Matching under any calls: nothing panics, nothing is lost or doubled, and no receive waits for a message that is
//! there.
#![no_main]

use barewire_proto::matching::{Envelope, Matching, Pattern};
use libfuzzer_sys::fuzz_target;

/// Bytes of one input: kind, source, tag, bits that do not matter.
const INPUT_BYTES: usize = 4;

/// What was given to the core, and not given back yet.
#[derive(Default)]
struct Held {
    receives: Vec<(u32, Pattern)>,
    /// Those that keep their place when they get a message.
    lasting: Vec<u32>,
    messages: Vec<(u32, Envelope)>,
    claimed: usize,
}

impl Held {
    fn receive_back(&mut self, number: u32) -> Pattern {
        let at = self.receives.iter().position(|&(held, _)| held == number);
        self.receives
            .remove(at.expect("a receive came back twice"))
            .1
    }

    fn message_back(&mut self, number: u32) -> Envelope {
        let at = self.messages.iter().position(|&(held, _)| held == number);
        self.messages
            .remove(at.expect("a message came back twice"))
            .1
    }

    fn check(&self, core: &Matching<u32, u32, u8>) {
        assert_eq!(core.posted_len(), self.receives.len());
        assert_eq!(core.unexpected_len() + self.claimed, self.messages.len());
        for (_, pattern) in &self.receives {
            assert!(core.peek(pattern).is_none(), "a receive missed its message");
        }
    }
}

fn step(core: &mut Matching<u32, u32, u8>, held: &mut Held, number: u32, input: [u8; INPUT_BYTES]) {
    let [kind, source, tag, ignore] = input;
    let envelope = Envelope {
        source: u64::from(source & 3),
        tag: u64::from(tag),
    };
    let pattern = Pattern {
        source: (source & 4 == 0).then_some(envelope.source),
        tag: envelope.tag,
        ignore: u64::from(ignore),
    };
    match kind % 8 {
        0 => {
            let lasting = &held.lasting;
            let share = |receive: &mut u32| lasting.contains(receive).then_some(*receive);
            match core.arrive_sharing(envelope, share, || number) {
                Some(receive) if held.lasting.contains(&receive) => {
                    let of = held.receives.iter().find(|&&(held, _)| held == receive);
                    assert!(of.is_some_and(|(_, pattern)| pattern.takes(&envelope)));
                }
                Some(receive) => assert!(held.receive_back(receive).takes(&envelope)),
                None => held.messages.push((number, envelope)),
            }
        }
        1 => match core.post(pattern, number) {
            Some((receive, envelope, message)) => {
                assert!(receive == number && pattern.takes(&envelope));
                assert_eq!(held.message_back(message), envelope);
            }
            None => held.receives.push((number, pattern)),
        },
        2 => assert!(
            core.peek(&pattern)
                .is_none_or(|(found, _)| pattern.takes(found))
        ),
        3 => held.claimed += usize::from(core.claim(&pattern, ignore & 3).is_some()),
        4 => {
            if let Some((envelope, message)) = core.take(&(ignore & 3)) {
                assert_eq!(held.message_back(message), envelope);
                held.claimed -= 1;
            }
        }
        5 => {
            let wanted = u32::from(tag);
            if let Some(receive) = core.cancel(|&receive| receive == wanted) {
                assert_eq!(receive, wanted);
                held.receive_back(receive);
            }
        }
        6 => {
            while let Some((envelope, message)) = core.find(&pattern) {
                assert!(pattern.takes(&envelope));
                assert_eq!(held.message_back(message), envelope);
            }
            assert!(core.post(pattern, number).is_none());
            held.receives.push((number, pattern));
            held.lasting.push(number);
        }
        _ => {
            while let Some(receive) = core.orphan(envelope.source) {
                let pattern = held.receive_back(receive);
                assert_eq!(pattern.source, Some(envelope.source));
            }
        }
    }
    held.check(core);
}

fuzz_target!(|data: &[u8]| {
    let (mut core, mut held) = (Matching::new(), Held::default());
    for (number, input) in (0..400).zip(data.chunks_exact(INPUT_BYTES)) {
        let input = input.try_into().expect("as long as it was cut");
        step(&mut core, &mut held, number, input);
    }
});
