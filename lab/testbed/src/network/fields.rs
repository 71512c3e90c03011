//! A table of the description, read key by key: what is missing or of another kind is noted, and
//! a default taken, so that the other mistakes are found too.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::faults::Faults;

/// A table, and what has been read of it.
pub(super) struct Fields<'a> {
    /// Its own key: `hosts.a`.
    pub key: String,
    table: &'a Table,
    read: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(key: String, table: &'a Table) -> Self {
        Self {
            key,
            table,
            read: RefCell::new(Vec::new()),
        }
    }

    /// The key of one of its fields.
    pub(super) fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.key)
    }

    /// What stands at `name`, whatever it is.
    pub(super) fn value(&self, name: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().push(name);
        self.table.get(name)
    }

    /// A value that may be left out.
    pub(super) fn maybe<T: DeserializeOwned>(
        &self,
        name: &'static str,
        faults: &mut Faults,
    ) -> Option<T> {
        let value = self.value(name)?;
        match value.clone().try_into() {
            Ok(value) => Some(value),
            Err(error) => {
                faults.add(self.at(name), in_words(&error));
                None
            }
        }
    }

    /// A value, or what it is if left out.
    pub(super) fn or<T: DeserializeOwned>(
        &self,
        name: &'static str,
        default: T,
        faults: &mut Faults,
    ) -> T {
        self.maybe(name, faults).unwrap_or(default)
    }

    /// The same within bounds.
    pub(super) fn within<T: DeserializeOwned + PartialOrd + Display + Clone>(
        &self,
        name: &'static str,
        default: T,
        allowed: RangeInclusive<T>,
        faults: &mut Faults,
    ) -> T {
        let value = self.or(name, default.clone(), faults);
        if allowed.contains(&value) {
            return value;
        }
        let (low, high) = allowed.into_inner();
        let problem = format!("found {value}, expected {low} to {high}");
        faults.add(self.at(name), problem);
        default
    }

    /// A text that must be there.
    pub(super) fn text(&self, name: &'static str, what: &str, faults: &mut Faults) -> String {
        if self.table.get(name).is_none() {
            self.value(name);
            faults.add(self.key.clone(), format!("no `{name}`; expected {what}"));
            return String::new();
        }
        self.or(name, String::new(), faults)
    }

    /// Names: one as text, or a list of them.
    pub(super) fn names(&self, name: &'static str, what: &str, faults: &mut Faults) -> Vec<String> {
        match self.table.get(name) {
            Some(Value::String(one)) => {
                self.value(name);
                vec![one.clone()]
            }
            Some(_) => self.or(name, Vec::new(), faults),
            None => {
                self.value(name);
                faults.add(self.key.clone(), format!("no `{name}`; expected {what}"));
                Vec::new()
            }
        }
    }

    /// What has not been read, with its keys.
    pub(super) fn rest(&self) -> Table {
        let read = self.read.borrow();
        let rest = self.table.iter();
        rest.filter(|(key, _)| !read.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Notes the keys that have not been read.
    pub(super) fn done(&self, faults: &mut Faults) {
        let known = self.read.borrow().clone();
        for key in self.rest().keys() {
            faults.unknown(self.at(key), "key", key, known.iter().copied());
        }
    }
}

/// What a reader of TOML says, without the names of Rust's types.
pub(super) fn in_words(error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let types = [
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected f64", "expected a number"),
        ("expected a string", "expected text in quotation marks"),
    ];
    let found = types.iter().find(|(name, _)| message.ends_with(name));
    found.map_or_else(
        || message.clone(),
        |(name, words)| message.replace(name, words),
    )
}

/// The tables of one section: key, name and fields of each.
pub(super) fn tables<'a>(
    whole: &'a Table,
    section: &str,
    faults: &mut Faults,
) -> Vec<(String, Fields<'a>)> {
    let Some(value) = whole.get(section) else {
        return Vec::new();
    };
    let Value::Table(table) = value else {
        faults.add(section, format!("expected tables: [{section}.NAME]"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in table {
        let key = format!("{section}.{name}");
        match value {
            Value::Table(fields) => {
                let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if name.is_empty() || !name.chars().all(is_letter) {
                    faults.add(
                        key.clone(),
                        "a name has letters, digits, `-` and `_`, and nothing else",
                    );
                }
                found.push((name.clone(), Fields::new(key, fields)));
            }
            _ => faults.add(key, format!("expected a table: [{section}.{name}]")),
        }
    }
    found
}
