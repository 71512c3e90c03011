//! Every Rust file begins by saying what it is: a `//!` comment on line one.

use super::outcome::Outcome;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        outcome.checked += 1;
        let first = text.lines().next().unwrap_or("");
        let says_something = first
            .strip_prefix("//!")
            .is_some_and(|header| !header.trim().is_empty());
        if !says_something {
            outcome.find(format!("{path}:1"), "begins without a `//!` header");
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_no_header() {
        let tree = Tree::of(&[
            ("crates/a/src/good.rs", "//! Good.\n"),
            ("crates/a/src/late.rs", "use x;\n//! Late.\n"),
            ("crates/a/src/empty.rs", ""),
            ("crates/a/tests/hollow.rs", "//!\nuse x;\n"),
            ("fuzz/fuzz_targets/plain.rs", "// Plain.\n"),
        ]);
        let outcome = check(&tree);
        assert_eq!(outcome.checked, 5);
        assert_eq!(outcome.findings.len(), 4);
    }
}
