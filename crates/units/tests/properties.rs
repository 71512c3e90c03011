//! What holds for all times, sizes, rates and seeds.

use barewire_units::{ByteSize, Decimal, Duration, Instant, ParseError, Rate, Rng};
use proptest::prelude::*;

/// Numbers of every magnitude, not only the large ones that are most of `u64`.
fn any_magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift)
}

/// `digits · 10^exponent · unit`, by another way than the parser's; `None` beyond 128 bits.
fn reckoned(digits: u64, exponent: i32, unit: u64) -> Option<Result<u64, ParseError>> {
    let product = u128::from(digits).checked_mul(u128::from(unit))?;
    let power = 10u128.checked_pow(exponent.unsigned_abs())?;
    let whole = match exponent {
        0.. => product.checked_mul(power)?,
        _ if product % power != 0 => return Some(Err(ParseError::TooFine)),
        _ => product / power,
    };
    Some(u64::try_from(whole).map_err(|_| ParseError::TooLarge))
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
    fn decimals_are_exact(
        digits in any_magnitude(), point in 0usize..30, exponent in -40i32..40, unit in any_magnitude()
    ) {
        // `point` digits behind the point, which the exponent makes up for.
        let padded = format!("{digits:0width$}", width = point + 1);
        let (whole, fraction) = padded.split_at(padded.len() - point);
        let written = exponent + point as i32;
        let text = match point {
            0 => format!("{whole}e{written} x"),
            _ => format!("{whole}.{fraction}E{written:+}x"),
        };
        let (number, rest) = Decimal::split(&text).expect("a number");
        prop_assert_eq!(rest, "x");
        prop_assert_eq!(number.is_zero(), digits == 0);
        if let Some(expected) = reckoned(digits, exponent, unit) {
            prop_assert_eq!(number.times(unit), expected, "{} times {}", text, unit);
        }
    }

    #[test]
    fn an_exponent_moves_the_point(
        number in "[0-9]{1,25}(\\.[0-9]{1,25})?", exponent in -30i32..30, unit in "(ps|us|h)"
    ) {
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        // The same number without an exponent.
        let zeros = "0".repeat(30);
        let digits = format!("{zeros}{whole}{fraction}{zeros}");
        let point = (zeros.len() + whole.len()) as i32 + exponent;
        let (before, behind) = digits.split_at(point as usize);
        let plain = format!("{before}.{behind}{unit}").parse::<Duration>();
        prop_assert_eq!(format!("{number}e{exponent} {unit}").parse(), plain);
    }

    #[test]
    fn parsing_near_misses_never_panics(
        text in "[0-9.]{0,45}([eE][-+]?[0-9]{0,22})? ?(ps|us|h|KiB|TiB|bit|Gbit/s|/s)?"
    ) {
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
