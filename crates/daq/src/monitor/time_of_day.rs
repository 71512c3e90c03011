//! Times of day for people, in UTC, from seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-23 23:31:05`.
#[must_use]
pub fn date_and_time(unix_s: u64) -> String {
    let text = rfc_3339(unix_s);
    format!("{} {}", &text[..10], &text[11..19])
}

/// `23:31:05`.
#[must_use]
pub fn time_of_day(unix_s: u64) -> String {
    rfc_3339(unix_s)[11..19].to_owned()
}

/// As `2026-11-23T23:31:05Z`. Times after the year 9999 are told as its end.
fn rfc_3339(unix_s: u64) -> String {
    const LAST_S: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_S));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A line of the event log with the time of day in place of its seconds since 1970; other lines as they are.
#[must_use]
pub fn with_time_of_day(line: &str) -> String {
    let times = line.split_once(' ').and_then(|(time, rest)| {
        let (seconds, fraction) = time.split_once('.')?;
        let is_number = fraction.len() == 3 && fraction.bytes().all(|it| it.is_ascii_digit());
        Some((
            seconds.parse::<u64>().ok().filter(|_| is_number)?,
            fraction,
            rest,
        ))
    });
    match times {
        Some((seconds, fraction, rest)) => format!("{}.{fraction} {rest}", time_of_day(seconds)),
        None => line.to_owned(),
    }
}

/// Seconds since 1970.
#[must_use]
pub fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // From `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_735_689_600, "2025-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date_and_time(seconds), text);
        }
        assert_eq!(
            with_time_of_day("951782399.042 info: a 1.5 s"),
            "23:59:59.042 info: a 1.5 s"
        );
        for other in ["source 0 started", "1.5 s later", "", "x.123 y"] {
            assert_eq!(with_time_of_day(other), other);
        }
    }
}
