//! Reading keys: each value with the line it stands on, and each fault with what was expected.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use barewire_units::ParseError;
use toml::de::{DeTable, DeValue};

use super::keys::KEYS;

/// Something wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// Line from 1, if it can be told.
    pub line: Option<usize>,
    /// `section.key`, if it is about one.
    pub key: String,
    /// The value as it stands there.
    pub found: String,
    /// What is wrong, or what should stand there.
    pub expected: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        match (self.key.is_empty(), self.found.is_empty()) {
            (true, _) => write!(f, "{}", self.expected),
            (false, true) => write!(f, "{}: {}", self.key, self.expected),
            (false, false) => write!(f, "{} = {}: {}", self.key, self.found, self.expected),
        }
    }
}

#[derive(Clone, Debug)]
struct Value {
    line: Option<usize>,
    /// As it stands in the file.
    literal: String,
    given: Given,
}

#[derive(Clone, Debug)]
enum Given {
    Text(String),
    Integer(String),
    Float(String),
    Flag(bool),
    List(Vec<String>),
    Other,
}

/// A file, taken apart.
pub(super) struct Reader {
    file: String,
    values: BTreeMap<(String, String), Value>,
    pub faults: Vec<Fault>,
}

impl Reader {
    /// Defaults, and over them what stands in the text.
    pub fn new(text: &str, file: &str) -> Self {
        let mut reader = Self {
            file: file.to_owned(),
            values: BTreeMap::new(),
            faults: Vec::new(),
        };
        for key in KEYS {
            let literal = format!("k = {}", key.default);
            let table = DeTable::parse(&literal).ok();
            let given = table.and_then(|it| it.get_ref().get("k").map(|it| given(it.get_ref())));
            let value = Value {
                line: None,
                literal: key.default.to_owned(),
                given: given.unwrap_or(Given::Other),
            };
            reader
                .values
                .insert((key.section.to_owned(), key.name.to_owned()), value);
        }
        reader.read(text);
        reader
    }

    fn read(&mut self, text: &str) {
        let root = match DeTable::parse(text) {
            Ok(root) => root,
            Err(error) => {
                let line = error.span().map(|span| line_of(text, span.start));
                let what = format!("not TOML: {}", error.message().replace('\n', ", "));
                self.fault_at(line, "", "", what);
                return;
            }
        };
        for (section, value) in root.get_ref() {
            let name: &str = section.get_ref();
            let line = Some(line_of(text, section.span().start));
            if !KEYS.iter().any(|key| key.section == name) {
                let known = KEYS.iter().map(|key| key.section);
                let what = format!("no such section{}", suggestion(name, known));
                self.fault_at(line, name, "", what);
                continue;
            }
            let DeValue::Table(table) = value.get_ref() else {
                let what = format!("expected a section: [{name}], and its keys below");
                self.fault_at(line, name, "", what);
                continue;
            };
            for (key, value) in table {
                let name_of_key: &str = key.get_ref();
                let line = Some(line_of(text, key.span().start));
                let literal = text.get(value.span()).unwrap_or("").to_owned();
                let place = (name.to_owned(), name_of_key.to_owned());
                if !self.values.contains_key(&place) {
                    let known = KEYS.iter().filter(|it| it.section == name);
                    let hint = suggestion(name_of_key, known.map(|it| it.name));
                    let full = format!("{name}.{name_of_key}");
                    self.fault_at(line, &full, &literal, format!("no such key{hint}"));
                    continue;
                }
                let given = given(value.get_ref());
                let value = Value {
                    line,
                    literal,
                    given,
                };
                self.values.insert(place, value);
            }
        }
    }

    fn fault_at(&mut self, line: Option<usize>, key: &str, found: &str, expected: String) {
        self.faults.push(Fault {
            file: self.file.clone(),
            line,
            key: key.to_owned(),
            found: found.to_owned(),
            expected,
        });
    }

    /// Faults the value of a key.
    pub fn fault(&mut self, section: &str, key: &str, expected: impl Into<String>) {
        let value = self.values.get(&(section.to_owned(), key.to_owned()));
        let (line, found) = value.map_or((None, String::new()), |it| (it.line, it.literal.clone()));
        self.fault_at(line, &format!("{section}.{key}"), &found, expected.into());
    }

    fn given(&self, section: &str, key: &str) -> Given {
        let value = self.values.get(&(section.to_owned(), key.to_owned()));
        value.map_or(Given::Other, |it| it.given.clone())
    }

    /// Any text.
    pub fn text(&mut self, section: &str, key: &str) -> String {
        if let Given::Text(text) = self.given(section, key) {
            return text;
        }
        self.fault(section, key, "expected text in quotation marks");
        String::new()
    }

    /// A quantity with its unit.
    pub fn quantity<T>(&mut self, section: &str, key: &str, kind: &str, example: &str) -> Option<T>
    where
        T: FromStr<Err = ParseError>,
    {
        let wanted = format!("expected a {kind} with its unit, such as \"{example}\"");
        let Given::Text(text) = self.given(section, key) else {
            self.fault(section, key, wanted);
            return None;
        };
        match text.parse() {
            Ok(quantity) => Some(quantity),
            Err(error) => {
                self.fault(section, key, format!("{error}; {wanted}"));
                None
            }
        }
    }

    /// A number alone is no quantity, but for 0: what takes bytes elsewhere without a unit.
    pub fn demand_unit(&mut self, section: &str, key: &str, kind: &str, example: &str) {
        if let Given::Text(text) = self.given(section, key) {
            let text = text.trim();
            if text != "0" && text.ends_with(|it: char| it.is_ascii_digit()) {
                let wanted = format!("expected a {kind} with its unit, such as \"{example}\"");
                self.fault(section, key, wanted);
            }
        }
    }

    /// A whole number within bounds.
    pub fn number(&mut self, section: &str, key: &str, least: u64, most: u64) -> u64 {
        let number = match self.given(section, key) {
            Given::Integer(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|it| (least..=most).contains(it));
        number.unwrap_or_else(|| {
            let wanted = format!("expected a whole number, {least} to {most}");
            self.fault(section, key, wanted);
            least
        })
    }

    /// A number within bounds.
    pub fn fraction(&mut self, section: &str, key: &str, least: f64, most: f64) -> f64 {
        let number = match self.given(section, key) {
            Given::Integer(text) | Given::Float(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|it| (least..=most).contains(it));
        number.unwrap_or_else(|| {
            self.fault(
                section,
                key,
                format!("expected a number, {least} to {most}"),
            );
            least
        })
    }

    /// `true` or `false`.
    pub fn flag(&mut self, section: &str, key: &str) -> bool {
        if let Given::Flag(flag) = self.given(section, key) {
            return flag;
        }
        self.fault(section, key, "expected true or false");
        false
    }

    /// A list of texts, or one text.
    pub fn list(&mut self, section: &str, key: &str) -> Vec<String> {
        match self.given(section, key) {
            Given::List(list) => list,
            Given::Text(text) => vec![text],
            _ => {
                self.fault(section, key, "expected a list of texts");
                Vec::new()
            }
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(&mut self, section: &str, key: &str, choices: &[(&str, T)]) -> T {
        let given = match self.given(section, key) {
            Given::Text(text) => text,
            _ => String::new(),
        };
        if let Some(&(_, choice)) = choices.iter().find(|(word, _)| *word == given) {
            return choice;
        }
        let words: Vec<_> = choices
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        let hint = suggestion(&given, choices.iter().map(|(word, _)| *word));
        let wanted = format!("expected one of {}{hint}", words.join(", "));
        self.fault(section, key, wanted);
        choices[0].1
    }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => {
            Given::Integer(number.as_str().to_owned())
        }
        DeValue::Float(number) => Given::Float(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Given::Flag(*flag),
        DeValue::Array(array) => {
            let texts = array.iter().map(|it| match it.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts
                .collect::<Option<_>>()
                .map_or(Given::Other, Given::List)
        }
        _ => Given::Other,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known
        .map(|it| (strsim::damerau_levenshtein(word, it), it))
        .min();
    match near {
        Some((distance, it)) if distance <= 2 => format!("; did you mean `{it}`?"),
        _ => String::new(),
    }
}
