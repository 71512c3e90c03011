//! Lists of what is still wrong, in `xtask/ratchet/`. They may only shrink: what is not
//! listed is a finding, and so is what is listed and no longer there. `cargo xtask tidy
//! --shrink` takes the latter off; nothing puts anything on but a person.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::outcome::{Outcome, Rewrite};
use super::tree::Tree;

/// What is left of something, by crate or by what else tells it apart.
pub(crate) type All = BTreeMap<String, Found>;

/// How many of something there are.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) count: usize,
    /// The files, and the lines in them, counted from 1.
    pub(crate) places: BTreeMap<String, Vec<usize>>,
}

impl Found {
    /// One more, in `line` of `file`.
    pub(crate) fn add(&mut self, file: &str, line: usize) {
        self.count += 1;
        self.places.entry(file.to_owned()).or_default().push(line);
    }

    /// One line for each file.
    fn describe(&self) -> String {
        let mut text = String::new();
        for (file, lines) in &self.places {
            let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
            // Writing to a string does not fail.
            let _ = write!(text, "\n    {file}: line {}", lines.join(", "));
        }
        text
    }
}

type Counts = BTreeMap<String, usize>;

/// A ratchet on counts.
pub(crate) struct Ratchet<'a> {
    /// The list, from the root of the project.
    pub(crate) path: &'a str,
    /// What is counted, such as «sleeps in tests».
    pub(crate) what: &'a str,
    /// What to do about one.
    pub(crate) remedy: &'a str,
}

/// The list at `path`; a missing one is empty.
pub(crate) fn read(tree: &Tree, path: &str) -> Result<toml::Table, String> {
    let text = tree.text(path).unwrap_or_default();
    text.parse().map_err(|error| format!("{error}"))
}

/// The comment that the list at `path` begins with.
pub(crate) fn header(tree: &Tree, path: &str) -> String {
    let text = tree.text(path).unwrap_or_default();
    text.lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

impl Ratchet<'_> {
    /// Compares what was found with what is listed.
    pub(crate) fn check(&self, tree: &Tree, found: &All, outcome: &mut Outcome) {
        let listed = match self.listed(tree) {
            Ok(listed) => listed,
            Err(error) => return outcome.find(self.path, error),
        };
        let Self { path, what, remedy } = self;
        let mut shrunk = Counts::new();
        for (key, found) in found {
            let count = found.count;
            let allowed = listed.get(key).copied().unwrap_or(0);
            if count > allowed {
                let places = found.describe();
                outcome.find(
                    key,
                    format!("{count} {what}, {allowed} listed: {remedy}{places}"),
                );
            }
            if count.min(allowed) > 0 {
                shrunk.insert(key.clone(), count.min(allowed));
            }
        }
        for (key, &allowed) in &listed {
            let count = found.get(key).map_or(0, |found| found.count);
            if count < allowed {
                outcome.find(
                    *path,
                    format!("{key}: {count} {what} left, {allowed} listed: run `cargo xtask tidy --shrink`"),
                );
            }
        }
        let sum: usize = found.values().map(|found| found.count).sum();
        outcome.note = Some(format!("{sum} {what}"));
        if shrunk != listed {
            let mut text = header(tree, path);
            text.push('\n');
            for (key, count) in shrunk {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{key:?} = {count}");
            }
            outcome.rewrite = Some(Rewrite {
                path: (*path).to_owned(),
                text,
            });
        }
    }

    fn listed(&self, tree: &Tree) -> Result<Counts, String> {
        read(tree, self.path)?
            .into_iter()
            .map(|(key, value)| {
                let count = value.as_integer().and_then(|n| usize::try_from(n).ok());
                match count {
                    Some(count) if count > 0 => Ok((key, count)),
                    _ => Err(format!("{key}: not a count: {value}")),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATCHET: Ratchet<'_> = Ratchet {
        path: "list.toml",
        what: "sins",
        remedy: "repent",
    };

    fn compare(list: &str, found: &[(&str, usize)]) -> Outcome {
        let mut outcome = Outcome::default();
        let found = found
            .iter()
            .map(|&(key, n)| {
                let mut found = Found::default();
                (0..n).for_each(|i| found.add("a.rs", i + 1));
                (key.to_owned(), found)
            })
            .collect();
        RATCHET.check(&Tree::of(&[("list.toml", list)]), &found, &mut outcome);
        outcome
    }

    #[test]
    fn what_is_listed_passes() {
        let outcome = compare("# Why.\n\n\"a\" = 2\n", &[("a", 2), ("b", 0)]);
        assert_eq!((outcome.findings.len(), outcome.rewrite), (0, None));
        assert_eq!(outcome.note.as_deref(), Some("2 sins"));
    }

    #[test]
    fn canary_more_than_listed() {
        let outcome = compare("\"a\" = 2\n", &[("a", 3), ("b", 1)]);
        assert_eq!(outcome.findings.len(), 2);
        let message = &outcome.findings[0].message;
        assert!(
            message.ends_with("repent\n    a.rs: line 1, 2, 3"),
            "{message}"
        );
        // And nothing puts it on the list.
        assert_eq!(outcome.rewrite, None);
    }

    #[test]
    fn canary_less_than_listed() {
        let outcome = compare(
            "# Why.\n# How.\n\n\"a\" = 2\n\"b\" = 1\n\"c\" = 1\n",
            &[("a", 1), ("c", 4)],
        );
        assert_eq!(outcome.findings.len(), 3);
        let text = outcome.rewrite.unwrap().text;
        assert_eq!(text, "# Why.\n# How.\n\n\"a\" = 1\n\"c\" = 1\n");
    }

    #[test]
    fn canary_a_list_that_cannot_be_read() {
        assert_eq!(compare("a = \"many\"\n", &[]).findings.len(), 1);
        assert_eq!(compare("a = 0\n", &[]).findings.len(), 1);
        assert_eq!(compare("a a\n", &[]).findings.len(), 1);
    }
}
