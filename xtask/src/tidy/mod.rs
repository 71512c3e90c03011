//! Checks of the rules that no compiler checks.
//!
//! Each check is a function from what it looks at ([`Tree`], [`Workspace`]) to
//! an [`Outcome`]; none reads the disk, so the tests feed them bad samples and
//! see them fail. A check that found nothing to look at fails too, unless it
//! says why there is nothing yet.

mod addresses;
mod atomics;
mod chains;
mod clocks;
mod headers;
mod length;
mod lex;
mod links;
mod safety;
mod shared;
mod tiers;
mod tree;
mod unsafety;
mod workspace;

use std::process::ExitCode;

use tree::Tree;
use workspace::Workspace;

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Where: a path from the root, with the line where there is one.
    place: String,
    /// What is wrong, and what to do about it.
    message: String,
}

/// What a check looked at and what it found.
#[derive(Debug, Default)]
struct Outcome {
    /// How many things were looked at.
    checked: usize,
    findings: Vec<Finding>,
    /// Why there was nothing to look at, where that is legitimate.
    skipped: Option<&'static str>,
}

impl Outcome {
    fn skipped(why: &'static str) -> Self {
        Self {
            skipped: Some(why),
            ..Self::default()
        }
    }

    fn find(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding {
            place: place.into(),
            message: message.into(),
        });
    }

    /// The line that sums the check up, and whether it passed.
    fn verdict(&self, name: &str) -> (String, bool) {
        match (self.checked, self.skipped, self.findings.len()) {
            (0, Some(why), 0) => (format!("tidy: {name}: skipped: {why}"), true),
            (0, _, 0) => (format!("tidy: {name}: found nothing to check"), false),
            (n, _, 0) => (format!("tidy: {name}: {n} checked"), true),
            (n, _, bad) => (format!("tidy: {name}: {n} checked, {bad} wrong"), false),
        }
    }
}

/// Runs every check over the workspace that this program belongs to.
pub(crate) fn main() -> ExitCode {
    let loaded = Workspace::load().and_then(|workspace| {
        let tree = Tree::load(&workspace.root)?;
        Ok((workspace, tree))
    });
    let (workspace, tree) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut all_passed = true;
    for (name, outcome) in run_all(&workspace, &tree) {
        for finding in &outcome.findings {
            eprintln!("{}: {}", finding.place, finding.message);
        }
        let (line, passed) = outcome.verdict(name);
        if passed {
            println!("{line}");
        } else {
            eprintln!("{line}");
            all_passed = false;
        }
    }
    if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_all(workspace: &Workspace, tree: &Tree) -> Vec<(&'static str, Outcome)> {
    let architecture = tree.text("ARCHITECTURE.md");
    vec![
        ("tiers", tiers::check(workspace, architecture)),
        ("lab", tiers::check_lab(workspace)),
        ("manifests", tiers::check_manifests(workspace, tree)),
        ("forbid unsafe", unsafety::check_roots(workspace, tree)),
        ("no unsafe", unsafety::check_sources(tree)),
        ("safety comments", safety::check(tree)),
        ("shared tables", shared::check(tree)),
        ("headers", headers::check(tree)),
        ("atomics", atomics::check(tree)),
        ("clocks", clocks::check(tree)),
        ("let chains", chains::check(tree)),
        ("length", length::check(tree)),
        ("addresses", addresses::check(tree)),
        ("links", links::check(tree)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_check_fails() {
        assert!(!Outcome::default().verdict("x").1);
        for (name, outcome) in run_all(&Workspace::default(), &Tree::default()) {
            let (line, passed) = outcome.verdict(name);
            assert!(
                !passed || line.contains("skipped: "),
                "an empty project passes silently: {line}"
            );
        }
    }

    #[test]
    fn a_skip_needs_a_reason_and_no_findings() {
        let mut outcome = Outcome::skipped("no such crates yet");
        assert_eq!(
            outcome.verdict("x"),
            ("tidy: x: skipped: no such crates yet".into(), true)
        );
        outcome.find("here", "wrong");
        assert!(!outcome.verdict("x").1);
    }

    #[test]
    fn the_summary_counts() {
        let mut outcome = Outcome {
            checked: 3,
            ..Outcome::default()
        };
        assert_eq!(outcome.verdict("x"), ("tidy: x: 3 checked".into(), true));
        outcome.find("here", "wrong");
        assert_eq!(
            outcome.verdict("x"),
            ("tidy: x: 3 checked, 1 wrong".into(), false)
        );
    }
}
