//! Parts by themselves: what a frame becomes, what is repeated, when things are there.

use barewire_fabric::frame::{CONTROL_BYTES, region_bytes};
use barewire_fabric::{MessageSender, RingSender, SendProgress};
use barewire_units::{ByteSize, Duration, Instant, Rate};
use proptest::prelude::*;

use super::*;
use crate::clan::Memory;

const RING_BYTES: usize = 4096;

fn at(ns: u64) -> Instant {
    Instant::ORIGIN + Duration::from_ns(ns)
}

fn written(message_bytes: usize, header_apart: bool) -> Vec<Write> {
    let memory = Memory::default();
    let len_bytes = region_bytes(RING_BYTES);
    let region = memory.add_region(len_bytes);
    let (out, inn) = (memory.stores(0, region, len_bytes), memory.loads(region));
    let mut sender = MessageSender::new(RingSender::new(out, inn, RING_BYTES));
    let message = vec![7; message_bytes];
    let sent = sender.send_part(&message, &mut SendProgress::default());
    assert_eq!(sent, Ok(true));
    Writer::default().published(&memory, header_apart)
}

/// A message of 100 B takes two lines; the header position behind them is cleared before the
/// header is published. The one behind that is cleared afterwards, and goes with the next frame.
#[test]
fn the_header_of_a_frame_comes_last() {
    let lens = |writes: &[Write]| -> Vec<(u64, bool)> {
        writes
            .iter()
            .map(|write| (write.len_bytes, write.tells))
            .collect()
    };
    let apart = written(100, true);
    // From behind the header to the word that was cleared; header.
    assert_eq!(lens(&apart), [(128, false), (8, true)]);
    assert_eq!(apart[1].stores[0].offset, CONTROL_BYTES);
    let with = written(100, false);
    assert_eq!(lens(&with), [(136, true)]);
    let last = with[0].stores.last();
    assert!(last.is_some_and(|store| store.offset == CONTROL_BYTES && store.ordered));
}

#[test]
fn lines_far_apart_are_writes_of_their_own() {
    let memory = Memory::default();
    let region = memory.add_region(1024);
    let out = memory.stores(0, region, 1024);
    use barewire_fabric::memory::Outgoing as _;
    out.write(640, &[1; 64]);
    out.write(0, &[2; 8]);
    out.publish_u64(320, 3);
    let offsets = |apart| -> Vec<usize> {
        let all = Writer::default().published(&memory, apart);
        all.iter().map(|write| write.stores[0].offset).collect()
    };
    assert_eq!(offsets(false), [0, 640, 320]);
}

fn config() -> CardConfig {
    CardConfig {
        doorbell: Duration::ZERO,
        inline: ByteSize::from_bytes(100),
        read: Duration::from_ns(500),
        write: Duration::from_ns(200),
        // A nanosecond for a byte.
        pcie: Rate::from_gbps(8),
        message: Duration::from_ns(10),
        packet: Duration::from_ns(20),
        latency: Duration::from_ns(100),
        context: ByteSize::from_bytes(100),
        contexts: ByteSize::from_bytes(200),
        context_miss: Duration::from_ns(30),
        mtu: ByteSize::from_bytes(1000),
        header: ByteSize::from_bytes(82),
        ack: ByteSize::from_bytes(86),
        window: ByteSize::from_bytes(3000),
        recovery: Recovery::GoBack,
        timeout: Duration::from_us(100),
        header_apart: true,
    }
}

#[test]
fn a_card_sends_when_engine_read_and_transfer_are_over() {
    let mut card = Card::new(config(), 3);
    let ready = |segments: Vec<Segment>| -> Vec<(Instant, u64, bool)> {
        (segments.iter().map(|it| (it.ready, it.len_bytes, it.last))).collect()
    };
    // Inline: engine and latency.
    let inline = card.handle_request(at(0), 0, 64, Instant::ORIGIN);
    assert_eq!(ready(inline), [(at(110), 64, true)]);
    // Else a read and the transfer of each packet; the second one follows without another wait.
    let long = card.handle_request(at(0), 0, 1500, Instant::ORIGIN);
    assert_eq!(
        ready(long),
        [(at(1620), 1000, false), (at(2120), 500, true)]
    );
    // What comes later on the queue pair is not there before.
    let behind = card.handle_request(at(100), 0, 8, at(2020));
    assert_eq!(ready(behind), [(at(2120), 8, true)]);
    // The third context is not in the card: the engine loses 30 ns, the packet waits for a read.
    let missed = card.handle_request(at(5000), 2, 8, Instant::ORIGIN);
    assert_eq!(ready(missed), [(at(5640), 8, true)]);
    assert_eq!(card.misses(), 1);
    // Received: latency, engine, transfer, the write's own delay.
    assert_eq!(card.handle_packet(at(9000), 2, 300), (at(9120), at(9620)));
    assert_eq!(card.handle_packet(at(9000), 2, 300), (at(9140), at(9920)));
}

fn line() -> LineConfig {
    LineConfig {
        rate: Rate::from_gbps(8),
        delay: Duration::from_ns(5),
    }
}

fn switch(lossless: bool) -> SwitchConfig {
    SwitchConfig {
        hosts: 2,
        uplinks: 2,
        latency: Duration::from_ns(300),
        cut_through: true,
        buffer: ByteSize::from_bytes(4000),
        share_percent: 100,
        lossless,
        pause_above: ByteSize::from_bytes(1500),
        resume_below: ByteSize::from_bytes(1500),
        pause_delay: Duration::from_ns(10),
    }
}

fn packet(to: u32) -> Packet<u8> {
    Packet {
        to,
        flow: 0,
        len_bytes: 1000,
        what: 0,
    }
}

#[test]
fn hosts_at_different_leaves_meet_at_a_spine() {
    let topology = Topology::new(&switch(true), 5);
    assert_eq!(topology.switches(), 3 + 2);
    for flow in 0..4 {
        let mut network = Network::<u8>::new(line(), switch(true), 5);
        let mut at_switch = 0;
        let mut path = Vec::new();
        let mut output = 0;
        let packet = Packet { flow, ..packet(4) };
        loop {
            path.push(at_switch);
            network.handle_packet(at_switch, output, packet, &mut |_| {});
            output = topology.output(at_switch, 4, flow);
            let (_, to, there, free) = network.poll(at(0), output).expect("a packet");
            assert_eq!(free, at(1000));
            match to {
                Node::Host(host) => {
                    assert_eq!((host, there), (4, at(1005)));
                    break;
                }
                Node::Switch(next) => {
                    assert_eq!(there, at(305));
                    at_switch = next;
                }
            }
        }
        assert!(matches!(path[..], [0, 3 | 4, 2]), "{path:?}");
    }
}

#[test]
fn a_lossy_output_has_its_share_of_what_is_free() {
    let mut network = Network::<u8>::new(line(), switch(false), 2);
    let mut acts = Vec::new();
    for _ in 0..3 {
        network.handle_packet(0, 0, packet(1), &mut |action| acts.push(action));
    }
    // 1000 of 4000, 2000 of 3000; a third would be 3000 of 2000.
    assert_eq!(acts, [Action::Poll(3), Action::Poll(3), Action::Dropped]);
    assert_eq!((network.dropped(), network.highest_bytes()), (1, 2000));
}

#[test]
fn a_lossless_switch_pauses_the_line_that_fills_it() {
    let mut network = Network::<u8>::new(line(), switch(true), 2);
    let mut acts = Vec::new();
    for _ in 0..2 {
        network.handle_packet(0, 0, packet(1), &mut |action| acts.push(action));
    }
    assert_eq!(
        acts,
        [Action::Poll(3), Action::Pause(0, true), Action::Poll(3)]
    );
    network.handle_pause(at(10), 0, true);
    network.send(0, packet(1));
    assert!(network.poll(at(20), 0).is_none(), "it is paused");
    assert!(network.poll(at(20), 3).is_some());
    acts.clear();
    network.handle_sent(3, &mut |action| acts.push(action));
    assert_eq!(acts, [Action::Pause(0, false), Action::Poll(3)]);
    network.handle_pause(at(110), 0, false);
    assert!(network.poll(at(110), 0).is_some());
    assert_eq!(
        network.paused(at(200)),
        [Duration::from_ns(100), Duration::ZERO]
    );
}

#[test]
fn a_window_is_full_until_something_is_acknowledged() {
    let mut pair = Pair::new(Recovery::GoBack, 2000);
    (0..3).for_each(|_| pair.push(1000, true));
    assert_eq!(
        [0, 0].map(|_| pair.take(at(0)).map(|it| it.number)),
        [Some(0), Some(1)]
    );
    assert!(pair.take(at(0)).is_none() && !pair.has_packet());
    pair.handle_reply(at(1), Reply::Ack(1));
    assert_eq!(pair.take(at(1)).map(|it| it.number), Some(2));
}

/// Sends `count` packets over a line that loses some, and answers too. What has come, and how
/// many were sent again.
fn over_a_lossy_line(recovery: Recovery, count: u64, lost: &[bool]) -> (u64, u64) {
    let mut lost = lost.iter().copied().chain(std::iter::repeat(false));
    let mut loses = move || lost.next().unwrap_or(false);
    let (mut near, mut far) = (Pair::new(recovery, 5000), Pair::new(recovery, 5000));
    (0..count).for_each(|number| near.push(1000, number % 3 == 2 || number + 1 == count));
    let mut writes = 0;
    for round in 0..10_000 {
        let now = at(round);
        // A window's worth, so that gaps can be seen.
        let sent: Vec<_> = std::iter::from_fn(|| near.take(now)).collect();
        if sent.is_empty() {
            if near.waits_since().is_none() {
                break;
            }
            near.handle_timeout(now);
        }
        for packet in sent {
            if loses() {
                continue;
            }
            let accepted = far.handle_packet(packet.number, packet.last);
            writes += accepted.writes;
            if let Some(reply) = accepted.reply.filter(|_| !loses()) {
                near.handle_reply(now, reply);
            }
        }
    }
    assert!(near.waits_since().is_none(), "it never ends");
    (writes, near.repeated())
}

#[test]
fn one_loss_repeats_one_packet_or_the_window() {
    let lost = [false, true];
    let count = 9;
    assert_eq!(over_a_lossy_line(Recovery::Selective, count, &lost), (3, 1));
    let (writes, repeated) = over_a_lossy_line(Recovery::GoBack, count, &lost);
    assert_eq!(writes, 3);
    assert_eq!(repeated, 4, "from the second of five on");
}

proptest! {
    /// Whatever is lost, each write comes once.
    #[test]
    fn each_write_comes_once(
        lost in prop::collection::vec(any::<bool>(), 0..200),
        count in 1_u64..40,
        selective in any::<bool>(),
    ) {
        let recovery = if selective { Recovery::Selective } else { Recovery::GoBack };
        let (writes, _) = over_a_lossy_line(recovery, count, &lost);
        prop_assert_eq!(writes, count.div_ceil(3));
    }
}
