//! A system's parameter file: what each value is and where it is from, and how a value
//! is replaced without disturbing the lines, so that errors still name the right one.

use std::fmt::Write;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::over::at_commas;

/// A value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key with those of the tables around it: `station.cell_copy`.
    pub key: String,
    /// The value as it stands in the file.
    pub value: String,
    /// Its line, from 1.
    pub line: usize,
    /// The comment beside it, or above it and those it stands with, or above its table.
    pub source: String,
}

/// Why a value cannot be listed or replaced.
#[derive(Debug, thiserror::Error)]
pub enum ParameterError {
    /// The file is no TOML.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// No such key.
    #[error("no key `{missing}` {place}; expected one of: {known}")]
    NoKey {
        /// The part of the key that is missing.
        missing: String,
        /// Where it was looked for.
        place: String,
        /// What is there.
        known: String,
    },
    /// A table where a value is wanted.
    #[error("`{key}` (line {line}) is a table; expected a key in it: {known}")]
    Table {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
        /// What is in the table.
        known: String,
    },
    /// A value of another type.
    #[error("`{key}` (line {line}): expected {expected} as in `{current}`, found `{found}`")]
    Type {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
        /// The type of the value in the file.
        expected: String,
        /// The value in the file.
        current: String,
        /// What should have replaced it.
        found: String,
    },
}

/// Every value of a file, in its order.
///
/// # Errors
///
/// A text that is no TOML.
pub fn list(text: &str) -> Result<Vec<Parameter>, ParameterError> {
    let root = DeTable::parse(text)?;
    let mut found = Vec::new();
    for (key, value) in root.get_ref() {
        let name = key.get_ref().to_string();
        collect(text, name, key.span().start, value, "", &mut found);
    }
    found.sort_by_key(|(start, _)| *start);
    Ok(found.into_iter().map(|(_, parameter)| parameter).collect())
}

fn collect(
    text: &str,
    name: String,
    start: usize,
    value: &Spanned<DeValue<'_>>,
    inherited: &str,
    found: &mut Vec<(usize, Parameter)>,
) {
    let span = value.span();
    match value.get_ref() {
        DeValue::Table(table) => {
            let own = comment_above(text, start);
            let inherited = if own.is_empty() { inherited } else { &own };
            for (key, value) in table {
                let name = format!("{name}.{}", key.get_ref());
                collect(text, name, key.span().start, value, inherited, found);
            }
        }
        DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
            for (index, item) in items.iter().enumerate() {
                let name = format!("{name}.{index}");
                collect(text, name, item.span().start, item, inherited, found);
            }
        }
        _ => {
            let source = [
                comment_beside(text, span.end),
                comment_above(text, start),
                inherited.to_owned(),
            ];
            let parameter = Parameter {
                key: name,
                value: text[span.clone()].to_owned(),
                line: line_of(text, span.start),
                source: source
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .unwrap_or_default(),
            };
            found.push((span.start, parameter));
        }
    }
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The comment after a value on its line, with the indented ones that continue it.
fn comment_beside(text: &str, end: usize) -> String {
    let mut lines = text[end..].lines();
    let first = lines
        .next()
        .and_then(|rest| rest.find('#').map(|at| &rest[at..]));
    let Some(first) = first else {
        return String::new();
    };
    let more = lines
        .take_while(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('#'));
    without_marks(std::iter::once(first).chain(more))
}

/// The comment lines above a key, or above the keys that it stands with: a comment is
/// good for all keys below it up to an empty line, another comment or another table.
/// For a table, only those right above it.
fn comment_above(text: &str, start: usize) -> String {
    let lines: Vec<&str> = text.lines().take(line_of(text, start)).collect();
    let Some((own, above)) = lines.split_last() else {
        return String::new();
    };
    let is_table = own.starts_with('[');
    let is_key = |line: &&&str| !line.is_empty() && !line.starts_with(['#', '[']);
    let between = above.iter().rev().take_while(is_key).count();
    if is_table && between > 0 {
        return String::new();
    }
    let above = &above[..above.len() - between];
    let comment = above.iter().rev().take_while(|line| line.starts_with('#'));
    let first = above.len() - comment.count();
    without_marks(above[first..].iter().copied())
}

fn without_marks<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = lines
        .map(|line| line.trim().trim_start_matches('#').trim())
        .collect();
    words.join(" ").trim().to_owned()
}

/// The text with one value replaced. Text needs no quotation marks around it, and a list no
/// brackets; whether it has the right unit is seen when the system reads it.
///
/// # Errors
///
/// A key that is not in the file, or a value of another type than the one there.
pub fn set(text: &str, key: &str, value: &str) -> Result<String, ParameterError> {
    replace(text, key, value, |old| match old {
        DeValue::String(_) => Some(quoted(value)),
        DeValue::Array(items) if !value.trim_start().starts_with('[') => {
            let is_of_text = items.first().is_some_and(|item| item.get_ref().is_str());
            let item = |item: &str| match is_of_text {
                true => quoted(item.trim()),
                false => item.to_owned(),
            };
            let items: Vec<String> = at_commas(value).into_iter().map(item).collect();
            literal_like(old, &format!("[{}]", items.join(",")))
        }
        _ => literal_like(old, value),
    })
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// The text with one value replaced by `literal`, which is TOML: text stands in quotation
/// marks.
///
/// # Errors
///
/// A key that is not in the file, or a value of another type than the one there.
pub fn set_literal(text: &str, key: &str, literal: &str) -> Result<String, ParameterError> {
    replace(text, key, literal, |old| literal_like(old, literal))
}

fn replace(
    text: &str,
    key: &str,
    value: &str,
    literal: impl Fn(&DeValue<'_>) -> Option<String>,
) -> Result<String, ParameterError> {
    let root = DeTable::parse(text)?;
    let old = find(text, root.get_ref(), key)?;
    let span = old.span();
    let line = line_of(text, span.start);
    if let Some(known) = keys_inside(text, old) {
        return Err(ParameterError::Table {
            key: key.to_owned(),
            line,
            known,
        });
    }
    let literal = literal(old.get_ref()).ok_or_else(|| ParameterError::Type {
        key: key.to_owned(),
        line,
        expected: article(old.get_ref().type_str()),
        current: text[span.clone()].to_owned(),
        found: value.to_owned(),
    })?;
    Ok([&text[..span.start], &literal, &text[span.end..]].concat())
}

/// What is in a table, or in a list of tables with a heading each, which have no one place
/// that a value could be put at.
fn keys_inside(text: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::Table(table) => Some(keys(table)),
        DeValue::Array(items) if !is_inline(text, value) => {
            Some(format!("the numbers below {}", items.len()))
        }
        _ => None,
    }
}

/// Whether a list stands in one place, and not in tables with a heading each.
pub(crate) fn is_inline(text: &str, value: &Spanned<DeValue<'_>>) -> bool {
    literal_value(&text[value.span()]).is_some_and(|value| value.is_array())
}

/// A literal as a value, if it is one.
pub(crate) fn literal_value(literal: &str) -> Option<toml::Value> {
    let mut table: toml::Table = toml::from_str(&format!("value = {literal}")).ok()?;
    (table.len() == 1).then(|| table.remove("value")).flatten()
}

/// The text with a remark beside one value, before the comment that stands there. A value
/// that more follows on its line gets none.
pub(crate) fn remark(text: &str, key: &str, remark: &str) -> String {
    let place = DeTable::parse(text)
        .ok()
        .and_then(|root| Some(find(text, root.get_ref(), key).ok()?.span().end));
    let Some((before, after)) = place.map(|end| text.split_at(end)) else {
        return text.to_owned();
    };
    let line = after.lines().next().unwrap_or_default().trim_start();
    match line.strip_prefix('#') {
        _ if line.is_empty() => format!("{before}  # {remark}{after}"),
        Some(comment) => {
            let rest = &after[after.find('#').unwrap_or(0) + 1 + comment.len()..];
            format!("{before}  # {remark};{comment}{rest}")
        }
        None => text.to_owned(),
    }
}

/// What stands at a key, as TOML.
pub(crate) fn literal_at(text: &str, key: &str) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    let span = find(text, root.get_ref(), key).ok()?.span();
    Some(text[span].to_owned())
}

fn find<'a, 't>(
    text: &str,
    root: &'a DeTable<'t>,
    key: &str,
) -> Result<&'a Spanned<DeValue<'t>>, ParameterError> {
    let mut passed = String::new();
    let mut place = "in the parameters".to_owned();
    let mut known = keys(root);
    let mut found: Option<&Spanned<DeValue<'t>>> = None;
    for part in key.split('.') {
        let next = match found.map(Spanned::get_ref) {
            None => member(root, part),
            Some(DeValue::Table(table)) => member(table, part),
            Some(DeValue::Array(items)) => part
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index))
                .map(|item| (item.span().start, item)),
            Some(_) => None,
        };
        let Some((start, value)) = next else {
            return Err(ParameterError::NoKey {
                missing: part.to_owned(),
                place,
                known,
            });
        };
        if !passed.is_empty() {
            passed.push('.');
        }
        passed.push_str(part);
        place = format!("in `{passed}` (line {})", line_of(text, start));
        known = match value.get_ref() {
            DeValue::Table(table) => keys(table),
            DeValue::Array(items) => format!("the numbers below {}", items.len()),
            _ => format!("none, for it is {}", article(value.get_ref().type_str())),
        };
        found = Some(value);
    }
    found.ok_or_else(|| ParameterError::NoKey {
        missing: key.to_owned(),
        place,
        known,
    })
}

fn member<'a, 't>(table: &'a DeTable<'t>, name: &str) -> Option<(usize, &'a Spanned<DeValue<'t>>)> {
    table
        .iter()
        .find(|(key, _)| key.get_ref() == name)
        .map(|(key, value)| (key.span().start, value))
}

fn keys(table: &DeTable<'_>) -> String {
    let mut out = String::new();
    for (index, key) in table.keys().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(out, "{comma}{}", key.get_ref());
    }
    out
}

fn article(type_name: &str) -> String {
    match type_name {
        "string" => "a text".to_owned(),
        "integer" | "array" => format!("an {type_name}"),
        _ => format!("a {type_name}"),
    }
}

/// The literal as TOML of the type of `old`; `None` if it is of another type.
fn literal_like(old: &DeValue<'_>, literal: &str) -> Option<String> {
    let new = match (literal_value(literal)?, old) {
        (toml::Value::Integer(whole), DeValue::Float(_)) => toml::Value::Float(whole as f64),
        (new, _) => new,
    };
    (new.type_str() == old.type_str()).then(|| new.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "\
# The parameters of a test.

# cbn91 section 5
[ring]
frames = 7
rate = \"512 MHz\"  # measured
                    # at night

[host]
# Fitted on table-1,
# row 10.
copy = \"12 us\"
share = 0.5

busy = true
sizes = [1, 2]
names = [\"x\"]

[[machine]]
name = \"a\"
[[machine]]
name = \"b\"
cost = { setup = \"3 us\", each = \"1 us\" } # guessed
";

    fn refusal(key: &str, value: &str) -> String {
        set(FILE, key, value).unwrap_err().to_string()
    }

    #[test]
    fn every_value_is_listed_with_its_source() {
        let listed = list(FILE).unwrap();
        let seen: Vec<_> = listed
            .iter()
            .map(|it| {
                (
                    it.line,
                    it.key.as_str(),
                    it.value.as_str(),
                    it.source.as_str(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (5, "ring.frames", "7", "cbn91 section 5"),
                (6, "ring.rate", "\"512 MHz\"", "measured at night"),
                (12, "host.copy", "\"12 us\"", "Fitted on table-1, row 10."),
                (13, "host.share", "0.5", "Fitted on table-1, row 10."),
                (15, "host.busy", "true", ""),
                (16, "host.sizes", "[1, 2]", ""),
                (17, "host.names", "[\"x\"]", ""),
                (20, "machine.0.name", "\"a\"", ""),
                (22, "machine.1.name", "\"b\"", ""),
                (23, "machine.1.cost.setup", "\"3 us\"", "guessed"),
                (23, "machine.1.cost.each", "\"1 us\"", "guessed"),
            ]
        );
        assert!(list("").unwrap().is_empty());
        assert!(list("a = ").is_err());
    }

    #[test]
    fn one_value_is_replaced_and_nothing_else() {
        for (key, value, from, to) in [
            ("host.copy", "8 us", "\"12 us\"", "\"8 us\""),
            ("ring.frames", "14", "frames = 7", "frames = 14"),
            ("host.share", "1", "0.5", "1.0"),
            ("host.busy", "false", "true", "false"),
            ("host.sizes", "[3]", "[1, 2]", "[3]"),
            ("host.sizes", "3, 4", "[1, 2]", "[3, 4]"),
            ("host.names", "a,b c", "[\"x\"]", "[\"a\", \"b c\"]"),
            ("machine.1.name", "c", "\"b\"", "\"c\""),
            ("machine.1.cost.each", "2 us", "\"1 us\"", "\"2 us\""),
        ] {
            assert_eq!(
                set(FILE, key, value).unwrap(),
                FILE.replacen(from, to, 1),
                "{key}"
            );
        }
    }

    #[test]
    fn text_cannot_break_out_of_its_value() {
        let text = set(FILE, "host.copy", "8 us\"\nshare = \"9").unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["host"]["copy"].as_str(), Some("8 us\"\nshare = \"9"));
        assert!(set(FILE, "ring.frames", "8\nextra = 1").is_err());
    }

    proptest! {
        #[test]
        fn any_text_can_be_a_value_and_is_read_back(value: String) {
            let text = set(FILE, "host.copy", &value).unwrap();
            let mut changed: toml::Table = toml::from_str(&text).unwrap();
            prop_assert_eq!(changed["host"]["copy"].as_str(), Some(value.as_str()));
            changed["host"]["copy"] = "12 us".into();
            prop_assert_eq!(changed, toml::from_str::<toml::Table>(FILE).unwrap());
        }

        #[test]
        fn nothing_that_people_type_panics(text in "[a-c.=# \"\\[\\]{}0-9,\n]{0,40}", key in "[a-c.0-9]{0,8}") {
            let _ = list(&text);
            let _ = set(&text, &key, "1");
            let _ = set(FILE, &key, &text);
        }
    }

    #[test]
    fn a_wrong_key_is_named_with_its_place_and_what_is_there() {
        assert_eq!(
            refusal("rings.frames", "8"),
            "no key `rings` in the parameters; expected one of: host, machine, ring"
        );
        assert_eq!(
            refusal("ring.frame", "8"),
            "no key `frame` in `ring` (line 4); expected one of: frames, rate"
        );
        assert_eq!(
            refusal("machine.2.name", "c"),
            "no key `2` in `machine` (line 19); expected one of: the numbers below 2"
        );
        assert_eq!(
            refusal("host.copy.x", "1"),
            "no key `x` in `host.copy` (line 12); expected one of: none, for it is a text"
        );
        assert_eq!(
            refusal("host", "1"),
            "`host` (line 9) is a table; expected a key in it: busy, copy, names, share, sizes"
        );
        assert!(refusal("", "1").starts_with("no key ``"));
    }

    #[test]
    fn a_literal_is_of_the_type_that_is_there() {
        let good = set_literal(FILE, "host.copy", "\"8 us\"").unwrap();
        assert_eq!(good, set(FILE, "host.copy", "8 us").unwrap());
        for (key, literal) in [
            ("host.copy", "8"),
            ("ring.frames", "\"8\""),
            ("host.sizes", "3"),
            ("host.sizes", "[3"),
            ("ring.frames", "8\nextra = 1"),
        ] {
            let error = set_literal(FILE, key, literal).unwrap_err();
            assert!(matches!(error, ParameterError::Type { .. }), "{error}");
        }
        let error = set_literal(FILE, "machine", "[]").unwrap_err().to_string();
        assert!(
            error.contains("expected a key in it: the numbers below 2"),
            "{error}"
        );
    }

    #[test]
    fn a_remark_stands_beside_the_value_and_before_its_comment() {
        for (key, from, to) in [
            ("ring.frames", "frames = 7\n", "frames = 7  # new\n"),
            ("ring.rate", "\"  # measured\n", "\"  # new; measured\n"),
            ("host.sizes", "[1, 2]\n", "[1, 2]  # new\n"),
        ] {
            assert_eq!(
                remark(FILE, key, "new"),
                FILE.replacen(from, to, 1),
                "{key}"
            );
        }
        for key in ["machine.1.cost.setup", "no.such"] {
            assert_eq!(remark(FILE, key, "new"), FILE, "{key}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        assert_eq!(
            refusal("ring.frames", "many"),
            "`ring.frames` (line 5): expected an integer as in `7`, found `many`"
        );
        assert_eq!(
            refusal("ring.frames", "7.5"),
            "`ring.frames` (line 5): expected an integer as in `7`, found `7.5`"
        );
        assert!(refusal("host.busy", "1").contains("expected a boolean as in `true`"));
    }
}
