//! Any text as a quantity: what is read prints as text for the same quantity, and what a number is in a smaller unit
//! is so many times what it is in a larger one.
#![no_main]

use barewire_units::{ByteSize, Decimal, Duration, Rate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(time) = text.parse::<Duration>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert_eq!(rate.to_string().parse(), Ok(rate));
    }
    let Ok((number, unit)) = Decimal::split(text) else {
        return;
    };
    // Every number is one of Rust's, too.
    let float: f64 = number.text().parse().expect("a float");
    assert!(text.trim().starts_with(number.text()) && text.trim().ends_with(unit));
    if let Ok(large) = number.times(1_000) {
        assert!((large as f64 - float * 1e3).abs() <= 1e-9 * float * 1e3);
        if let Some(small) = large.checked_mul(1_000) {
            assert_eq!(number.times(1_000_000), Ok(small));
        }
    }
});
