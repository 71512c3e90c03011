//! No source has more than 800 lines unless one of them says why:
//! `// tidy: long file: <reason>`.

use super::outcome::Outcome;
use super::tree::Tree;

const LINES_MAX: usize = 800;
const WAIVER: &str = "tidy: long file:";
/// What is read by people and written by them; data and lock files are not.
const ENDINGS: &[&str] = &[".rs", ".sh", ".py", ".c", ".h", ".java"];

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for (path, text) in tree.files() {
        if !ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            continue;
        }
        outcome.checked += 1;
        let lines = text.lines().count();
        let waived = text.lines().any(|line| {
            let line = line.trim_start();
            let comment = line.strip_prefix("//").or_else(|| line.strip_prefix('#'));
            comment
                .and_then(|comment| comment.trim_start().strip_prefix(WAIVER))
                .is_some_and(|reason| !reason.trim().is_empty())
        });
        if lines > LINES_MAX && !waived {
            outcome.find(
                path,
                format!("{lines} lines: split it, or say why with `// {WAIVER} <reason>`"),
            );
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_long_file() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let fine = "x\n".repeat(LINES_MAX);
        let waived = format!("{long}// {WAIVER} one table\n");
        let hollow = format!("{long}// {WAIVER}\n");
        let tree = Tree::of(&[
            ("a.rs", &long),
            ("b.rs", &fine),
            ("c.rs", &waived),
            ("d.rs", &hollow),
            ("E.java", &long),
            ("Cargo.lock", &long),
        ]);
        let outcome = check(&tree);
        assert_eq!(outcome.checked, 5);
        let places: Vec<_> = outcome.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(places, ["E.java", "a.rs", "d.rs"]);
    }
}
