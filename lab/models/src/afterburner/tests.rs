//! What the parts promise, by themselves.

use barewire_units::{ByteSize, Duration, Instant};
use proptest::prelude::*;

use super::*;

fn costs() -> Costs {
    let us = Duration::from_us;
    let ns = Duration::from_ns;
    Costs {
        system_call: us(20),
        context_switch: us(30),
        interrupt: us(20),
        segment_output: us(60),
        segment_input: us(60),
        acknowledgement_output: us(20),
        acknowledgement_input: us(20),
        unit: ByteSize::from_bytes(32),
        store: ns(600),
        move_in: ns(990),
        purge: ns(110),
        copy: ns(800),
        sum: ns(400),
    }
}

#[test]
fn a_window_is_scaled_as_little_as_its_buffer_needs() {
    let initial = |kib: u64, scaled| Window::new(kib << 10, 14_336, scaled).initial_bytes();
    assert_eq!(initial(192, true), 192 << 10);
    assert_eq!(initial(192, false), 65_535);
    assert_eq!(initial(32, true), 32 << 10);
}

#[test]
fn every_second_segment_is_acknowledged_and_a_window_is_never_taken_back() {
    let mut window = Window::new(65_536, 10_000, true);
    let segment = |sequence| Segment {
        sequence,
        bytes: 10_000,
    };
    assert!(window.handle_segment(segment(0)));
    assert!(!window.is_due(10_000));
    assert!(!window.handle_segment(segment(0)));
    assert!(window.handle_segment(segment(10_000)));
    assert!(window.is_due(20_000));
    let first = window.acknowledge(20_000);
    assert_eq!((first.sequence, first.window_bytes), (20_000, 45_536));
    // The program reads nothing, then all: an update when two segments fit again.
    assert!(!window.is_due(20_000) && !window.is_due(1_000) && window.is_due(0));
    let second = window.acknowledge(0);
    assert_eq!((second.sequence, second.window_bytes), (20_000, 65_536));
    assert_eq!(window.acknowledge(60_000), second);
}

#[test]
fn a_conventional_stack_touches_the_data_more_often() {
    let costs = costs();
    let way = |stack| {
        let send = costs.copy_from_program(stack, 14_336) + costs.output(stack, 14_336);
        (
            send,
            costs.input(stack, 14_336) + costs.copy_to_program(stack, 14_336),
        )
    };
    let (single, conventional) = (way(Stack::SingleCopy), way(Stack::Conventional));
    let units = 14_336 / 32;
    assert_eq!(conventional.0 - single.0, (costs.copy + costs.sum) * units);
    assert_eq!(conventional.1 - single.1, (costs.copy + costs.sum) * units);
}

/// Both hosts with a link that takes no time, each doing its operations in the order in which
/// they end. `loses` says which of the segments and acknowledgements that are sent are lost.
fn exchange(
    config: SenderConfig,
    receiving_costs: Costs,
    call_bytes: u64,
    receive_blocks: u16,
    mut loses: impl FnMut() -> bool,
) -> Exchange {
    let window = Window::new(config.buffer_bytes, config.segment_bytes, true);
    let mut sender = Sender::new(costs(), config, window.initial_bytes());
    let receiver = Receiver::new(
        receiving_costs,
        config.stack,
        receive_blocks,
        window,
        call_bytes,
    );
    let mut receiver = receiver.with_delay(Duration::from_ms(200));
    let mut now = Instant::ORIGIN;
    let (mut sender_ends, mut receiver_ends) = (None, None);
    loop {
        while let Some((headers, segment)) = sender.poll() {
            if !loses() {
                receiver.handle_segment(segment);
            }
            sender.handle_sent(headers);
        }
        while let Some(acknowledgement) = receiver.poll() {
            if !loses() {
                sender.handle_acknowledgement(acknowledgement);
            }
        }
        sender_ends = sender_ends.or_else(|| sender.start(now).map(|time| now + time));
        receiver_ends = receiver_ends.or_else(|| receiver.start().map(|time| now + time));
        let timers = [sender.next_deadline(), receiver.next_deadline()];
        let ends = [sender_ends, receiver_ends].into_iter().chain(timers);
        let Some(next) = ends.flatten().min() else {
            break;
        };
        now = next;
        if sender_ends.take_if(|end| *end == now).is_some() {
            sender.finish(now);
        }
        if receiver_ends.take_if(|end| *end == now).is_some() {
            receiver.finish(now);
        }
        sender.handle_timer(now);
        receiver.handle_timer(now);
    }
    assert!(sender.is_over());
    assert_eq!(receiver.free_blocks(), receive_blocks.into());
    Exchange {
        written: sender.written_bytes(),
        read: receiver.read_bytes(),
        lost: receiver.lost(),
        repairs: sender.repairs(),
        took: now.since_origin(),
    }
}

#[derive(Debug)]
struct Exchange {
    written: u64,
    read: u64,
    lost: u64,
    repairs: (u64, u64),
    took: Duration,
}

fn recovering(until: Duration) -> SenderConfig {
    SenderConfig {
        stack: Stack::SingleCopy,
        blocks: 32,
        segment_bytes: 10_000,
        buffer_bytes: 200_000,
        message_bytes: 10_000,
        until: Instant::ORIGIN + until,
        recovery: Some(Recovery {
            times: TcpTimes {
                initial_segments: 2,
                timeout_min: Duration::from_s(1),
                tick: Duration::from_ms(500),
                delayed_acknowledgement: Duration::ZERO,
            },
            phase: Duration::ZERO,
        }),
    }
}

/// One lost segment among many costs no timeout, a lost last one does. The receiver is faster
/// than the sender: a slower one reads on meanwhile, and each of its acknowledgements opens the
/// window, so that none of them is a duplicate.
#[test]
fn a_loss_is_repaired_by_duplicates_or_by_the_timer() {
    let fast = Costs {
        move_in: Duration::from_ns(100),
        ..costs()
    };
    let config = recovering(Duration::from_ms(50));
    let clean = exchange(config, fast, 10_000, 64, || false);
    assert_eq!(clean.repairs, (0, 0));
    let mut sent_again = 0;
    for lost in 60..66 {
        // Half of what is sent here are acknowledgements, which need no repair.
        let mut sent = 0;
        let one = exchange(config, fast, 10_000, 64, || {
            sent += 1;
            sent == lost
        });
        assert_eq!((one.repairs.1, one.read), (0, one.written));
        sent_again += one.repairs.0;
    }
    assert_eq!(sent_again, 3);
    let mut sent = 0;
    let first = exchange(recovering(Duration::from_ns(1)), fast, 10_000, 64, || {
        sent += 1;
        sent == 1
    });
    assert_eq!((first.repairs, first.read), ((1, 1), 10_000));
    assert!(first.took >= Duration::from_s(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever is lost in between, all that is written is read, once and in order.
    #[test]
    fn a_stream_survives_losses(seed: u64, lost_per_cent in 0_u64..20, call_bytes in 1_000_u64..50_000) {
        let mut rng = barewire_units::Rng::from_seed(seed);
        let config = recovering(Duration::from_ms(40));
        let run = exchange(config, costs(), call_bytes, 64, || rng.ratio(lost_per_cent, 100));
        prop_assert_eq!(run.written, run.read);
        prop_assert!(lost_per_cent > 0 || run.repairs == (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever the sizes, all that is written is read, nothing is lost, nobody waits for ever.
    #[test]
    fn a_stream_arrives(
        conventional: bool,
        segment_bytes in 500_u64..16_000,
        segments in 3_u64..16,
        odd in 0_u64..500,
        message_bytes in 1_u64..60_000,
        call_bytes in 1_000_u64..200_000,
        blocks in 4_u16..40,
    ) {
        let stack = if conventional { Stack::Conventional } else { Stack::SingleCopy };
        let config = SenderConfig {
            stack,
            blocks,
            segment_bytes,
            buffer_bytes: segment_bytes * segments + odd,
            message_bytes,
            until: Instant::ORIGIN + Duration::from_ms(5),
            recovery: None,
        };
        let run = exchange(config, costs(), call_bytes, 64, || false);
        prop_assert_eq!((run.written, run.lost), (run.read, 0));
        prop_assert!(run.written >= message_bytes);
    }
}
