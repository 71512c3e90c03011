//! What holds for all times, sizes, rates and seeds.

use barewire_units::{ByteSize, Duration, Instant, Rate, Rng};
use proptest::prelude::*;

/// Numbers of every magnitude, not only the large ones that are most of `u64`.
fn any_magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift)
}

proptest! {
    #[test]
    fn duration_text_round_trips(ps in any_magnitude()) {
        let duration = Duration::from_ps(ps);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn size_text_round_trips(bytes in any_magnitude()) {
        let size = ByteSize::from_bytes(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
    }

    #[test]
    fn rate_text_round_trips(bps in any_magnitude()) {
        if let Some(rate) = Rate::new(bps) {
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }

    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        let _ = text.parse::<Duration>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<Rate>();
    }

    #[test]
    fn parsing_near_misses_never_panics(text in "[0-9.]{0,45} ?(ps|us|h|KiB|TiB|bit|Gbit/s|/s)?") {
        let _ = text.parse::<Duration>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<Rate>();
    }

    #[test]
    fn instants_and_durations_agree(start in any_magnitude(), ps in any_magnitude()) {
        let (start, duration) = (Instant::from_ps(start), Duration::from_ps(ps));
        if let Some(end) = start.checked_add(duration) {
            prop_assert_eq!(end - start, duration);
            prop_assert_eq!(end - duration, start);
            prop_assert!(end >= start);
        } else {
            prop_assert_eq!(start.saturating_add(duration), Instant::MAX);
        }
    }

    /// The published promise of `Rate`: rounded against the sender, both ways.
    #[test]
    fn rates_round_against_the_sender(
        bps in any_magnitude(), bytes in any_magnitude(), ps in any_magnitude()
    ) {
        if let Some(rate) = Rate::new(bps) {
            let size = ByteSize::from_bytes(bytes);
            if let Some(time) = rate.checked_time_to_send(size) {
                prop_assert!(rate.bytes_in(time) >= size);
            }
            let time = Duration::from_ps(ps);
            let passed = rate.bytes_in(time);
            if passed < ByteSize::MAX {
                prop_assert!(rate.checked_time_to_send(passed).is_some_and(|t| t <= time));
            }
        }
    }

    #[test]
    fn ranges_hold(seed in any::<u64>(), a in any_magnitude(), b in any_magnitude()) {
        let (first, last) = (a.min(b), a.max(b));
        let mut rng = Rng::from_seed(seed);
        for _ in 0..8 {
            prop_assert!((first..=last).contains(&rng.in_range(first..=last)));
        }
    }

    #[test]
    fn shuffling_keeps_everything(seed in any::<u64>(), len in 0usize..100) {
        let mut things: Vec<usize> = (0..len).collect();
        Rng::from_seed(seed).shuffle(&mut things);
        things.sort_unstable();
        prop_assert_eq!(things, (0..len).collect::<Vec<_>>());
    }

    #[test]
    fn names_make_streams(seed in any::<u64>(), a in "[a-z]{0,8}", b in "[a-z]{0,8}") {
        let root = Rng::from_seed(seed);
        prop_assert_eq!(root.fork(&a) == root.fork(&b), a == b);
        if !a.is_empty() && !b.is_empty() {
            let joined = format!("{a}{b}");
            prop_assert_ne!(root.fork(&a).fork(&b), root.fork(&joined));
        }
    }
}
