//! No test sleeps to wait for something: it waits for the event, with a deadline. What is
//! left is counted in `xtask/ratchet/sleeps.toml`. A pause in a loop that looks again counts
//! too; let the loop be in one helper.

use super::lex::find_word;
use super::outcome::Outcome;
use super::ratchet::{All, Ratchet};
use super::tree::Tree;
use super::workspace::Workspace;

const LIST: Ratchet<'_> = Ratchet {
    path: "xtask/ratchet/sleeps.toml",
    what: "sleeps in tests",
    remedy: "wait for the event, with a deadline",
};

pub(crate) fn check(workspace: &Workspace, tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut found = All::new();
    for source in tree.sources() {
        // The deepest crate that the file lies in.
        let home = workspace
            .crates
            .iter()
            .filter(|krate| source.path.starts_with(&format!("{}/", krate.dir)))
            .max_by_key(|krate| krate.dir.len());
        let Some(home) = home else { continue };
        let is_test_file = home.dir.starts_with("tests/")
            || source.path.starts_with(&format!("{}/tests/", home.dir))
            || source.path.ends_with("/tests.rs")
            || source.path.contains("/tests/");
        let mut has_tests = false;
        for (i, line) in source.lexed.lines.iter().enumerate() {
            if !(is_test_file || line.in_test) {
                continue;
            }
            has_tests = true;
            let sleeps = find_word(&line.code, "sleep").is_some_and(|at| {
                let is_defined = line.code[..at].trim_end().ends_with("fn");
                line.code[at + "sleep".len()..].starts_with('(') && !is_defined
            });
            if sleeps {
                found
                    .entry(home.dir.clone())
                    .or_default()
                    .add(source.path, i + 1);
            }
        }
        outcome.checked += usize::from(has_tests);
    }
    LIST.check(tree, &found, &mut outcome);
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Crate;
    use super::*;

    #[test]
    fn canary_sleep_in_a_test() {
        let sleep = "fn f() {\n    thread::sleep(SECOND);\n}\n";
        let inside = format!("#[cfg(test)]\nmod tests {{\n{sleep}}}\n{sleep}");
        let workspace = Workspace {
            crates: ["crates/a", "tests/all"]
                .map(|dir| Crate {
                    dir: dir.into(),
                    ..Crate::default()
                })
                .into(),
            ..Workspace::default()
        };
        let list = "\"crates/a\" = 1\n";
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", &inside),
            ("crates/a/src/sleeping.rs", sleep),
            ("crates/a/tests/a.rs", sleep),
            ("tests/all/src/lib.rs", sleep),
            ("tests/all/src/fine.rs", "fn f() {} // sleep(1)\n"),
            (LIST.path, list),
        ]);
        let outcome = check(&workspace, &tree);
        assert_eq!(outcome.checked, 4);
        let places: Vec<_> = outcome.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(places, ["crates/a", "tests/all"]);
        let message = &outcome.findings[0].message;
        assert!(
            message.starts_with("2 sleeps in tests, 1 listed"),
            "{message}"
        );
        assert!(message.contains("src/lib.rs: line 4\n"), "{message}");
    }
}
