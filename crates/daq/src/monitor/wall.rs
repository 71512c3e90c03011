//! Times of day for people, in UTC, from seconds since 1970.

/// `2026-11-23 23:31:05`.
#[must_use]
pub fn date_and_time(unix_s: u64) -> String {
    let (year, month, day) = date(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02} {}", time_of_day(unix_s))
}

/// `23:31:05`.
#[must_use]
pub fn time_of_day(unix_s: u64) -> String {
    let (hours, minutes) = (unix_s / 3600 % 24, unix_s / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", unix_s % 60)
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

/// Year, month and day, so many days after 1970-01-01, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    /// Days of 400 years.
    const CYCLE: u64 = 146_097;
    // Years that begin in March end with the day that is not there every year.
    let days = days + 719_468;
    let (cycles, day) = (days / CYCLE, days % CYCLE);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    (cycles * 400 + year + later, month, day)
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
