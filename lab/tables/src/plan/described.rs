//! Plans that describe a network of their own: their parameters are what they say, and stand over
//! no defaults. Whatever is wrong is found at the line where its key stands.

use barewire_testbed::{Fault as Found, System, SystemError};
use toml::{Table, Value};

use super::document::{Entry, Given, Heading, Section};
use super::reason::reason;
use super::{Changed, Fault, Place};
use crate::parameters::{literal_value, set};
use crate::suggest;

/// The network of `entries`, as TOML, and what later entries have changed in earlier ones.
pub(super) fn put(
    system: &dyn System,
    entries: &[Entry],
    headings: &[Heading],
) -> Result<(String, Vec<Changed>), Vec<Fault>> {
    let mut whole = Table::new();
    let (mut changes, mut faults) = (Vec::new(), Vec::new());
    for heading in headings {
        // Without a key below it, it is a table all the same.
        let path: Vec<&str> = heading.key.split('.').collect();
        let _already = insert(&mut whole, &path, None);
    }
    for entry in entries {
        let path: Vec<&str> = entry.key.split('.').collect();
        let before = at(&whole, &path).cloned();
        let value = match value_of(&entry.given, before.as_ref()) {
            Some(value) => value,
            None => {
                faults.push(entry.fault("no value of TOML"));
                continue;
            }
        };
        if before.as_ref() == Some(&value) {
            continue;
        }
        let text = value.to_string();
        if insert(&mut whole, &path, Some(value)).is_err() {
            faults.push(entry.fault("a key above it has a value, and is no table"));
            continue;
        }
        // What the plan itself says is no change.
        if before.is_some() || entry.place.line.is_none() {
            changes.push(Changed {
                key: entry.key.clone(),
                value: text,
                was: before.map_or_else(|| "not given".to_owned(), |value| value.to_string()),
                from: entry.place.to_string(),
            });
        }
    }
    match faults.is_empty() {
        true => Ok((written(system, &whole), changes)),
        false => Err(faults),
    }
}

/// A value as it was given; where one stands already, of its type.
fn value_of(given: &Given, before: Option<&Value>) -> Option<Value> {
    match given {
        Given::Literal(literal) => literal_value(literal),
        Given::Bare(text) => {
            let typed = before.and_then(|before| {
                let line = format!("value = {before}");
                let line = set(&line, "value", text).ok()?;
                literal_value(line.strip_prefix("value = ")?)
            });
            let literal = || literal_value(text).unwrap_or_else(|| Value::from(text.clone()));
            Some(typed.unwrap_or_else(literal))
        }
    }
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    match rest {
        [] => Some(value),
        rest => at(value.as_table()?, rest),
    }
}

/// Puts a value, or a table if there is none, in its place.
fn insert(table: &mut Table, path: &[&str], value: Option<Value>) -> Result<(), ()> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(());
    };
    match (rest, value) {
        ([], Some(value)) => {
            table.insert((*first).to_owned(), value);
            Ok(())
        }
        (rest, value) => {
            let inner = table
                .entry((*first).to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => insert(inner, rest, value),
                _ => Err(()),
            }
        }
    }
}

/// The sections in the system's order, each table under its own heading.
fn written(system: &dyn System, whole: &Table) -> String {
    let mut out = String::new();
    let known = system.sections().iter().copied();
    let others = whole.keys().map(String::as_str);
    let others = others.filter(|key| !system.sections().contains(key));
    for section in known.chain(others) {
        let Some(value) = whole.get(section) else {
            continue;
        };
        let parts: Vec<Value> = match value {
            Value::Table(table) => {
                let one = |(name, value): (&String, &Value)| {
                    Value::Table(Table::from_iter([(name.clone(), value.clone())]))
                };
                table.iter().map(one).collect()
            }
            other => vec![other.clone()],
        };
        for part in parts {
            let part = Table::from_iter([(section.to_owned(), part)]);
            let text = toml::to_string(&part).unwrap_or_default();
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&text);
        }
    }
    out
}

/// What is wrong with the network, at the places that say so.
pub(super) fn faults_of(
    place: &Place,
    error: &SystemError,
    entries: &[Entry],
    headings: &[Heading],
) -> Vec<Fault> {
    let SystemError::Faults(found) = error else {
        return vec![Fault {
            place: place.clone(),
            entry: String::new(),
            problem: reason(error),
        }];
    };
    let fault = |found: &Found| fault_of(place, found, entries, headings);
    found.iter().map(fault).collect()
}

fn fault_of(whole: &Place, found: &Found, entries: &[Entry], headings: &[Heading]) -> Fault {
    let problem = match &found.meant {
        Some((name, known)) => {
            let expected = suggest::expected(name, known.iter().map(String::as_str));
            format!("{}; {expected}", found.problem)
        }
        None => found.problem.clone(),
    };
    let key = found.key.as_str();
    if let Some(entry) = entries.iter().rev().find(|entry| entry.key == key) {
        let fault = entry.fault(problem);
        let own = fault.entry.strip_prefix("parameters.");
        let entry = own.unwrap_or(&fault.entry).to_owned();
        return Fault { entry, ..fault };
    }
    let below = format!("{key}.");
    let heading = headings.iter().find(|heading| heading.key == key);
    let first_below = || entries.iter().find(|entry| entry.key.starts_with(&below));
    let heading_below = || {
        let mut headings = headings.iter();
        headings.find(|heading| heading.key.starts_with(&below))
    };
    let place = heading
        .map(|heading| heading.place.clone())
        .or_else(|| first_below().map(|entry| entry.place.clone()))
        .or_else(|| heading_below().map(|heading| heading.place.clone()))
        .or_else(|| above(key, entries, headings))
        .unwrap_or_else(|| whole.clone());
    Fault {
        place,
        entry: key.to_owned(),
        problem,
    }
}

/// Where the nearest table or value around a key stands.
fn above(key: &str, entries: &[Entry], headings: &[Heading]) -> Option<Place> {
    let mut key = key;
    while let Some((shorter, _)) = key.rsplit_once('.') {
        key = shorter;
        let entry = entries.iter().rev().find(|entry| entry.key == key);
        let heading = headings.iter().find(|heading| heading.key == key);
        let place = entry
            .map(|entry| entry.place.clone())
            .or_else(|| heading.map(|heading| heading.place.clone()));
        if place.is_some() {
            return place;
        }
    }
    None
}

/// Entries of sections: those that describe the network, and others.
pub(super) fn of_network(entries: &[Entry]) -> Vec<Entry> {
    let own = |entry: &&Entry| entry.section == Section::Parameters;
    entries.iter().filter(own).cloned().collect()
}
