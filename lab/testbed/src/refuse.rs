//! What is wrong with an input, in one wording: key, what was found, what was expected. An
//! experiment states the bounds of an input where it declares it, with `inputs!`.

use std::fmt::Display;
use std::ops::RangeInclusive;

use barewire_models::parameters::{Cycles, Parameters, Quantity};
use barewire_units::{ByteSize, Duration, Rate};
use serde::de::DeserializeOwned;

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

/// A byte, the least of most sizes.
pub(crate) const BYTE: ByteSize = ByteSize::from_bytes(1);
/// The least time that is one.
pub(crate) const MOMENT: Duration = Duration::from_ps(1);

/// Refuses a value below `least`.
pub(crate) fn at_least<T: PartialOrd + Display>(
    key: &str,
    found: T,
    least: T,
) -> Result<(), SystemError> {
    match found >= least {
        true => Ok(()),
        false => Err(wrong(key, found, format!("at least {least}"))),
    }
}

/// Reads a parameter file in the system's own type.
pub(crate) fn parse<T: DeserializeOwned>(
    text: &str,
    check: impl FnOnce(&T) -> Result<(), SystemError>,
) -> Result<T, SystemError> {
    let parameters = toml::from_str(text)?;
    check(&parameters)?;
    Ok(parameters)
}

/// What the parameters of a system may be, so that no sum of them overflows and no run is
/// without end.
pub(crate) struct Limits {
    pub(crate) longest: Duration,
    pub(crate) slowest: Rate,
    pub(crate) largest: ByteSize,
    pub(crate) cycles: Cycles,
    /// Keys that the limits are not for.
    pub(crate) but: &'static [&'static str],
}

impl Limits {
    /// No limits, to begin with.
    pub(crate) const NONE: Self = Self {
        longest: Duration::MAX,
        slowest: Rate::from_bps(1),
        largest: ByteSize::from_bytes(u64::MAX),
        cycles: Cycles(u64::MAX),
        but: &[],
    };

    /// Refuses the first of `parameters`, which stand in the table `key`, that is beyond them.
    pub(crate) fn check(&self, key: &str, parameters: &dyn Parameters) -> Result<(), SystemError> {
        let beyond = |key: &str, found: Quantity| match found {
            _ if self.but.contains(&key) => None,
            Quantity::Time(time) => more(key, time, self.longest),
            Quantity::Size(size) => more(key, size, self.largest),
            Quantity::Cycles(cycles) => more(key, cycles, self.cycles),
            Quantity::Rate(rate) if rate < self.slowest => {
                Some(wrong(key, rate, format!("at least {}", self.slowest)))
            }
            Quantity::Rate(_) | Quantity::Other => None,
        };
        let mut first = Ok(());
        parameters.visit(key, &mut |key, found| {
            if let (Ok(()), Some(error)) = (&first, beyond(key, found)) {
                first = Err(error);
            }
        });
        first
    }
}

fn more<T: PartialOrd + Display>(key: &str, found: T, most: T) -> Option<SystemError> {
    (found > most).then(|| wrong(key, found, format!("at most {most}")))
}

/// Refuses an empty list, and one with a value outside `allowed`.
pub(crate) fn each_within<T: Copy + Display + PartialOrd>(
    key: &str,
    values: &[T],
    allowed: RangeInclusive<T>,
) -> Result<(), SystemError> {
    values.refuse(key, AtMost(usize::MAX))?;
    values
        .iter()
        .try_for_each(|value| within(key, *value, allowed.clone()))
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

/// Sizes from a byte on.
pub(crate) fn up_to(most: ByteSize) -> RangeInclusive<ByteSize> {
    ByteSize::from_bytes(1)..=most
}

/// Times from none on.
pub(crate) fn up_to_time(most: Duration) -> RangeInclusive<Duration> {
    Duration::ZERO..=most
}

/// Times above 0.
pub(crate) struct AboveZero(pub(crate) Duration);

/// A list with one value, and not more than so many.
pub(crate) struct AtMost(pub(crate) usize);

/// Each value of a list that may be empty.
pub(crate) struct Each<T>(pub(crate) RangeInclusive<T>);

/// An input that can be refused by a bound of type `B`.
pub(crate) trait Input<B> {
    fn refuse(&self, key: &str, allowed: B) -> Result<(), SystemError>;
}

impl<T: Copy + Display + PartialOrd> Input<RangeInclusive<T>> for T {
    fn refuse(&self, key: &str, allowed: RangeInclusive<T>) -> Result<(), SystemError> {
        within(key, *self, allowed)
    }
}

impl<T: Copy + Display + PartialOrd> Input<RangeInclusive<T>> for Vec<T> {
    fn refuse(&self, key: &str, allowed: RangeInclusive<T>) -> Result<(), SystemError> {
        each_within(key, self, allowed)
    }
}

impl<T: Copy + Display + PartialOrd> Input<Each<T>> for Vec<T> {
    fn refuse(&self, key: &str, Each(allowed): Each<T>) -> Result<(), SystemError> {
        let mut values = self.iter();
        values.try_for_each(|value| within(key, *value, allowed.clone()))
    }
}

impl Input<AboveZero> for Duration {
    fn refuse(&self, key: &str, AboveZero(most): AboveZero) -> Result<(), SystemError> {
        if !self.is_zero() && *self <= most {
            return Ok(());
        }
        Err(wrong(key, self, format!("more than 0 and up to {most}")))
    }
}

impl<T> Input<AtMost> for [T] {
    fn refuse(&self, key: &str, AtMost(most): AtMost) -> Result<(), SystemError> {
        match self.len() {
            0 => Err(wrong(key, "an empty list", "one value or more")),
            count if count <= most => Ok(()),
            count => {
                let found = format!("{count} values");
                Err(wrong(key, found, format!("at most {most}")))
            }
        }
    }
}

impl<T> Input<AtMost> for Vec<T> {
    fn refuse(&self, key: &str, allowed: AtMost) -> Result<(), SystemError> {
        self.as_slice().refuse(key, allowed)
    }
}

impl<T: Copy + Display + PartialOrd> Input<(AtMost, RangeInclusive<T>)> for Vec<T> {
    fn refuse(
        &self,
        key: &str,
        (most, allowed): (AtMost, RangeInclusive<T>),
    ) -> Result<(), SystemError> {
        self.refuse(key, most)?;
        each_within(key, self, allowed)
    }
}

/// The inputs of an experiment, which know their bounds.
pub(crate) trait Inputs: DeserializeOwned {
    /// Refuses the first input that is out of its bounds.
    fn check_bounds(&self) -> Result<(), SystemError>;
}

/// Declares an input that is one of some names.
macro_rules! names {
    ($(#[$about:meta])* $shown:vis enum $name:ident {
        $($(#[$about_one:meta])* $one:ident = $text:literal),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Deserialize)]
        $shown enum $name {
            $($(#[$about_one])* #[serde(rename = $text)] $one,)*
        }

        impl $name {
            $shown const fn name(self) -> &'static str {
                match self {
                    $(Self::$one => $text,)*
                }
            }
        }
    };
}
pub(crate) use names;

/// Declares the inputs of an experiment, each with its bounds behind `=>` if they are always
/// the same.
macro_rules! inputs {
    ($(#[$about:meta])* $shown:vis struct $name:ident {
        $($(#[$about_field:meta])* $shown_field:vis $field:ident: $kind:ty $(=> $allowed:expr)?),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $shown struct $name {
            $($(#[$about_field])* $shown_field $field: $kind,)*
        }

        impl $crate::refuse::Inputs for $name {
            fn check_bounds(&self) -> Result<(), $crate::error::SystemError> {
                $($($crate::refuse::Input::refuse(&self.$field, stringify!($field), $allowed)?;)?)*
                Ok(())
            }
        }
    };
}
pub(crate) use inputs;
