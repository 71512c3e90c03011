//! The text of a plan or of a fragment as entries, each with the place where it stands.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, Place};
use crate::parameters::{is_inline, line_of, literal_value};
use crate::report::Change;
use crate::suggest;

/// Keys above the sections.
pub(super) const HEAD: [&str; 5] = ["title", "system", "experiment", "seed", "replications"];
/// The longest text of a plan or a fragment. One of a kept result holds texts of up to 1 MiB.
pub(super) const TEXT_BYTES_MAX: usize = 8 << 20;
/// Keys of a text.
const KEYS_MAX: usize = 10_000;
/// Tables within tables.
const DEPTH_MAX: usize = 16;
/// Fragments of a plan.
const FRAGMENTS_MAX: usize = 64;
/// The key that names fragments.
const WITH: &str = "with";

/// What part of a plan an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Head,
    Inputs,
    Parameters,
}

impl Section {
    /// A key of this section as it is named in messages and on the command line.
    pub fn full(self, key: &str) -> String {
        match self {
            Self::Head => key.to_owned(),
            Self::Inputs => format!("inputs.{key}"),
            Self::Parameters => format!("parameters.{key}"),
        }
    }
}

/// A value as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// TOML, in a file.
    Literal(String),
    /// On a command line, where text has no quotation marks.
    Bare(String),
}

impl Given {
    pub fn text(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Bare(text) => text,
        }
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub section: Section,
    pub key: String,
    pub given: Given,
    pub place: Place,
}

impl Entry {
    pub fn fault(&self, problem: impl Into<String>) -> Fault {
        let value: Cow<'_, str> = match self.given.text() {
            long if long.chars().count() > 60 => {
                let start: String = long.chars().take(57).collect();
                Cow::Owned(start + "...")
            }
            short => Cow::Borrowed(short),
        };
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let key = self.section.full(&self.key);
        Fault {
            place: self.place.clone(),
            entry: match value.is_empty() {
                true => key,
                false => format!("{key} = {value}"),
            },
            problem: problem.into(),
        }
    }
}

/// A fragment that a plan asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// A file or the name of a built-in one.
    pub name: String,
    /// What a file is relative to.
    pub folder: PathBuf,
    pub place: Place,
}

/// Where a table is headed, or begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Its key, without its section's name in front: `hosts.a`.
    pub key: String,
    pub place: Place,
    /// It stands beside the sections, not below `[parameters]`.
    pub beside: bool,
}

/// A text, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// In the order of the text.
    pub entries: Vec<Entry>,
    pub with: Vec<Piece>,
    /// Keys above the sections that are none of [`HEAD`]; what to say of them depends on
    /// the experiment.
    pub strays: Vec<Entry>,
    /// What stands in tables beside the sections: the network that a plan describes, if its
    /// system has no parameters of its own.
    pub described: Vec<Entry>,
    /// The tables of the network, whether in that form or below `[parameters]`.
    pub headings: Vec<Heading>,
}

impl Document {
    /// Reads a text that is called `source` in messages; its fragments are looked for in
    /// `folder`.
    pub fn read(text: &str, source: &str, folder: &Path) -> Result<Document, Vec<Fault>> {
        let root = parse(text, source)?;
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        let mut reading = Reading {
            text,
            lines: std::iter::once(0).chain(behind).collect(),
            source,
            entries: Vec::new(),
            headings: Vec::new(),
            described: Vec::new(),
            beside: false,
            faults: Vec::new(),
        };
        let mut document = Document::default();
        let mut strays = Vec::new();
        for (key, value) in root.get_ref() {
            let name: &str = key.get_ref();
            let section = match name {
                "inputs" => Section::Inputs,
                "parameters" => Section::Parameters,
                WITH => {
                    document.with = reading.pieces(value, folder);
                    continue;
                }
                _ if HEAD.contains(&name) => {
                    let (at, entry) = reading.entry(Section::Head, name, value);
                    reading.entries.push((at, entry));
                    continue;
                }
                _ => {
                    let (at, entry) = reading.stray(key, value);
                    strays.push((at, entry));
                    continue;
                }
            };
            match value.get_ref() {
                DeValue::Table(table) => reading.collect(section, "", table),
                _ => {
                    let (_, entry) = reading.entry(Section::Head, name, value);
                    let expected = format!("expected a section: [{name}], and its keys below");
                    reading.faults.push(entry.fault(expected));
                }
            }
        }
        if !reading.faults.is_empty() {
            return Err(reading.faults);
        }
        let in_order = |mut entries: Vec<(usize, Entry)>| {
            entries.sort_by_key(|(at, _)| *at);
            entries.into_iter().map(|(_, entry)| entry).collect()
        };
        document.entries = in_order(reading.entries);
        document.strays = in_order(strays);
        document.described = in_order(reading.described);
        document.headings = reading.headings;
        Ok(document)
    }

    /// What it holds, the tables named `sections` included.
    pub fn all(&self, sections: &[&str]) -> Vec<Entry> {
        let is_of = |entry: &&Entry| {
            let section = entry.key.split('.').next().unwrap_or_default();
            sections.contains(&section)
        };
        let described = self.described.iter().filter(is_of);
        self.entries.iter().chain(described).cloned().collect()
    }

    /// The headings of tables that belong to the network.
    pub fn headings_of(&self, sections: &[&str]) -> Vec<Heading> {
        let belongs = |heading: &&Heading| {
            let section = heading.key.split('.').next().unwrap_or_default();
            !heading.beside || sections.contains(&section)
        };
        self.headings.iter().filter(belongs).cloned().collect()
    }

    /// What a fragment may not hold; `sections` are tables that it may have.
    pub fn faults_of_fragment(&self, sections: &[&str]) -> Vec<Fault> {
        const ONLY: &str = "a fragment holds [inputs] and [parameters], and nothing else";
        let of_head = |entry: &&Entry| entry.section == Section::Head;
        let strays = self.strays.iter();
        let strays = strays.filter(|stray| !sections.contains(&stray.key.as_str()));
        let keys = self.entries.iter().filter(of_head).chain(strays);
        let mut faults: Vec<Fault> = keys.map(|entry| entry.fault(ONLY)).collect();
        faults.extend(self.with.iter().map(|piece| Fault {
            place: piece.place.clone(),
            entry: format!("{WITH} = \"{}\"", piece.name),
            problem: ONLY.to_owned(),
        }));
        faults
    }
}

struct Reading<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    source: &'a str,
    /// With where they begin.
    entries: Vec<(usize, Entry)>,
    headings: Vec<Heading>,
    /// What stands in tables beside the sections.
    described: Vec<(usize, Entry)>,
    /// What is read stands beside the sections.
    beside: bool,
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn place(&self, at: usize) -> Place {
        Place {
            source: self.source.to_owned(),
            line: Some(self.lines.partition_point(|&begins| begins <= at)),
        }
    }

    fn entry(&self, section: Section, key: &str, value: &Spanned<DeValue<'_>>) -> (usize, Entry) {
        let span = value.span();
        let entry = Entry {
            section,
            key: key.to_owned(),
            given: Given::Literal(self.text[span.clone()].to_owned()),
            place: self.place(span.start),
        };
        (span.start, entry)
    }

    /// A key that is none of the head's; if it is a table, what stands in it is kept, too.
    fn stray(
        &mut self,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> (usize, Entry) {
        let name: &str = key.get_ref();
        let (_, mut entry) = self.entry(Section::Head, name, value);
        let at = key.span().start;
        entry.place = self.place(at);
        if let DeValue::Table(table) = value.get_ref() {
            entry.given = Given::Literal(String::new());
            let before = self.entries.len();
            self.beside = true;
            self.heading(name, at);
            self.collect(Section::Parameters, &format!("{name}."), table);
            self.beside = false;
            self.described.extend(self.entries.drain(before..));
        }
        (at, entry)
    }

    fn heading(&mut self, key: &str, at: usize) {
        let place = self.place(at);
        let key = key.to_owned();
        let beside = self.beside;
        self.headings.push(Heading { key, place, beside });
    }

    fn collect(&mut self, section: Section, above: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            if let Some(problem) = self.too_much(above) {
                if self.faults.is_empty() {
                    let (_, entry) = self.entry(section, name.get_ref(), value);
                    self.faults.push(entry.fault(problem));
                }
                return;
            }
            let key = format!("{above}{}", name.get_ref());
            if section == Section::Parameters && value.get_ref().is_table() {
                self.heading(&key, name.span().start);
            }
            match value.get_ref() {
                DeValue::Table(table) => self.collect(section, &format!("{key}."), table),
                DeValue::Array(items) if !is_inline(self.text, value) => {
                    for (index, item) in items.iter().enumerate() {
                        if let DeValue::Table(table) = item.get_ref() {
                            self.collect(section, &format!("{key}.{index}."), table);
                        }
                    }
                }
                _ => {
                    let entry = self.entry(section, &key, value);
                    self.entries.push(entry);
                }
            }
        }
    }

    /// Why no more is read, if so.
    fn too_much(&self, above: &str) -> Option<String> {
        let keys = self.entries.len() + self.headings.len();
        if keys + self.described.len() >= KEYS_MAX {
            return Some(format!("more than {KEYS_MAX} keys and tables"));
        }
        let depth = above.bytes().filter(|byte| *byte == b'.').count();
        (depth > DEPTH_MAX).then(|| format!("more than {DEPTH_MAX} tables within each other"))
    }

    fn pieces(&mut self, value: &Spanned<DeValue<'_>>, folder: &Path) -> Vec<Piece> {
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.len() > FRAGMENTS_MAX {
            let (_, entry) = self.entry(Section::Head, WITH, value);
            let problem = format!(
                "{} fragments, expected at most {FRAGMENTS_MAX}",
                items.len()
            );
            self.faults.push(entry.fault(problem));
            return Vec::new();
        }
        let mut pieces = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(name) => pieces.push(Piece {
                    name: name.to_string(),
                    folder: folder.to_owned(),
                    place: self.place(item.span().start),
                }),
                _ => {
                    let (_, entry) = self.entry(Section::Head, WITH, item);
                    let expected = "expected files or fragments as text: [\"host.toml\"]";
                    self.faults.push(entry.fault(expected));
                }
            }
        }
        pieces
    }
}

/// The text as TOML, if it is not too long and is some.
fn parse<'a>(text: &'a str, source: &str) -> Result<Spanned<DeTable<'a>>, Vec<Fault>> {
    let wrong = |line: Option<usize>, problem: String| {
        vec![Fault {
            place: Place {
                source: source.to_owned(),
                line,
            },
            entry: String::new(),
            problem,
        }]
    };
    if text.len() > TEXT_BYTES_MAX {
        let problem = format!("{} bytes, expected at most {TEXT_BYTES_MAX}", text.len());
        return Err(wrong(None, problem));
    }
    DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        let problem = format!("not TOML: {}", error.message().replace('\n', ", "));
        wrong(line, problem)
    })
}

/// A change of the command line as an entry. Without a prefix it is of the head, or else
/// of the parameters.
pub(super) fn entry_of(option: &'static str, change: &Change) -> Result<Entry, Fault> {
    let key = change.key.as_str();
    let (section, key) = match key.split_once('.') {
        Some(("inputs", key)) => (Section::Inputs, key),
        Some(("parameters", key)) => (Section::Parameters, key),
        _ if HEAD.contains(&key) => (Section::Head, key),
        _ => (Section::Parameters, key),
    };
    let entry = |section, key: &str| Entry {
        section,
        key: key.to_owned(),
        given: Given::Bare(change.value.clone()),
        place: Place {
            source: option.to_owned(),
            line: None,
        },
    };
    match change.key.as_str() {
        key @ WITH => Err(entry(Section::Head, key).fault("fragments are named with --with")),
        key @ ("inputs" | "parameters" | "") => {
            Err(entry(Section::Head, key).fault("expected a key, as in inputs.KEY, and a value"))
        }
        _ => Ok(entry(section, key)),
    }
}

/// An entry of the head as text.
pub(super) fn text_of(entry: &Entry) -> Result<String, Fault> {
    match &entry.given {
        Given::Bare(text) => Ok(text.clone()),
        Given::Literal(literal) => match literal_value(literal) {
            Some(toml::Value::String(text)) => Ok(text),
            _ => Err(entry.fault("expected text in quotation marks")),
        },
    }
}

/// An entry of the head as a whole number.
pub(super) fn number_of(entry: &Entry, least: u64, greatest: u64) -> Result<u64, Fault> {
    let value = literal_value(entry.given.text());
    let number = value
        .and_then(|value| value.as_integer())
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| (least..=greatest).contains(number));
    number.ok_or_else(|| {
        entry.fault(format!(
            "expected a whole number from {least} to {greatest}"
        ))
    })
}

/// What to say of a key above the sections that does not belong there.
pub(super) fn stray_problem(
    key: &str,
    inputs: &[String],
    parameters: &[String],
    sections: &[&str],
) -> String {
    let is_table_of = |keys: &[String]| {
        keys.iter()
            .any(|known| known.starts_with(&format!("{key}.")))
    };
    if inputs.iter().any(|known| known == key) || is_table_of(inputs) {
        return format!("it is an input: write inputs.{key}, or put it below [inputs]");
    }
    if parameters.iter().any(|known| known == key) || is_table_of(parameters) {
        return format!("it is a parameter: write parameters.{key}, or put it below [parameters]");
    }
    let sections: Vec<String> = match sections.is_empty() {
        true => vec!["[parameters]".to_owned()],
        false => sections.iter().map(|name| format!("[{name}]")).collect(),
    };
    let sections = sections.iter().map(String::as_str);
    let known = HEAD.into_iter().chain([WITH, "[inputs]"]).chain(sections);
    format!("no such key; {}", suggest::expected(key, known))
}
