//! What is wrong with an input, in one wording: key, what was found, what was expected.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::error::SystemError;

/// The error for `found` as the value of `key`.
pub(crate) fn wrong(key: &str, found: impl Display, expected: impl Display) -> SystemError {
    SystemError::Contradiction(format!("{key}: found {found}, expected {expected}"))
}

/// Refuses a value outside `allowed`.
pub(crate) fn within<T: PartialOrd + Display>(
    key: &str,
    found: T,
    allowed: RangeInclusive<T>,
) -> Result<(), SystemError> {
    if allowed.contains(&found) {
        return Ok(());
    }
    let (low, high) = allowed.into_inner();
    Err(wrong(key, found, format!("{low} to {high}")))
}

/// Refuses a list that is empty or has more than `most` values.
pub(crate) fn list<T>(key: &str, values: &[T], most: usize) -> Result<(), SystemError> {
    match values.len() {
        0 => Err(wrong(key, "an empty list", "one value or more")),
        count if count <= most => Ok(()),
        count => Err(wrong(
            key,
            format!("{count} values"),
            format!("at most {most}"),
        )),
    }
}

/// Refuses an empty list, and one with a value outside `allowed`.
pub(crate) fn each_within<T>(
    key: &str,
    values: impl IntoIterator<Item = T>,
    allowed: RangeInclusive<T>,
) -> Result<(), SystemError>
where
    T: Clone + Display + PartialOrd,
{
    let mut count = 0;
    for value in values {
        within(key, value, allowed.clone())?;
        count += 1;
    }
    if count == 0 {
        return Err(wrong(key, "an empty list", "one value or more"));
    }
    Ok(())
}

/// Refuses lists of inputs that make more than `most` points together.
pub(crate) fn few_points(lengths: &[usize], most: usize) -> Result<(), SystemError> {
    let points = lengths
        .iter()
        .fold(1_usize, |points, &length| points.saturating_mul(length));
    if points <= most {
        return Ok(());
    }
    let found = format!("{points} points together");
    Err(wrong(
        "the lists of inputs",
        found,
        format!("at most {most}"),
    ))
}
