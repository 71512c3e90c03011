//! Lengths of cables and fibres: `"10 km"`, `"3.5 m"`, in whole millimetres.

use std::fmt;
use std::str::FromStr;

use barewire_units::{Decimal, Duration};
use serde::de::{Deserialize, Deserializer, Error};

/// A length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Length {
    mm: u64,
}

impl Length {
    /// Time that light takes, at `per_km`.
    pub(crate) fn delay(self, per_km: Duration) -> Duration {
        let ps = u128::from(per_km.as_ps()) * u128::from(self.mm) / 1_000_000;
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    pub(crate) const fn from_km(km: u64) -> Self {
        Self { mm: km * 1_000_000 }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.mm as f64 / 1000.0)
    }
}

impl FromStr for Length {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no_length = |_| "not a length, as in \"10 km\"";
        let (number, unit) = Decimal::split(text).map_err(no_length)?;
        let unit_mm = match unit {
            "km" => 1e6,
            "m" => 1e3,
            "cm" => 10.0,
            "mm" => 1.0,
            _ => return Err("expected km, m, cm or mm behind the number"),
        };
        let number: f64 = number.text().parse().unwrap_or(f64::INFINITY);
        let mm = number * unit_mm;
        if mm > 1e15 {
            return Err("longer than anything on earth");
        }
        Ok(Self { mm: mm as u64 })
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let length = |text: &str| text.parse::<Length>();
        assert_eq!(length("10 km"), Ok(Length::from_km(10)));
        assert_eq!(length("3.5m").map(|l| l.to_string()), Ok("3.5 m".into()));
        let per_km = Duration::from_us(5);
        assert_eq!(
            length("30 m").map(|l| l.delay(per_km)),
            Ok(Duration::from_ns(150))
        );
        assert_eq!(length("1e1 km"), Ok(Length::from_km(10)));
        assert_eq!(length("1e-3km"), length("1 m"));
        assert_eq!(length("2.5E+2 cm"), length("2.5 m"));
        for bad in [
            "",
            "1e",
            "1e m",
            "1e- m",
            "1e300 km",
            "km",
            "10",
            "-3 m",
            "1.2.3 m",
            "5 miles",
            "99999999999999 km",
        ] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }
}
