//! Each part alone, TCP over a path that loses, and a PC against its costs.

use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use proptest::prelude::*;

use super::*;
use crate::host::{Coalesce, Coalescer, Notice};
use crate::parameters::Cycles;
use crate::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig};

const SEGMENT: u64 = 1_000;
const BUFFER: u64 = 20_000;

fn us(us: u64) -> Instant {
    Instant::ORIGIN + Duration::from_us(us)
}

fn sender(nagle: bool) -> Sender {
    let config = SenderConfig {
        segment_bytes: SEGMENT,
        buffer_bytes: BUFFER,
        nagle,
        time_out: Duration::from_ms(200),
    };
    Sender::new(config, BUFFER)
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverConfig {
        buffer_bytes: BUFFER,
        ack_delay: Duration::from_ms(20),
    })
}

#[test]
fn a_bus_pays_for_each_burst() {
    let config = PciConfig {
        cycle: Duration::from_ns(30),
        burst: ByteSize::from_bytes(256),
        overhead_cycles: Cycles(16),
    };
    // 2 bursts: 100 words and 32 cycles.
    assert_eq!(config.time(4, 400), Duration::from_ns(132 * 30));
    let mut bus = Pci::new(config, 4);
    let first = bus.begin(us(1), 400);
    assert_eq!(bus.begin(us(1), 400), first + config.time(4, 400));
    assert!(config.time(8, 9_000) < config.time(4, 9_000));
}

#[test]
fn interrupts_come_by_time_or_by_number() {
    let mut coalescer = Coalescer::new(Coalesce {
        delay: Duration::from_us(100),
        frames: 3,
    });
    assert_eq!(coalescer.note(us(0)), Notice::Arm(us(100)));
    assert_eq!(coalescer.note(us(10)), Notice::Wait);
    assert_eq!(coalescer.note(us(20)), Notice::Interrupt);
    // The first timer was overtaken; the second is its own.
    assert_eq!(coalescer.note(us(50)), Notice::Arm(us(150)));
    assert!(!coalescer.handle_timer(us(100)));
    assert!(coalescer.handle_timer(us(150)) && !coalescer.handle_timer(us(150)));
    assert_eq!(coalescer.note(us(160)), Notice::Arm(us(260)));
}

#[test]
fn a_full_output_loses_and_the_others_do_not() {
    let frame = |to| Frame {
        from: 0,
        to,
        flow: 0,
        body: Body::Data { seq: 0, len: 930 },
    };
    let mut switch = Switch::new(SwitchConfig {
        ports: 3,
        backplane: Rate::from_gbps(8),
        buffer: ByteSize::from_bytes(2_000),
    });
    // 930 and 70 of headers: two fit at an output. Port 7 does not exist.
    let mut sent = Vec::new();
    for to in [1, 1, 1, 2, 7] {
        switch.handle_frame(frame(to));
        assert_eq!(
            switch.poll(),
            Some(Passing::Backplane(Duration::from_us(1)))
        );
        switch.handle_backplane();
        if let Some(Passing::Output(port, _)) = switch.poll() {
            sent.push(port);
        }
    }
    assert_eq!((switch.lost(), switch.highest_bytes()), (2, 2_000));
    assert_eq!(sent, [1, 2]);
    assert_eq!(switch.handle_output(1), Some(frame(1)));
    assert_eq!(switch.poll(), Some(Passing::Output(1, frame(1))));
}

/// The same frames through a switch's output and through a port: what is lost, and what is
/// held at most.
#[test]
fn a_port_is_the_output_of_a_switch() {
    let rate = Rate::from_gbps(1);
    let mut random = Rng::from_seed(5);
    let (mut port, mut lost, mut highest) = (Port::new(rate, 5_000), 0, 0);
    let mut queue: Vec<(Instant, u64)> = Vec::new();
    let (mut now, mut free_at) = (us(0), us(0));
    for _ in 0..2_000 {
        now += Duration::from_ns(random.below(12_000));
        let bytes = random.in_range(64..=1_518);
        queue.retain(|&(left, _)| left > now);
        let held: u64 = queue.iter().map(|&(_, bytes)| bytes).sum();
        let left = port.offer(now, bytes, bytes + 20);
        if held + bytes > 5_000 {
            lost += 1;
            assert_eq!(left, None);
            continue;
        }
        highest = highest.max(held + bytes);
        free_at = free_at.max(now) + Duration::from_ns(8 * (bytes + 20));
        assert_eq!(left, Some(free_at));
        queue.push((free_at, bytes));
    }
    assert_eq!((port.lost(), port.highest_bytes()), (lost, highest));
    assert!(lost > 100 && highest > 4_900);
}

#[test]
fn nagle_keeps_a_rest_until_nothing_is_out() {
    let lens = |nagle| {
        let mut sender = sender(nagle);
        sender.write(1_500, true);
        let mut lens = Vec::new();
        lens.extend(sender.poll(us(0)).map(|segment| segment.len));
        lens.extend(sender.poll(us(0)).map(|segment| segment.len));
        sender.handle_ack(us(5), 1_000, BUFFER);
        lens.push(0);
        lens.extend(sender.poll(us(5)).map(|segment| segment.len));
        lens
    };
    assert_eq!(lens(true), [1_000, 0, 500]);
    assert_eq!(lens(false), [1_000, 500, 0]);
    // Inside a message a rest never goes: there will be more.
    let mut sender = sender(false);
    sender.write(500, false);
    assert_eq!(sender.poll(us(0)), None);
}

#[test]
fn every_second_segment_is_acknowledged_and_a_single_one_at_a_tick() {
    let mut receiver = receiver();
    assert!(!receiver.handle_segment(us(0), 0, SEGMENT));
    assert!(receiver.handle_segment(us(1), SEGMENT, SEGMENT));
    assert_eq!(receiver.acknowledge(), (2_000, BUFFER));
    assert!(!receiver.handle_segment(us(2), 2_000, SEGMENT));
    assert!(!receiver.handle_tick(us(20_001)) && receiver.handle_tick(us(20_002)));
    assert_eq!(receiver.acknowledge(), (3_000, BUFFER));
    // A hole, at once; what fills it, at once.
    assert!(receiver.handle_segment(us(3), 4_000, SEGMENT));
    assert_eq!(receiver.acknowledge().0, 3_000);
    assert!(receiver.handle_segment(us(4), 3_000, SEGMENT));
    assert_eq!(receiver.acknowledge().0, 5_000);
    // The program reads until the window could grow by half of the buffer.
    for seq in (5_000..12_000).step_by(1_000) {
        receiver.handle_segment(us(5), seq, SEGMENT);
    }
    assert!(!receiver.take(9_000) && receiver.take(1_000));
    assert_eq!(receiver.acknowledge(), (12_000, BUFFER + 10_000));
}

#[test]
fn three_equal_acknowledgements_repeat_and_a_time_out_starts_again() {
    let mut sender = sender(true);
    sender.write(BUFFER, true);
    let mut now = us(0);
    for ack in [0, 1, 2, 3] {
        now += Duration::from_us(1);
        sender.handle_ack(now, ack * SEGMENT, u64::MAX);
        while sender.poll(now).is_some() {}
    }
    // 2 + 3 segments may be out above byte 3000.
    for _ in 0..3 {
        assert_eq!(sender.poll(now), None);
        sender.handle_ack(now, 3 * SEGMENT, u64::MAX);
    }
    let repeated = sender.poll(now).expect("the segment that is missing");
    assert_eq!((repeated.seq, repeated.len), (3 * SEGMENT, SEGMENT));
    sender.handle_tick(now + Duration::from_ms(199));
    assert_eq!(sender.stats().time_outs, 0);
    sender.handle_tick(now + Duration::from_ms(200));
    assert_eq!(sender.poll(now).map(|it| it.seq), Some(3 * SEGMENT));
    assert_eq!(sender.poll(now), None);
    let stats = sender.stats();
    assert_eq!((stats.fast_repeats, stats.time_outs), (1, 1));
}

/// Bytes that the program at the end of a path has read after `rounds` of one tick; each
/// frame is lost with `lost` in 100, and the program writes messages of `message` bytes.
fn read_over(seed: u64, lost: u64, message: u64, rounds: u64) -> (u64, u64) {
    let mut random = Rng::from_seed(seed);
    let (mut sender, mut receiver) = (sender(seed % 2 == 0), receiver());
    let (mut written, mut now) = (0, us(0));
    for _ in 0..rounds {
        now += Duration::from_ms(10);
        while sender.room() >= message {
            sender.write(message, true);
            written += message;
        }
        let mut segments: Vec<_> = std::iter::from_fn(|| sender.poll(now)).collect();
        segments.retain(|_| !random.ratio(lost, 100));
        for segment in segments {
            let at_once = receiver.handle_segment(now, segment.seq, segment.len);
            let told = receiver.take(random.below(3 * SEGMENT));
            if (at_once || told) && !random.ratio(lost, 100) {
                let (ack, edge) = receiver.acknowledge();
                sender.handle_ack(now, ack, edge);
            }
        }
        if receiver.take(BUFFER) || receiver.handle_tick(now) {
            let (ack, edge) = receiver.acknowledge();
            sender.handle_ack(now, ack, edge);
        }
        sender.handle_tick(now);
    }
    (written, receiver.read_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, the stream goes on and nothing is read that was not written.
    #[test]
    fn a_stream_survives_loss(seed: u64, lost in 0_u64..30, message in 1_u64..5_000) {
        let (written, half) = read_over(seed, lost, message, 400);
        prop_assert!(half <= written);
        let (written, all) = read_over(seed, lost, message, 800);
        prop_assert!(half < all && all <= written, "{half} {all} {written}");
    }

    /// Acknowledgements of anything at any time do no harm.
    #[test]
    fn no_acknowledgement_breaks_a_sender(acks in prop::collection::vec(
        (0_u64..30_000, any::<u64>(), 0_u64..1_000_000), 0..200,
    )) {
        let mut sender = sender(true);
        for (ack, edge, time_us) in acks {
            sender.write(sender.room().min(1_700), ack % 3 == 0);
            while let Some(segment) = sender.poll(us(time_us)) {
                prop_assert!(segment.len > 0 && segment.len <= SEGMENT);
            }
            sender.handle_ack(us(time_us), ack, edge);
            sender.handle_tick(us(time_us));
            prop_assert!(sender.room() <= BUFFER);
        }
    }
}

fn pc(number: u8) -> Pc {
    let us = Duration::from_us;
    let config = PcConfig {
        number,
        costs: Costs {
            // A cycle is a microsecond, and a KiB is copied in ten.
            machine: Machine {
                clock_mhz: 1,
                copy: Rate::from_kbps(819_200),
            },
            kernel: Kernel {
                receive: Cycles(4),
                receive_ack: Cycles(2),
                send: Cycles(3),
                send_ack: Cycles(2),
                tick: Cycles(1),
                call: Cycles(1),
                switch: Cycles(2),
                interrupt: Cycles(5),
                interrupt_registers: Duration::ZERO,
                shaping_enqueue: Cycles(1),
                shaping_dequeue: Cycles(1),
                tick_hz: 100,
                woken_by_traffic: true,
            },
        },
        pci: PciConfig {
            cycle: Duration::from_ns(10),
            burst: ByteSize::from_bytes(256),
            overhead_cycles: Cycles(0),
        },
        pci_bytes: 4,
        nic: NicConfig {
            nic: Nic {
                memory: ByteSize::from_bytes(8_000),
                rate: Rate::from_gbps(1),
                frame: us(20),
                interrupt: us(10),
                descriptor: ByteSize::from_bytes(0),
                send_ring: 4,
                receive_ring_normal: 4,
                receive_ring_jumbo: 4,
                send_frames: 10,
                receive_frames_normal: 10,
                receive_frames_jumbo: 10,
            },
            jumbo: false,
            send_delay: us(50),
            receive_delay: us(50),
        },
        phase: Duration::ZERO,
        message_bytes: SEGMENT,
        segment_bytes: SEGMENT,
        packet_buffer_bytes: BUFFER,
    };
    Pc::new(config, None)
}

/// The way of the first segment, step by step.
#[test]
fn a_segment_takes_its_steps() {
    let mut pc = pc(0);
    pc.add_sender(0, 1, sender(true));
    pc.start(us(0));
    // Call, switch and copy of 1000 bytes: 12.765625 us; then TCP: 3 us.
    let copied = Instant::from_ps(12_765_625);
    assert_eq!(pc.poll(), Some((copied, Happening::Processor)));
    pc.handle(copied, Happening::Processor);
    let posted = copied + Duration::from_us(3);
    assert_eq!(pc.poll(), Some((posted, Happening::Processor)));
    pc.handle(posted, Happening::Processor);
    let prepared = posted + Duration::from_us(20);
    assert_eq!(pc.poll(), Some((prepared, Happening::SendFirmware)));
    pc.handle(prepared, Happening::SendFirmware);
    let next: Vec<_> = std::iter::from_fn(|| pc.poll()).collect();
    // 1070 bytes are 268 words of 10 ns.
    let fetched = prepared + Duration::from_ns(2_680);
    assert!(next.contains(&(fetched, Happening::SendDma)), "{next:?}");
    pc.handle(fetched, Happening::SendDma);
    let next: Vec<_> = std::iter::from_fn(|| pc.poll()).collect();
    // 1090 bytes on the wire; the interrupt 50 us after the first.
    let left = fetched + Duration::from_ns(8_720);
    assert!(next.contains(&(left, Happening::SendWire)), "{next:?}");
    let told = fetched + Duration::from_us(50);
    assert!(next.contains(&(told, Happening::SendTimer)), "{next:?}");
    let frame = pc.handle(left, Happening::SendWire);
    let body = Body::Data {
        seq: 0,
        len: SEGMENT,
    };
    assert_eq!(frame.map(|frame| frame.body), Some(body));
}

/// A card whose memory is full loses, and says so.
#[test]
fn a_full_card_overruns() {
    let mut pc = pc(0);
    let body = Body::Data { seq: 0, len: 900 };
    for _ in 0..10 {
        let frame = Frame {
            from: 1,
            to: 0,
            flow: 0,
            body,
        };
        pc.handle_frame(us(0), frame);
    }
    // Half of 8000 bytes holds four frames of 970.
    assert_eq!(pc.stats().overruns, 6);
}

/// The way of a packet from outside through the processors, step by step.
#[test]
fn a_packet_from_outside_takes_its_steps() {
    let packet = |id, len, is_ack| Frame {
        from: 0,
        to: 1,
        flow: u8::MAX,
        body: Body::Packet { id, len, is_ack },
    };
    let mut pc = pc(0);
    assert!(pc.takes_packet());
    pc.offer_packet(packet(7, 1_000, false), vec![0x45]);
    pc.start(us(0));
    assert!(!pc.takes_packet() && pc.is_busy());
    // Call and copy of 1000 bytes, then UDP or TCP: 1 + 9.765625 + 3 us.
    let copied = Instant::from_ps(10_765_625);
    assert_eq!(pc.poll(), Some((copied, Happening::Processor)));
    pc.handle(copied, Happening::Processor);
    let posted = copied + Duration::from_us(3);
    assert_eq!(pc.poll(), Some((posted, Happening::Processor)));
    pc.handle(posted, Happening::Processor);
    assert!(pc.takes_packet(), "it is on the card");
    let prepared = posted + Duration::from_us(20);
    assert_eq!(pc.poll(), Some((prepared, Happening::SendFirmware)));
    // An acknowledgement is the kernel's own.
    pc.offer_packet(packet(8, 52, true), vec![0x45]);
    pc.start(prepared);
    let acknowledged = prepared + Duration::from_us(2);
    assert_eq!(pc.poll(), Some((acknowledged, Happening::Processor)));
}
