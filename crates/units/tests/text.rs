//! How quantities read and write as text: the cases that properties do not name.

use barewire_units::{ByteSize, Duration, ParseError, Rate};

#[test]
fn durations_in_every_unit() {
    for (text, ps) in [
        ("0", 0),
        ("0s", 0),
        ("1ps", 1),
        ("312.5ns", 312_500),
        ("15us", 15_000_000),
        ("15 \u{b5}s", 15_000_000),
        ("15\u{3bc}s", 15_000_000),
        (" 2.900 us ", 2_900_000),
        ("1.5ms", 1_500_000_000),
        ("2s", 2_000_000_000_000),
        ("1min", 60_000_000_000_000),
        ("1h", 3_600_000_000_000_000),
        ("1e-3 s", 1_000_000_000),
        ("1E3us", 1_000_000_000),
        ("2.50e+1 ns", 25_000),
        ("0.00015e4us", 1_500_000),
        ("150000e-4us", 15_000_000),
        ("1e-12s", 1),
        ("0e99999999999999999999 h", 0),
        ("0e-9", 0),
        (
            "0000000000000000000000000000000000000000000000.5e-1us",
            50_000,
        ),
        (
            "1000000000000000000000000000000000000000000000e-45us",
            1_000_000,
        ),
        ("18446744073709551615ps", u64::MAX),
        ("1.8446744073709551615e7 s", u64::MAX),
    ] {
        assert_eq!(text.parse(), Ok(Duration::from_ps(ps)), "{text}");
    }
}

#[test]
fn bad_texts_say_why() {
    type Verdict = fn(&ParseError) -> bool;
    let cases: [(&str, Verdict); 19] = [
        ("", |e| matches!(e, ParseError::NoNumber)),
        ("us", |e| matches!(e, ParseError::NoNumber)),
        ("-1us", |e| matches!(e, ParseError::NoNumber)),
        (".5us", |e| matches!(e, ParseError::NoNumber)),
        ("5.us", |e| matches!(e, ParseError::NoNumber)),
        ("1.2.3us", |e| matches!(e, ParseError::NoNumber)),
        ("1e3", |e| matches!(e, ParseError::NoUnit(_))),
        ("1e us", |e| matches!(e, ParseError::UnknownUnit(_))),
        ("1 e3us", |e| matches!(e, ParseError::UnknownUnit(_))),
        ("1e3.5us", |e| matches!(e, ParseError::UnknownUnit(_))),
        ("1e-us", |e| matches!(e, ParseError::NoNumber)),
        ("1e+", |e| matches!(e, ParseError::NoNumber)),
        ("1e--3us", |e| matches!(e, ParseError::NoNumber)),
        ("1e-13s", |e| matches!(e, ParseError::TooFine)),
        ("1e-99999999999999999999s", |e| {
            matches!(e, ParseError::TooFine)
        }),
        ("1e99999999999999999999s", |e| {
            matches!(e, ParseError::TooLarge)
        }),
        ("18446744073709551616ps", |e| {
            matches!(e, ParseError::TooLarge)
        }),
        ("0.0001ns", |e| matches!(e, ParseError::TooFine)),
        ("6000h", |e| matches!(e, ParseError::TooLarge)),
    ];
    for (text, verdict) in cases {
        let error = text.parse::<Duration>().unwrap_err();
        assert!(verdict(&error), "{text:?}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    assert_eq!("2.5e8 bit/s".parse(), Ok(Rate::from_mbps(250)));
    assert_eq!("6.4e1KiB".parse(), Ok(ByteSize::from_kib(64)));
    // 2^-40 TiB and a little less.
    let byte = "9.094947017729282379150390625e-13 TiB";
    assert_eq!(byte.parse(), Ok(ByteSize::from_bytes(1)));
    let less = "9.094947017729282379150390624e-13 TiB";
    assert_eq!(less.parse::<ByteSize>(), Err(ParseError::TooFine));
    assert_eq!("0bit/s".parse::<Rate>(), Err(ParseError::Zero));
    assert_eq!("1.5".parse::<ByteSize>(), Err(ParseError::TooFine));
}

#[test]
fn widths_align_like_numbers() {
    assert_eq!(format!("[{:8}]", Duration::from_us(15)), "[    15us]");
    assert_eq!(format!("[{:<8}]", Duration::from_us(15)), "[15us    ]");
    assert_eq!(
        format!("[{:*>8.1}]", ByteSize::from_bytes(1_536)),
        "[**1.5KiB]"
    );
    assert_eq!(format!("[{:6.1}]", ByteSize::from_bytes(56)), "[   56B]");
}

#[test]
fn precision_rounds() {
    assert_eq!(format!("{:.0}", Duration::from_ps(1_500)), "2ns");
    assert_eq!(format!("{:.2}", Duration::from_ps(1_999_999)), "2.00us");
    assert_eq!(
        format!("{:.3}", Rate::from_bps(882_639_731)),
        "882.640Mbit/s"
    );
}

#[test]
fn extremes_write() {
    assert_eq!(Duration::MAX.to_string(), "18446744.073709551615s");
    assert_eq!(ByteSize::MAX.to_string(), "18446744073709551615B");
    assert_eq!(
        Rate::from_bps(u64::MAX).to_string(),
        "18446744.073709551615Tbit/s"
    );
    assert_eq!(Duration::ZERO.to_string(), "0s");
}
