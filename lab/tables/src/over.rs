//! The values that a key takes in a sweep.
//!
//! | text | values |
//! |---|---|
//! | `1, 2, 7` | those |
//! | `64 B, 1 KiB` | those, with their units |
//! | `[1, 2], [3]` | two lists: commas in brackets and quotation marks do not divide |
//! | `1..5` | 1, 2, 3, 4, 5 |
//! | `10 us..50 us step 20 us` | 10 us, 30 us, 50 us |
//! | `10..50 us step 20` | the same: a unit that is left out is the last one's |
//! | `1..1000 times 10` | 1, 10, 100, 1000 |
//! | `1..1000*10` | the same |
//! | `1..100 log 5` | 5 values, each the same times the one before: 1, 3.16228, 10, 31.6228, 100 |
//! | `0, 1..4 times 2` | 0, 1, 2, 4: lists and ranges go together |
//!
//! A range ends with the last value that is not above its end.

use std::fmt;
use std::str::FromStr;

use barewire_units::{ByteSize, Decimal, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Most values of a sweep.
pub(crate) const VALUES_MAX: usize = 10_000;

/// A key and the values that it takes, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Which, as a change of a plan or of a system's parameters names it.
    pub key: String,
    /// What to put there.
    pub values: Vec<String>,
}

/// Why a text is no such thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverError {
    /// No key, or no values.
    #[error("expected KEY=VALUES, as in `inputs.stations=1..5` or `driver.wake=10 us, 20 us`")]
    NoValues,
    /// Two commas with nothing between them, or one at an end.
    #[error("expected a value between and behind the commas")]
    Empty,
    /// A range that does not say what comes after its first value.
    #[error("`{0}`: {1}")]
    Range(String, &'static str),
    /// Too many values.
    #[error("more than {VALUES_MAX} values")]
    TooMany,
}

impl FromStr for Over {
    type Err = OverError;

    fn from_str(text: &str) -> Result<Over, OverError> {
        let (key, list) = text.split_once('=').ok_or(OverError::NoValues)?;
        if key.trim().is_empty() || list.trim().is_empty() {
            return Err(OverError::NoValues);
        }
        let mut values = Vec::new();
        for item in at_commas(list) {
            let item = item.trim();
            if item.is_empty() {
                return Err(OverError::Empty);
            }
            match range(item)? {
                Some(range) => values.extend(range),
                None => values.push(item.to_owned()),
            }
            if values.len() > VALUES_MAX {
                return Err(OverError::TooMany);
            }
        }
        let key = key.trim().to_owned();
        Ok(Over { key, values })
    }
}

/// Splits at the commas that are in no brackets and no quotation marks.
pub(crate) fn at_commas(text: &str) -> Vec<&str> {
    let (mut items, mut begin, mut depth, mut is_quoted) = (Vec::new(), 0, 0_i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' | '{' | '(' if !is_quoted => depth += 1,
            ']' | '}' | ')' if !is_quoted => depth -= 1,
            ',' if !is_quoted && depth == 0 => {
                items.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    items.push(&text[begin..]);
    items
}

/// A number with its unit, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount<'a> {
    pub number: f64,
    pub unit: &'a str,
}

impl<'a> Amount<'a> {
    /// Reads `12.5 us`, `7`, `-3`, `1e-4`. A text that has no number in front is none.
    pub fn read(text: &'a str) -> Option<Amount<'a>> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        // White space behind a sign.
        let (number, unit) = Decimal::split(unsigned).ok()?;
        if !unsigned.starts_with(number.text()) {
            return None;
        }
        let number: f64 = number.text().parse().ok()?;
        let number = if text.starts_with('-') {
            -number
        } else {
            number
        };
        let is_unit = unit.is_empty() || unit.starts_with(|c: char| c.is_alphabetic() || c == '%');
        (number.is_finite() && is_unit).then_some(Amount { number, unit })
    }

    /// The number in another unit; `None` if that is of another kind or not known here.
    pub fn number_in(&self, unit: &str) -> Option<f64> {
        match self.unit == unit {
            true => Some(self.number),
            false => Some(self.number * ratio(self.unit, unit)?),
        }
    }
}

/// How many of `to` are one `from`.
fn ratio(from: &str, to: &str) -> Option<f64> {
    let size = |unit: &str| {
        // A thousand, so that what is less than the smallest unit has a size too.
        let text = format!("1000 {unit}");
        let kinds = [
            text.parse::<Duration>().map(Duration::as_ps),
            text.parse::<Rate>().map(Rate::as_bps),
            text.parse::<ByteSize>().map(ByteSize::as_bytes),
        ];
        let kind = kinds.iter().position(Result::is_ok)?;
        kinds[kind].ok().map(|size| (kind, size as f64))
    };
    let ((kind_from, from), (kind_to, to)) = (size(from)?, size(to)?);
    (kind_from == kind_to).then_some(from / to)
}

/// How a range goes on.
#[derive(Clone, Copy)]
enum Rule {
    Step(f64),
    Times(f64),
    Log(usize),
}

/// The values of a range; `None` if the text is none.
fn range(text: &str) -> Result<Option<Vec<String>>, OverError> {
    let Some((first, rest)) = text.split_once("..") else {
        return Ok(None);
    };
    let fault = |what| OverError::Range(text.to_owned(), what);
    let (last, by) = ["step", "times", "*", "log"]
        .iter()
        .find_map(|word| Some((*word, rest.split_once(word)?)))
        .map_or((rest, None), |(word, (last, by))| (last, Some((word, by))));
    let (Some(first), Some(last)) = (Amount::read(first), Amount::read(last)) else {
        // A text with two points in it, or a range of what cannot be counted.
        return match by {
            None => Ok(None),
            Some(_) => Err(fault("expected a number on both sides of the points")),
        };
    };
    let unit = match first.unit {
        "" => last.unit,
        unit => unit,
    };
    let last = last.number_in(unit);
    let last = last.ok_or_else(|| fault("the units of its ends do not go together"))?;
    let ends = Ends {
        first: first.number,
        last,
        unit,
    };
    if ends.first > ends.last {
        return Err(fault("its first value is above its last"));
    }
    let rule = ends.rule(by).map_err(fault)?;
    let numbers = ends.numbers(rule).ok_or(OverError::TooMany)?;
    let text = |number: f64| match unit {
        "" => number.to_string(),
        unit => format!("{number} {unit}"),
    };
    Ok(Some(numbers.into_iter().map(text).collect()))
}

/// The ends of a range in the unit of its values.
struct Ends<'a> {
    first: f64,
    last: f64,
    unit: &'a str,
}

impl Ends<'_> {
    fn rule(&self, by: Option<(&str, &str)>) -> Result<Rule, &'static str> {
        let Some((word, text)) = by else {
            return match self.first.fract() == 0.0 && self.last.fract() == 0.0 {
                true => Ok(Rule::Step(1.0)),
                false => Err("expected `step`, `times` or `log` and a number at its end"),
            };
        };
        let mut by = Amount::read(text).ok_or("expected a number at its end")?;
        let is_above_zero = self.first > 0.0;
        let has_unit = !by.unit.is_empty();
        match word {
            "step" => {
                if !has_unit {
                    by.unit = self.unit;
                }
                let step = by.number_in(self.unit).filter(|step| *step > 0.0);
                let step = step.ok_or("its step must be above 0, in the same kind of unit")?;
                Ok(Rule::Step(step))
            }
            "log" => {
                let is_count = by.number >= 2.0 && by.number.fract() == 0.0 && !has_unit;
                match is_count && is_above_zero && self.first < self.last {
                    true => Ok(Rule::Log(by.number as usize)),
                    false => Err("`log` needs a number of values from 2 on, and ends above 0"),
                }
            }
            _ => match by.number > 1.0 && !has_unit && is_above_zero {
                true => Ok(Rule::Times(by.number)),
                false => Err("`times` needs a number above 1, and a first value above 0"),
            },
        }
    }

    /// The values by this rule; `None` if they are too many.
    fn numbers(&self, rule: Rule) -> Option<Vec<f64>> {
        // What rounding leaves over must not cost the last value.
        let end = self.last * (1.0 + 1e-9);
        let mut found = Vec::new();
        loop {
            let number = self.number(rule, found.len());
            let is_past = match rule {
                Rule::Log(count) => found.len() == count,
                _ => number > end,
            };
            if is_past {
                return Some(found);
            }
            if found.len() == VALUES_MAX {
                return None;
            }
            found.push(number);
        }
    }

    fn number(&self, rule: Rule, index: usize) -> f64 {
        match rule {
            Rule::Step(step) => rounded(self.first + index as f64 * step, 12),
            Rule::Times(factor) => rounded(self.first * factor.powi(index as i32), 6),
            Rule::Log(count) => {
                let share = index as f64 / (count - 1) as f64;
                rounded(self.first * (self.last / self.first).powf(share), 6)
            }
        }
    }
}

/// The number in so many digits, so that 0.1 + 2 x 0.1 is 0.3.
fn rounded(number: f64, digits: usize) -> f64 {
    let text = format!("{number:.*e}", digits - 1);
    text.parse().unwrap_or(number)
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.values.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(text: &str) -> Vec<String> {
        let over: Over = format!("k={text}").parse().unwrap();
        over.values
    }

    fn refusal(text: &str) -> String {
        text.parse::<Over>().unwrap_err().to_string()
    }

    #[test]
    fn the_table_above_is_true() {
        for (text, expected) in [
            ("1, 2, 7", "1|2|7"),
            ("64 B, 1 KiB", "64 B|1 KiB"),
            ("[1, 2], [3]", "[1, 2]|[3]"),
            ("\"a, b\", c", "\"a, b\"|c"),
            ("1..5", "1|2|3|4|5"),
            ("10 us..50 us step 20 us", "10 us|30 us|50 us"),
            ("10..50 us step 20", "10 us|30 us|50 us"),
            ("1..1000 times 10", "1|10|100|1000"),
            ("1..1000*10", "1|10|100|1000"),
            ("1..100 log 5", "1|3.16228|10|31.6228|100"),
            ("0, 1..4 times 2", "0|1|2|4"),
            ("0.1..0.5 step 0.1", "0.1|0.2|0.3|0.4|0.5"),
            ("500 ns..2 us step 500 ns", "500 ns|1000 ns|1500 ns|2000 ns"),
            ("1 KiB..1 MiB*32", "1 KiB|32 KiB|1024 KiB"),
            ("1..10 step 4", "1|5|9"),
            ("3..3", "3"),
            ("1e-4..1e-2 times 10", "0.0001|0.001|0.01"),
            ("0, 1e-4", "0|1e-4"),
            ("1e0 us..3E0 us", "1 us|2 us|3 us"),
            ("../a.toml", "../a.toml"),
            ("512 Mbit/s,fast", "512 Mbit/s|fast"),
        ] {
            assert_eq!(values(text).join("|"), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_values_is_named() {
        for (text, problem) in [
            ("k", "expected KEY=VALUES"),
            ("=1", "expected KEY=VALUES"),
            ("k=", "expected KEY=VALUES"),
            ("k=1,,2", "between and behind the commas"),
            ("k=5..1", "`5..1`: its first value is above its last"),
            ("k=0.5..1", "expected `step`, `times` or `log`"),
            ("k=1..9 step 0", "must be above 0"),
            ("k=1 us..9 us step 1 B", "the same kind of unit"),
            ("k=1 us..9 kB", "do not go together"),
            ("k=0..9 times 2", "a first value above 0"),
            ("k=1..9 times 1", "above 1"),
            ("k=1..9 log 1", "from 2 on"),
            ("k=a..b step 1", "on both sides of the points"),
            ("k=1..9 step x", "expected a number at its end"),
            ("k=1..1000000", "more than 10000 values"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(problem), "{text}: {refusal}");
        }
    }

    #[test]
    fn amounts_are_converted_between_units_of_a_kind() {
        let in_unit = |text, unit| Amount::read(text).unwrap().number_in(unit);
        assert_eq!(in_unit("1.5 ms", "us"), Some(1500.0));
        assert_eq!(in_unit("1 Gbit/s", "Mbit/s"), Some(1000.0));
        assert_eq!(in_unit("2 MiB", "KiB"), Some(2048.0));
        assert_eq!(in_unit("2 km", "km"), Some(2.0));
        assert_eq!(in_unit("2 us", "B"), None);
        assert_eq!(in_unit("2 km", "m"), None);
        assert!(Amount::read("fast").is_none());
        assert!(Amount::read("1.2.3").is_none());
    }

    #[test]
    fn an_exponent_belongs_to_the_number() {
        for (text, number, unit) in [
            ("1e-4", 1e-4, ""),
            ("-2.5E+3", -2500.0, ""),
            ("1e3us", 1000.0, "us"),
            ("1e3 us", 1000.0, "us"),
            ("7 e", 7.0, "e"),
            ("7e", 7.0, "e"),
            ("7 e3", 7.0, "e3"),
        ] {
            assert_eq!(Amount::read(text), Some(Amount { number, unit }), "{text}");
        }
        assert!(Amount::read("1e999").is_none());
        assert!(Amount::read("e3").is_none());
        assert!(Amount::read("7e-").is_none());
        assert!(Amount::read("- 7").is_none());
    }

    proptest! {
        #[test]
        fn nothing_that_people_type_panics(text in "[0-9a-c., =\\[\\]\"*steplogim-]{0,30}") {
            let _ = text.parse::<Over>();
        }
    }
}
