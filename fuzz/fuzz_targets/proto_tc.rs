//! Any text as `tc` commands: a tree that prints as commands for the same tree and
//! takes packets, or a fault that lies in the text.
#![no_main]

use barewire_proto::shaping::{Packet, Qdisc, Timer, Tree};
use barewire_units::Instant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut tree = match Tree::parse(text, Timer::EXACT) {
        Ok(tree) => tree,
        Err(error) => {
            let line = text.lines().nth(error.line - 1).expect("the line");
            let rest: String = line.chars().skip(error.column - 1).collect();
            assert!(rest.starts_with(&error.word));
            return;
        }
    };
    let again = Tree::parse(&tree.to_string(), Timer::EXACT).expect("what it prints");
    assert_eq!(again.commands(), tree.commands());
    for id in 0..4 {
        let packet = Packet {
            id,
            len_bytes: 1_000,
            protocol: 0x0800,
            bytes: text.as_bytes().iter().copied().take(64).collect(),
        };
        let _ = tree.enqueue(Instant::ORIGIN, packet);
        let _ = tree.dequeue(Instant::ORIGIN);
    }
});
