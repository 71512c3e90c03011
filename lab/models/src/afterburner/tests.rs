//! What the parts promise, by themselves.

use barewire_units::{Duration, Instant};
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
        unit_bytes: 32,
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
/// they end.
fn exchange(config: SenderConfig, call_bytes: u64, receive_blocks: u16) -> (u64, u64, u64) {
    let window = Window::new(config.buffer_bytes, config.segment_bytes, true);
    let mut sender = Sender::new(costs(), config, window.initial_bytes());
    let mut receiver = Receiver::new(costs(), config.stack, receive_blocks, window, call_bytes);
    let mut now = Instant::ORIGIN;
    let (mut sender_ends, mut receiver_ends) = (None, None);
    loop {
        while let Some((headers, segment)) = sender.poll() {
            receiver.handle_segment(segment);
            sender.handle_sent(headers);
        }
        while let Some(acknowledgement) = receiver.poll() {
            sender.handle_acknowledgement(acknowledgement);
        }
        sender_ends = sender_ends.or_else(|| sender.start(now).map(|time| now + time));
        receiver_ends = receiver_ends.or_else(|| receiver.start().map(|time| now + time));
        let Some(next) = sender_ends.into_iter().chain(receiver_ends).min() else {
            break;
        };
        now = next;
        if sender_ends.take_if(|end| *end == now).is_some() {
            sender.finish();
        }
        if receiver_ends.take_if(|end| *end == now).is_some() {
            receiver.finish();
        }
    }
    assert!(sender.is_over());
    (
        sender.written_bytes(),
        receiver.read_bytes(),
        receiver.lost(),
    )
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
        };
        let (written, read, lost) = exchange(config, call_bytes, 64);
        prop_assert_eq!((written, lost), (read, 0));
        prop_assert!(written >= message_bytes);
    }
}
