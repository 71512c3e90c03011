//! Old words of the glossary are not used for anything new. Those that are left are counted by
//! crate in `xtask/ratchet/words.toml`: in names, comments and texts alike.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::ratchet::{All, Ratchet};
use super::tree::Tree;
use super::workspace::Workspace;

/// Old words that mean nothing else, in small letters, and what to write in their place. A
/// space may be `_` in names.
const WORDS: &[(&str, &str)] = &[
    ("crowd", "contention"),
    ("glance", "poll"),
    ("glimpse", "poll"),
    ("in vain", "empty poll, empty read"),
    ("is_to_", "is_, has_, can_ or a verb"),
    ("meeting place", "rendezvous socket"),
    ("on board", "upgraded"),
    ("shelf", "plan source"),
    ("step back", "fall back"),
    ("steps back", "falls back"),
];

/// This crate names them.
const EXEMPT: &str = "xtask";

pub(crate) fn check(workspace: &Workspace, tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut found = All::new();
    let spellings: BTreeSet<(&str, String)> = WORDS
        .iter()
        .flat_map(|&(word, _)| [(word, word.to_owned()), (word, word.replace(' ', "_"))])
        .collect();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        let home = workspace
            .crates
            .iter()
            .filter(|krate| krate.dir != EXEMPT && path.starts_with(&format!("{}/", krate.dir)))
            .max_by_key(|krate| krate.dir.len());
        let Some(home) = home else { continue };
        outcome.checked += 1;
        for (i, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for (word, spelling) in &spellings {
                for _ in 0..count(&line, spelling) {
                    let key = format!("{}: {word}", home.dir);
                    found.entry(key).or_default().add(path, i + 1);
                }
            }
        }
    }
    let advice: Vec<String> = WORDS
        .iter()
        .map(|(old, new)| format!("«{}»: {new}", old))
        .collect();
    let list = Ratchet {
        path: "xtask/ratchet/words.toml",
        what: "old words",
        remedy: &format!("see docs/glossary.md ({})", advice.join("; ")),
    };
    list.check(tree, &found, &mut outcome);
    outcome
}

/// How often `word` begins a word in `line`, which is in small letters.
fn count(line: &str, word: &str) -> usize {
    line.match_indices(word)
        .filter(|&(at, _)| !line[..at].ends_with(char::is_alphanumeric))
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Crate;
    use super::*;

    #[test]
    fn words_are_counted_in_names_and_sentences() {
        assert_eq!(count("// looks in vain: in vain.", "in vain"), 2);
        assert_eq!(count("let looks_in_vain = 1;", "in_vain"), 1);
        assert_eq!(count("a captain vain", "in vain"), 0);
        assert_eq!(count("fn this_to_that() {}", "is_to_"), 0);
    }

    #[test]
    fn canary_old_word() {
        let workspace = Workspace {
            crates: ["crates/a", "xtask"]
                .map(|dir| Crate {
                    dir: dir.into(),
                    ..Crate::default()
                })
                .into(),
            ..Workspace::default()
        };
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "//! A Crowd.\nfn is_in_vain_crowded() {}\n",
            ),
            ("crates/a/src/b.rs", "fn glance() {}\n"),
            ("xtask/src/main.rs", "fn glance() {}\n"),
            ("xtask/ratchet/words.toml", "\"crates/a: glance\" = 1\n"),
        ]);
        let outcome = check(&workspace, &tree);
        assert_eq!(outcome.checked, 2);
        assert_eq!(outcome.findings.len(), 2);
        assert_eq!(outcome.findings[1].place, "crates/a: in vain");
        let message = &outcome.findings[0].message;
        assert!(message.starts_with("2 old words, 0 listed"), "{message}");
        assert!(message.ends_with("src/lib.rs: line 1, 2"), "{message}");
    }
}
