//! The axes of a sweep: keys that take several values, each by itself or several in step.
//!
//! | text | is |
//! |---|---|
//! | `inputs.cells=1..5` | one key, as [`Over`] reads it |
//! | `(a, b)=(1, 10), (2, 20)` | pairs: two keys in step, `a` = 1 with `b` = 10, then 2 with 20 |
//! | `(a, b, c)=(1, 2, 3), (4, 5, 6)` | as many keys as wanted, a value for each in each point |
//!
//! Several axes give each point of the one with each of the others (a cross product), the last
//! axis fastest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::over::{Over, OverError, VALUES_MAX, at_commas};

/// One axis: keys, and the values that they take together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    keys: Vec<String>,
    /// Each with a value for every key.
    points: Vec<Vec<String>>,
}

/// All axes of a sweep, multiplied out: each point has a value for every key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Axes {
    keys: Vec<String>,
    points: Vec<Vec<String>>,
}

/// Why a text is no axis, or axes do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// Not the values of one key.
    #[error(transparent)]
    Over(#[from] OverError),
    /// Keys in brackets without points in brackets.
    #[error(
        "expected (KEY, KEY)=(VALUE, VALUE), (VALUE, VALUE), as in \
         `(inputs.tx_coal, inputs.rx_coal)=(40 us, 12 us), (400 us, 120 us)`"
    )]
    Brackets,
    /// A point with too few or too many values.
    #[error("{point} has {found} values, and there are {keys} keys")]
    Width {
        /// The point.
        point: String,
        /// Its values.
        found: usize,
        /// The keys.
        keys: usize,
    },
    /// A key that takes values of its own twice.
    #[error("`{0}` is swept twice: one point can have one value of it")]
    Twice(String),
    /// The product of all axes.
    #[error("{0} points, and a sweep has {VALUES_MAX} at most")]
    TooMany(usize),
}

impl From<Over> for Axis {
    fn from(over: Over) -> Self {
        Self {
            keys: vec![over.key],
            points: over.values.into_iter().map(|value| vec![value]).collect(),
        }
    }
}

/// What stands between a pair of brackets, at commas; `None` without brackets or with a gap.
fn in_brackets(text: &str) -> Option<Vec<String>> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let parts: Vec<String> = at_commas(inside)
        .into_iter()
        .map(|part| part.trim().to_owned())
        .collect();
    parts.iter().all(|part| !part.is_empty()).then_some(parts)
}

impl FromStr for Axis {
    type Err = AxisError;

    fn from_str(text: &str) -> Result<Self, AxisError> {
        if !text.trim_start().starts_with('(') {
            return Ok(text.parse::<Over>()?.into());
        }
        let (keys, list) = text.split_once('=').ok_or(AxisError::Brackets)?;
        let keys = in_brackets(keys).ok_or(AxisError::Brackets)?;
        let mut points = Vec::new();
        for item in at_commas(list) {
            let point = in_brackets(item).ok_or(AxisError::Brackets)?;
            if point.len() != keys.len() {
                return Err(AxisError::Width {
                    point: item.trim().to_owned(),
                    found: point.len(),
                    keys: keys.len(),
                });
            }
            points.push(point);
        }
        Ok(Self { keys, points })
    }
}

impl Axes {
    /// Each point of each axis with each of the others, the last axis fastest.
    ///
    /// # Errors
    ///
    /// A key in two places, or more points than a sweep may have.
    pub fn cross(axes: &[Axis]) -> Result<Self, AxisError> {
        let keys: Vec<String> = axes.iter().flat_map(|axis| axis.keys.clone()).collect();
        let twice = |at: &usize| keys[..*at].contains(&keys[*at]);
        if let Some(at) = (0..keys.len()).find(twice) {
            return Err(AxisError::Twice(keys[at].clone()));
        }
        let sizes = axes.iter().map(|axis| axis.points.len());
        let count = sizes.fold(1, usize::saturating_mul);
        if count > VALUES_MAX {
            return Err(AxisError::TooMany(count));
        }
        let mut points = vec![Vec::new()];
        for axis in axes {
            let with_axis = |before: &Vec<String>| {
                let join = |point: &Vec<String>| [before.as_slice(), point].concat();
                axis.points.iter().map(join).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(with_axis).collect();
        }
        Ok(Self { keys, points })
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The keys and their values at a point.
    pub fn point(&self, index: usize) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.keys.iter().map(String::as_str);
        keys.zip(self.points[index].iter().map(String::as_str))
    }

    /// All keys, in a line.
    #[must_use]
    pub fn keys_shown(&self) -> String {
        self.keys.join(", ")
    }

    /// The values of a point, in a line.
    #[must_use]
    pub fn point_shown(&self, index: usize) -> String {
        self.points[index].join(", ")
    }

    /// The values of each key, one for each point.
    #[must_use]
    pub fn by_key(&self) -> Vec<Over> {
        let over = |(at, key): (usize, &String)| Over {
            key: key.clone(),
            values: self.points.iter().map(|point| point[at].clone()).collect(),
        };
        self.keys.iter().enumerate().map(over).collect()
    }
}

impl From<Over> for Axes {
    fn from(over: Over) -> Self {
        let Axis { keys, points } = over.into();
        Self { keys, points }
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([key], points) = (&self.keys[..], &self.points) {
            return write!(f, "{key}={}", points.concat().join(","));
        }
        let points = self
            .points
            .iter()
            .map(|point| format!("({})", point.join(", ")));
        let points = points.collect::<Vec<_>>().join(", ");
        write!(f, "({})={points}", self.keys_shown())
    }
}

/// As it stands in JSON: one key as it always was, several with the points whole.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    One {
        key: String,
        values: Vec<String>,
    },
    Several {
        keys: Vec<String>,
        points: Vec<Vec<String>>,
    },
}

impl From<Axes> for Written {
    fn from(axes: Axes) -> Self {
        match &axes.keys[..] {
            [key] => Self::One {
                key: key.clone(),
                values: axes.points.concat(),
            },
            _ => Self::Several {
                keys: axes.keys,
                points: axes.points,
            },
        }
    }
}

impl TryFrom<Written> for Axes {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::One { key, values } => Ok(Over { key, values }.into()),
            Written::Several { keys, points } => {
                if points.iter().any(|point| point.len() != keys.len()) {
                    return Err("a sweep with points that lack a value or have one too many".into());
                }
                Ok(Self { keys, points })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(texts: &[&str]) -> Result<Axes, AxisError> {
        let parsed: Vec<Axis> = texts
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?;
        Axes::cross(&parsed)
    }

    fn points(texts: &[&str]) -> String {
        let axes = axes(texts).expect("good axes");
        let shown = (0..axes.len()).map(|at| axes.point_shown(at));
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn axes_are_multiplied_and_pairs_go_in_step() {
        assert_eq!(points(&["a=1,2"]), "1 | 2");
        assert_eq!(points(&["a=1,2", "b=x,y"]), "1, x | 1, y | 2, x | 2, y");
        assert_eq!(
            points(&["(a, b)=(40 us, 12 us), (400 us,120 us)"]),
            "40 us, 12 us | 400 us, 120 us"
        );
        assert_eq!(
            points(&["(a,b)=(1, [2, 3]),(\"4, 5\", 6)", "c=1..2"]),
            "1, [2, 3], 1 | 1, [2, 3], 2 | \"4, 5\", 6, 1 | \"4, 5\", 6, 2"
        );
    }

    #[test]
    fn a_point_has_a_value_of_every_key() {
        let axes = axes(&["(a, b)=(1, 2)", "c=7 us"]).expect("good axes");
        let point: Vec<_> = axes.point(0).collect();
        assert_eq!(point, [("a", "1"), ("b", "2"), ("c", "7 us")]);
        let by_key = axes.by_key();
        assert_eq!(by_key.len(), 3);
        assert_eq!(
            (by_key[2].key.as_str(), &by_key[2].values[0][..]),
            ("c", "7 us")
        );
        assert_eq!(axes.to_string(), "(a, b, c)=(1, 2, 7 us)");
    }

    #[test]
    fn what_is_no_axis_is_named() {
        for (texts, problem) in [
            (
                &["(a, b)=(1, 2), (3)"][..],
                "(3) has 1 values, and there are 2 keys",
            ),
            (&["(a, b)=1, 2"], "expected (KEY, KEY)="),
            (&["(a, b)"], "expected (KEY, KEY)="),
            (&["(a, )=(1, 2)"], "expected (KEY, KEY)="),
            (&["(a, b)=(1, )"], "expected (KEY, KEY)="),
            (&["a=1,2", "a=3"], "`a` is swept twice"),
            (&["(a, a)=(1, 2)"], "`a` is swept twice"),
            (&["a=1..200", "b=1..200"], "40000 points"),
            (&["a"], "expected KEY=VALUES"),
        ] {
            let error = axes(texts).expect_err("no axes").to_string();
            assert!(error.contains(problem), "{texts:?}: {error}");
        }
    }

    /// Files of older versions have one key; those of one key stay as they were.
    #[test]
    fn json_of_one_key_is_as_it_always_was() {
        let one = axes(&["a=1,2"]).expect("good axes");
        let text = serde_json::to_string(&one).expect("JSON");
        assert_eq!(text, r#"{"key":"a","values":["1","2"]}"#);
        let several = axes(&["a=1,2", "b=3"]).expect("good axes");
        for axes in [one, several] {
            let text = serde_json::to_string(&axes).expect("JSON");
            assert_eq!(serde_json::from_str::<Axes>(&text).expect("axes"), axes);
        }
        let torn = r#"{"keys":["a","b"],"points":[["1"]]}"#;
        assert!(serde_json::from_str::<Axes>(torn).is_err());
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_people_type_panics(text in "[0-9a-c., =()\\[\\]\"*stepu-]{0,30}") {
            if let Ok(axis) = text.parse::<Axis>() {
                let _ = Axes::cross(&[axis]).map(|axes| axes.by_key());
            }
        }
    }
}
