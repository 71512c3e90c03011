//! No files of a crate import each other in a circle, but those listed in
//! `xtask/ratchet/cycles.toml`, which may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::modules::{Graph, Import};
use super::outcome::{Outcome, Rewrite};
use super::ratchet::{header, read};
use super::tree::Tree;

const LIST: &str = "xtask/ratchet/cycles.toml";

/// Files that import each other, directly or through one another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cycle {
    pub(crate) files: BTreeSet<String>,
    /// The imports between them.
    pub(crate) imports: Vec<Import>,
}

/// A cycle that is tolerated for now.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    files: BTreeSet<String>,
    reason: String,
}

/// The cycles of a graph: its strongly connected components of more than one file.
pub(crate) fn cycles_of(graph: &Graph) -> Vec<Cycle> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut back: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Import { from, to, .. } in &graph.imports {
        next.entry(from).or_default().push(to);
        back.entry(to).or_default().push(from);
    }
    // Kosaraju: in the order in which a walk leaves the files, last first, walk backwards.
    let mut seen = BTreeSet::new();
    let mut left = Vec::new();
    for file in &graph.files {
        walk(file, &next, &mut seen, &mut left);
    }
    let mut seen = BTreeSet::new();
    let mut cycles = Vec::new();
    for file in left.into_iter().rev() {
        let mut found = Vec::new();
        walk(file, &back, &mut seen, &mut found);
        if found.len() > 1 {
            let files: BTreeSet<String> = found.into_iter().map(str::to_owned).collect();
            let is_inside = |import: &&Import| {
                files.contains(import.from.as_str()) && files.contains(import.to.as_str())
            };
            let imports = graph.imports.iter().filter(is_inside).cloned().collect();
            cycles.push(Cycle { files, imports });
        }
    }
    cycles.sort();
    cycles
}

/// Visits what `file` leads to and was not seen; pushes each file when it leaves it.
fn walk<'a>(
    file: &'a str,
    next: &BTreeMap<&'a str, Vec<&'a str>>,
    seen: &mut BTreeSet<&'a str>,
    left: &mut Vec<&'a str>,
) {
    if !seen.insert(file) {
        return;
    }
    for &to in next.get(file).into_iter().flatten() {
        walk(to, next, seen, left);
    }
    left.push(file);
}

/// The cycles of all graphs, each once: a library and a program may share files.
pub(crate) fn all_cycles(graphs: &[Graph]) -> Vec<Cycle> {
    let mut cycles: Vec<_> = graphs.iter().flat_map(cycles_of).collect();
    cycles.sort();
    cycles.dedup();
    cycles
}

pub(crate) fn check(graphs: &[Graph], tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let files: BTreeSet<&String> = graphs.iter().flat_map(|graph| &graph.files).collect();
    outcome.checked = files.len();
    let listed = match listed(tree) {
        Ok(listed) => listed,
        Err(error) => {
            outcome.find(LIST, error);
            return outcome;
        }
    };
    let cycles = all_cycles(graphs);
    for cycle in &cycles {
        if !listed
            .iter()
            .any(|known| cycle.files.is_subset(&known.files))
        {
            let message = format!("{}:\n{}", size(cycle), describe(cycle));
            outcome.find(cycle.files.first().map_or("", String::as_str), message);
        }
    }
    let mut shrunk = Vec::new();
    for known in &listed {
        let place = known.files.first().map_or("", String::as_str);
        let parts: Vec<_> = cycles
            .iter()
            .filter(|cycle| cycle.files.is_subset(&known.files))
            .collect();
        if !(parts.len() == 1 && parts[0].files == known.files) {
            outcome.find(
                LIST,
                format!(
                    "the cycle with {place} is smaller or gone: run `cargo xtask tidy --shrink`"
                ),
            );
        }
        // One that has grown stays as it is: a person must look.
        let has_grown = cycles.iter().any(|cycle| {
            !cycle.files.is_subset(&known.files) && !cycle.files.is_disjoint(&known.files)
        });
        if has_grown {
            shrunk.push(known.clone());
        } else {
            shrunk.extend(parts.iter().map(|cycle| Listed {
                files: cycle.files.clone(),
                reason: known.reason.clone(),
            }));
        }
    }
    let in_cycles: usize = cycles.iter().map(|cycle| cycle.files.len()).sum();
    let largest = cycles.iter().map(|cycle| cycle.files.len()).max();
    outcome.note = Some(format!(
        "{} cycles of {in_cycles} files, the largest of {}",
        cycles.len(),
        largest.unwrap_or(0)
    ));
    if shrunk != listed {
        outcome.rewrite = Some(Rewrite {
            path: LIST.to_owned(),
            text: written(&header(tree, LIST), &shrunk),
        });
    }
    outcome
}

/// How large a cycle is.
fn size(cycle: &Cycle) -> String {
    format!("a cycle of {} files", cycle.files.len())
}

/// The imports of a cycle, one a line.
pub(crate) fn describe(cycle: &Cycle) -> String {
    let lines: Vec<String> = cycle
        .imports
        .iter()
        .map(|Import { from, to, line }| format!("    {from}:{line} imports {to}"))
        .collect();
    lines.join("\n")
}

fn listed(tree: &Tree) -> Result<Vec<Listed>, String> {
    let mut table = read(tree, LIST)?;
    let entries = match table.remove("cycle") {
        None => Vec::new(),
        Some(toml::Value::Array(entries)) => entries,
        Some(other) => return Err(format!("cycle: not a list: {other}")),
    };
    if let Some(key) = table.keys().next() {
        return Err(format!("{key}: not known here"));
    }
    entries
        .into_iter()
        .map(|entry| {
            let files: Option<BTreeSet<String>> = entry
                .get("files")
                .and_then(toml::Value::as_array)
                .and_then(|files| files.iter().map(|f| Some(f.as_str()?.to_owned())).collect());
            let reason = entry.get("reason").and_then(toml::Value::as_str);
            match (files, reason) {
                (Some(files), Some(reason)) if files.len() > 1 && !reason.trim().is_empty() => {
                    let reason = reason.to_owned();
                    Ok(Listed { files, reason })
                }
                _ => Err(format!("a cycle needs files and a reason: {entry}")),
            }
        })
        .collect()
}

fn written(header: &str, listed: &[Listed]) -> String {
    let mut text = header.to_owned();
    for Listed { files, reason } in listed {
        // Writing to a string does not fail.
        let _ = write!(text, "\n[[cycle]]\nreason = {reason:?}\nfiles = [\n");
        for file in files {
            let _ = writeln!(text, "    {file:?},");
        }
        text.push_str("]\n");
    }
    text
}

/// The cycles as entries of the list; a person fills the reasons in.
pub(crate) fn list_of(cycles: &[Cycle]) -> String {
    let listed: Vec<_> = cycles
        .iter()
        .map(|cycle| Listed {
            files: cycle.files.clone(),
            reason: String::new(),
        })
        .collect();
    written("", &listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "crates/a/src/lib.rs";

    /// The imports among files under `crates/a/src/`, the root's aside.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(files, "");
        let short = |path: &str| path.trim_start_matches("crates/a/src/").to_owned();
        graph
            .imports
            .iter()
            .map(|import| format!("{} -> {}", short(&import.from), short(&import.to)))
            .collect()
    }

    fn tree(files: &[(&str, &str)], list: &str) -> Tree {
        let paths: Vec<String> = files
            .iter()
            .map(|(path, _)| format!("crates/a/src/{path}"))
            .collect();
        let mut all: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, &(_, text))| (path.as_str(), text))
            .collect();
        all.push((LIST, list));
        Tree::of(&all)
    }

    fn graph(files: &[(&str, &str)], list: &str) -> Graph {
        Graph::of(&tree(files, list), ROOT)
    }

    fn outcome(files: &[(&str, &str)], list: &str) -> Outcome {
        check(&[graph(files, list)], &tree(files, list))
    }

    const TWO: &[(&str, &str)] = &[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", "use crate::a;\nstruct B;\n"),
    ];
    const TWO_LISTED: &str =
        "[[cycle]]\nreason = \"old\"\nfiles = [\"crates/a/src/a.rs\", \"crates/a/src/b.rs\"]\n";

    #[test]
    fn paths_of_all_kinds_are_imports() {
        let found = imports(&[
            (
                "lib.rs",
                "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\nmod f;\npub mod g;\nfn h() { f::x() }\n",
            ),
            (
                "a.rs",
                "use crate::{b, c::{self as see, C}};\nfn f() { b::deep::x(); }\n",
            ),
            ("b.rs", "pub(crate) mod deep;\n"),
            ("b/deep.rs", "pub(in crate::c) fn x() {}\n"),
            ("c.rs", "use super::d::D;\nstruct C;\n"),
            ("d.rs", "fn f(x: *const crate::e::E) {}\n"),
            ("e.rs", "fn g() { assert!(crate::f::ok()); } // crate::a\n"),
            ("f.rs", "mod inside { fn f() { super::super::g::x() } }\n"),
            ("g.rs", "use std::e;\nuse ::f::x;\nuse libc::g as a;\n"),
        ]);
        assert_eq!(
            found,
            [
                "a.rs -> b.rs",
                "a.rs -> b/deep.rs",
                "a.rs -> c.rs",
                "c.rs -> d.rs",
                "d.rs -> e.rs",
                "e.rs -> f.rs",
                "f.rs -> g.rs",
                "lib.rs -> f.rs",
            ]
        );
    }

    #[test]
    fn re_exports_are_followed() {
        let found = imports(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::Deep;\n"),
            (
                "a.rs",
                "mod deep;\npub use deep::*;\npub(crate) use self::deep::other as another;\n",
            ),
            ("a/deep.rs", "pub struct Deep;\npub fn other() {}\n"),
            ("b.rs", "use crate::Deep;\n"),
            ("c.rs", "use crate::a;\nfn f() { a::another(); }\n"),
        ]);
        assert_eq!(
            found,
            ["b.rs -> a/deep.rs", "c.rs -> a.rs", "c.rs -> a/deep.rs"]
        );
    }

    #[test]
    fn a_parent_that_only_declares_and_passes_on_is_no_cycle() {
        let child = ("a/child.rs", "use super::Shared;\npub struct Child;\n");
        let root = ("lib.rs", "mod a;\n");
        let plain = "mod child;\npub use child::Child;\npub struct Shared;\n";
        assert_eq!(
            imports(&[root, ("a.rs", plain), child]),
            ["a/child.rs -> a.rs"]
        );
        // With a use of what it passes on, or of its own, it is.
        for used in [
            "mod child;\npub use child::Child;\npub struct Shared(Child);\n",
            "mod child;\nuse child::Child;\npub struct Shared;\n",
            "mod child;\npub struct Shared(child::Child);\n",
        ] {
            let outcome = outcome(&[root, ("a.rs", used), child], "");
            assert_eq!(outcome.findings.len(), 1, "{used}");
        }
    }

    #[test]
    fn macros_are_where_they_are_defined() {
        let found = imports(&[
            ("lib.rs", "#[macro_use]\nmod a;\nmod b;\n"),
            (
                "a.rs",
                "macro_rules! log {\n    () => { $crate::b::write() };\n}\n",
            ),
            ("b.rs", "fn f() { crate::log!(); vec![1]; }\n"),
        ]);
        assert_eq!(found, ["a.rs -> b.rs", "b.rs -> a.rs"]);
    }

    #[test]
    fn tests_are_left_out() {
        let found = imports(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n#[cfg(test)]\nmod more;\n",
            ),
            ("a/more.rs", "use crate::b;\n"),
            ("b.rs", ""),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn files_of_other_names_are_found() {
        let found = imports(&[
            (
                "lib.rs",
                "mod a;\n/// Elsewhere.\n#[path = \"unix/b.rs\"]\nmod b;\n",
            ),
            ("a/mod.rs", "mod c;\nuse crate::b::x;\n"),
            ("a/c.rs", "use super::super::b;\n"),
            ("unix/b.rs", "pub fn x() {}\n"),
        ]);
        assert_eq!(found, ["a/c.rs -> unix/b.rs", "a/mod.rs -> unix/b.rs"]);
    }

    #[test]
    fn canary_cycle() {
        let outcome = outcome(TWO, "");
        assert_eq!(outcome.checked, 3);
        assert_eq!(outcome.findings.len(), 1);
        let message = &outcome.findings[0].message;
        assert!(message.starts_with("a cycle of 2 files"), "{message}");
        assert!(message.contains("crates/a/src/b.rs:1 imports crates/a/src/a.rs"));
        assert_eq!(outcome.rewrite, None);
    }

    #[test]
    fn a_listed_cycle_passes() {
        let outcome = outcome(TWO, TWO_LISTED);
        assert_eq!(outcome.findings, []);
        assert_eq!(outcome.rewrite, None);
        let note = outcome.note.unwrap();
        assert_eq!(note, "1 cycles of 2 files, the largest of 2");
    }

    #[test]
    fn canary_a_listed_cycle_that_is_gone() {
        let mended: Vec<_> = TWO[..2]
            .iter()
            .copied()
            .chain([("b.rs", "struct B;\n")])
            .collect();
        let outcome = outcome(&mended, &format!("# Why.\n\n{TWO_LISTED}"));
        assert_eq!(outcome.findings.len(), 1);
        assert_eq!(outcome.rewrite.unwrap().text, "# Why.\n");
    }

    #[test]
    fn canary_a_listed_cycle_that_has_grown_or_shrunk() {
        let three = "[[cycle]]\nreason = \"old\"\nfiles = [\"crates/a/src/a.rs\", \"crates/a/src/b.rs\", \"crates/a/src/c.rs\"]\n";
        let shrunk = outcome(TWO, three);
        assert_eq!(shrunk.findings.len(), 1);
        assert!(!shrunk.rewrite.unwrap().text.contains("c.rs"));
        let all = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::c;\nstruct B;\n"),
            ("c.rs", "use crate::a;\n"),
        ];
        assert_eq!(outcome(&all, three).findings, []);
        let grown = outcome(&all, TWO_LISTED);
        assert_eq!(grown.findings.len(), 2);
        assert_eq!(grown.rewrite, None);
    }

    #[test]
    fn canary_a_list_without_reasons() {
        for list in [
            "[[cycle]]\nfiles = [\"a\", \"b\"]\n",
            "cycle = 1\n",
            "x = 1\n",
        ] {
            assert_eq!(outcome(&TWO[..1], list).findings.len(), 1, "{list}");
        }
    }
}
