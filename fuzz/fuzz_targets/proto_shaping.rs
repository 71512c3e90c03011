//! A tree of disciplines under any calls: nothing is lost, nothing is made, and
//! whoever waits is told until when.
#![no_main]

use std::num::NonZeroU32;

use barewire_proto::shaping::{Packet, Qdisc, Timer, Tree};
use barewire_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

const TREES: [&str; 3] = [
    "tc qdisc add dev e root tbf rate 1Mbit burst 2Kb limit 10Kb peakrate 2Mbit mtu 1600",
    "tc qdisc add dev e root handle 1: cbq bandwidth 10Mbit avpkt 1000
     tc class add dev e parent 1: classid 1:1 cbq bandwidth 10Mbit rate 9Mbit minburst 3
     tc class add dev e parent 1:1 classid 1:2 cbq bandwidth 10Mbit rate 1Mbit prio 1 isolated
     tc class add dev e parent 1:1 classid 1:3 cbq bandwidth 10Mbit rate 1bit bounded
     tc qdisc add dev e parent 1:3 tbf rate 500Kbit burst 3000 limit 10Kb
     tc filter add dev e parent 1: protocol ip prio 1 u32 match u8 0 3 at 0 flowid 1:2
     tc filter add dev e parent 1: protocol ip prio 1 u32 match u8 1 3 at 0 flowid 1:3",
    "tc qdisc add dev e root handle 1: htb default 3
     tc class add dev e parent 1: classid 1:1 htb rate 10Mbit
     tc class add dev e parent 1:1 classid 1:2 htb rate 1Mbit ceil 10Mbit burst 0
     tc class add dev e parent 1:1 classid 1:3 htb rate 1bit ceil 9999999Tbit quantum 0
     tc qdisc add dev e parent 1:3 bfifo limit 9000
     tc filter add dev e parent 1: protocol all prio 1 u32 match u8 0 1 at 0 flowid 1:2",
];

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, hz], steps)) = data.split_first_chunk::<2>() else {
        return;
    };
    let timer = NonZeroU32::new(u32::from(hz)).map_or(Timer::EXACT, Timer::hz);
    let text = TREES[usize::from(choice) % TREES.len()];
    let mut tree = Tree::parse(text, timer).expect("the tree is right");
    let mut now = Instant::ORIGIN;
    for (id, step) in (0..).zip(steps.chunks(4)) {
        let word = step
            .iter()
            .fold(0, |word, &byte| word << 8 | u32::from(byte));
        let number = word >> 3;
        match word & 7 {
            0..=2 => {
                let packet = Packet {
                    id,
                    len_bytes: number >> (number & 15),
                    protocol: 0x0800,
                    bytes: number.to_be_bytes().to_vec(),
                };
                let _ = tree.enqueue(now, packet);
            }
            3 | 4 => {
                if tree.dequeue(now).is_none() {
                    assert!(tree.next_deadline().is_none_or(|at| at > now));
                }
            }
            5 => tree.wake(),
            6 => now = now.max(tree.next_deadline().unwrap_or(now)),
            _ => {
                let wait = u64::from(number) << (number & 31);
                now = now.saturating_add(Duration::from_ps(wait));
            }
        }
        let stats = tree.stats();
        let out = stats.sent.packets + stats.dropped.packets + stats.queued.packets;
        assert_eq!(stats.offered.packets, out);
        let out = stats.sent.bytes + stats.dropped.bytes + stats.queued.bytes;
        assert_eq!(stats.offered.bytes, out);
    }
});
