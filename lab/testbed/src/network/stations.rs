//! Hosts with their cards, as a description gives them: the parameters of the workbench, each
//! from the first of these that has it: the host's or card's own keys, the fragment that it is
//! `like`, the workbench's own values.

use barewire_models::workbench::Framing;
use toml::{Table, Value};

use super::faults::Faults;
use super::fields::{Fields, in_words};
use crate::error::SystemError;
use crate::system::System as _;
use crate::workbench;
use crate::workbench::parameters::Parameters;
use crate::workbench::presets;

/// Tables of the workbench that a host's keys stand in, and a card's.
const OF_HOST: [&str; 1] = ["host"];
const OF_CARD: [&str; 4] = ["card", "notice", "driver", "link"];
/// Keys of a host or card that are no parameters.
pub(super) const HOST_KEYS: [&str; 5] = ["like", "count", "about", "forwards", "forward_buffer"];
pub(super) const CARD_KEYS: [&str; 3] = ["host", "like", "about"];

/// What is put together: the workbench's parameters as TOML, and which key each change is from.
#[derive(Clone)]
pub(super) struct Recipe {
    whole: Table,
    /// Path in the whole, and the key in the description.
    own: Vec<(Vec<String>, String)>,
}

/// Names of fragments: those of cards begin with `card-`.
pub(super) fn fragments(cards: bool) -> Vec<&'static str> {
    let names = presets::ALL.iter().map(|(name, _)| *name);
    names
        .filter(|name| name.starts_with("card-") == cards)
        .collect()
}

impl Recipe {
    /// The workbench's own parameters.
    pub(super) fn new() -> Self {
        // A built-in text is TOML: a test reads it.
        let whole = toml::from_str(workbench::System.parameters()).unwrap_or_default();
        Self {
            whole,
            own: Vec::new(),
        }
    }

    /// What a host's fields change.
    pub(super) fn host(&mut self, fields: &Fields<'_>, faults: &mut Faults) {
        self.like(fields, false, faults);
        let rest = rest_without(fields, &HOST_KEYS);
        self.change(fields, &rest, &OF_HOST, faults);
    }

    /// What a card's fields change.
    pub(super) fn card(&mut self, fields: &Fields<'_>, faults: &mut Faults) {
        self.like(fields, true, faults);
        let rest = rest_without(fields, &CARD_KEYS);
        self.change(fields, &rest, &OF_CARD, faults);
    }

    fn like(&mut self, fields: &Fields<'_>, card: bool, faults: &mut Faults) {
        let Some(name) = fields.maybe::<String>("like", faults) else {
            return;
        };
        let known = fragments(card);
        if !known.contains(&name.as_str()) {
            let what = if card { "card" } else { "host" };
            faults.unknown(fields.at("like"), what, &name, known);
            return;
        }
        let text = presets::ALL.iter().find(|(known, _)| *known == name);
        let fragment = text.and_then(|(_, text)| toml::from_str::<Table>(text).ok());
        if let Some(Value::Table(changes)) = fragment.as_ref().and_then(|it| it.get("parameters")) {
            presets::put(&mut self.whole, changes);
        }
    }

    /// Puts own keys in: those of the first table stand by themselves, those of the others below
    /// its name.
    fn change(&mut self, fields: &Fields<'_>, rest: &Table, tables: &[&str], faults: &mut Faults) {
        for (key, value) in rest {
            let other = tables[1..].contains(&key.as_str());
            let path = match other {
                true => vec![key.clone()],
                false => vec![tables[0].to_owned(), key.clone()],
            };
            self.change_at(path, value, fields.at(key), faults);
        }
    }

    fn change_at(&mut self, path: Vec<String>, value: &Value, at: String, faults: &mut Faults) {
        let Some(known) = find(&self.whole, &path) else {
            let (name, above) = path
                .split_last()
                .map_or(("", &path[..]), |(name, above)| (name.as_str(), above));
            let there = find(&self.whole, above).and_then(Value::as_table);
            let mut names: Vec<String> = there.into_iter().flat_map(Table::keys).cloned().collect();
            if above == ["card"] {
                names.extend(OF_CARD[1..].iter().map(|&name| name.to_owned()));
            }
            let names = names.iter().map(String::as_str);
            faults.unknown(at, "key", name, names);
            return;
        };
        match (known, value) {
            (Value::Table(_), Value::Table(table)) => {
                for (key, value) in table {
                    let mut path = path.clone();
                    path.push(key.clone());
                    self.change_at(path, value, format!("{at}.{key}"), faults);
                }
            }
            (Value::Table(table), _) => {
                let keys: Vec<&str> = table.keys().map(String::as_str).collect();
                let problem = format!("expected a table with keys of: {}", keys.join(", "));
                faults.add(at, problem);
            }
            (known, value) if known.type_str() != value.type_str() => {
                let kind = known.type_str();
                faults.add(at, format!("expected {kind} as in `{known}`"));
            }
            _ => self.put(path, value, at),
        }
    }

    fn put(&mut self, path: Vec<String>, value: &Value, at: String) {
        set(&mut self.whole, &path, value.clone());
        self.own.push((path, at));
    }

    /// The parameters; `owners` are the tables of host and card, for what no key of theirs is to
    /// blame for.
    pub(super) fn finish(
        &self,
        (host, card): (&str, &str),
        faults: &mut Faults,
    ) -> Option<Parameters> {
        let error = match Parameters::parse(&self.whole.to_string()) {
            Ok(parameters) => return Some(parameters),
            Err(error) => error,
        };
        match &error {
            SystemError::Contradiction(text) => {
                let key = text.split(':').next().unwrap_or_default();
                let path: Vec<String> = key.split('.').map(str::to_owned).collect();
                let own = self.own.iter().rev().find(|(own, _)| *own == path);
                let owner = if key.starts_with("host") { host } else { card };
                let at = own.map_or(owner, |(_, at)| at.as_str());
                faults.add(at, text.clone());
            }
            error => {
                if !self.blame_each(faults) {
                    faults.add(card, error.to_string());
                }
            }
        }
        None
    }

    /// Looks for own values that cannot be read, each by itself; whether there are any.
    fn blame_each(&self, faults: &mut Faults) -> bool {
        let mut found = false;
        for (path, at) in &self.own {
            let mut alone = Self::new().whole;
            let Some(value) = find(&self.whole, path) else {
                continue;
            };
            set(&mut alone, path, value.clone());
            let error = match Parameters::parse(&alone.to_string()) {
                Err(SystemError::Parameters(error)) => in_words(&error),
                _ => continue,
            };
            found = true;
            faults.add(at.clone(), error);
        }
        found
    }
}

fn rest_without(fields: &Fields<'_>, names: &[&str]) -> Table {
    let mut rest = fields.rest();
    rest.retain(|key, _| !names.contains(&key));
    rest
}

fn find<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    match rest {
        [] => Some(value),
        rest => find(value.as_table()?, rest),
    }
}

fn set(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                set(inner, rest, value);
            }
        }
    }
}

/// What a line carries, as it is compared: a port of one kind goes with no port of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortKind {
    pub payload_bytes: u64,
    pub least_bytes: u64,
    pub overhead_bytes: u64,
    pub trailer_bytes: u64,
}

impl PortKind {
    pub(super) const fn of(framing: &Framing) -> Self {
        Self {
            payload_bytes: framing.payload_bytes,
            least_bytes: framing.least_bytes,
            overhead_bytes: framing.overhead_bytes,
            trailer_bytes: framing.trailer_bytes,
        }
    }
}

impl std::fmt::Display for PortKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            payload_bytes,
            least_bytes,
            overhead_bytes,
            trailer_bytes,
        } = self;
        match least_bytes == payload_bytes {
            true => write!(f, "cells of {payload_bytes} B")?,
            false => write!(f, "frames of up to {payload_bytes} B")?,
        }
        write!(f, " with {overhead_bytes} B around")?;
        match trailer_bytes {
            0 => Ok(()),
            trailer => write!(f, " and {trailer} B behind each message part"),
        }
    }
}
