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
mod cycles;
mod functions;
mod headers;
mod layers;
mod length;
mod lex;
mod links;
mod modules;
mod outcome;
mod ratchet;
mod safety;
mod shared;
mod sleeps;
mod tiers;
mod tokens;
mod tree;
mod unsafety;
mod words;
mod workspace;

use std::process::ExitCode;

use modules::Graph;
use outcome::{Outcome, Rewrite};
use tree::Tree;
use workspace::Workspace;

/// What a run of the checks is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Find what is wrong.
    Check,
    /// First take off the lists of `xtask/ratchet` what is no longer there.
    Shrink,
}

/// Runs every check over the workspace that this program belongs to.
pub(crate) fn main(task: Task) -> ExitCode {
    let passed = load().and_then(|(workspace, mut tree)| {
        let mut outcomes = run_all(&workspace, &tree);
        if task == Task::Shrink {
            for (_, outcome) in &outcomes {
                if let Some(Rewrite { path, text }) = &outcome.rewrite {
                    std::fs::write(workspace.root.join(path), text)
                        .map_err(|error| format!("{path}: {error}"))?;
                    println!("tidy: {path} is shorter now");
                }
            }
            tree = Tree::load(&workspace.root)?;
            outcomes = run_all(&workspace, &tree);
        }
        Ok(report(&outcomes))
    });
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the cycles of files in the crates whose folders begin with `prefix`, listed or
/// not, as entries of their list and with the imports that make them.
pub(crate) fn print_cycles(prefix: &str) -> ExitCode {
    let (workspace, tree) = match load() {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let graphs = graphs(&workspace, &tree);
    let cycles: Vec<_> = cycles::all_cycles(&graphs)
        .into_iter()
        .filter(|cycle| cycle.files.iter().any(|file| file.starts_with(prefix)))
        .collect();
    for cycle in &cycles {
        println!("{}", cycles::list_of(std::slice::from_ref(cycle)));
        println!("{}", cycles::describe(cycle).replace("    ", "# "));
    }
    ExitCode::SUCCESS
}

fn load() -> Result<(Workspace, Tree), String> {
    let workspace = Workspace::load()?;
    let tree = Tree::load(&workspace.root)?;
    Ok((workspace, tree))
}

/// Prints what was found; gives whether all passed.
fn report(outcomes: &[(&'static str, Outcome)]) -> bool {
    let mut all_passed = true;
    for (name, outcome) in outcomes {
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
    all_passed
}

/// The imports of every library and program of the workspace.
fn graphs(workspace: &Workspace, tree: &Tree) -> Vec<Graph> {
    let roots = workspace.crates.iter().flat_map(|krate| &krate.roots);
    roots.map(|root| Graph::of(tree, root)).collect()
}

fn run_all(workspace: &Workspace, tree: &Tree) -> Vec<(&'static str, Outcome)> {
    let architecture = tree.text("ARCHITECTURE.md");
    let graphs = graphs(workspace, tree);
    vec![
        ("tiers", tiers::check(workspace, architecture)),
        ("lab", tiers::check_lab(workspace)),
        ("manifests", tiers::check_manifests(workspace, tree)),
        ("cycles", cycles::check(&graphs, tree)),
        ("layers", layers::check(&graphs, tree)),
        ("forbid unsafe", unsafety::check_roots(workspace, tree)),
        ("no unsafe", unsafety::check_sources(tree)),
        ("safety comments", safety::check(tree)),
        ("shared tables", shared::check(tree)),
        ("headers", headers::check(tree)),
        ("atomics", atomics::check(tree)),
        ("clocks", clocks::check(tree)),
        ("sleeps", sleeps::check(workspace, tree)),
        ("let chains", chains::check(tree)),
        ("length", length::check(tree)),
        ("functions", functions::check(workspace, tree)),
        ("words", words::check(workspace, tree)),
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
}
