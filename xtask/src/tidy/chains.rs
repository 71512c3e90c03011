//! No `let` chains: the language of Rust 1.85, which the workspace promises,
//! lacks them, and a newer compiler takes them without a word. (What the
//! standard library lacked then, `clippy::incompatible_msrv` knows.)

use super::lex::find_word;
use super::outcome::Outcome;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for source in tree.sources() {
        outcome.checked += 1;
        // The statement so far, since a chain may go over several lines.
        let mut condition = String::new();
        for (i, line) in source.lexed.lines.iter().enumerate() {
            let joined = format!("{condition} {}", line.code.trim());
            if is_chain(&joined) {
                outcome.find(
                    source.place(i),
                    "a `let` chain: Rust 1.85 has none, nest the conditions",
                );
                condition.clear();
            } else {
                // Only what follows the last end of a statement can go on.
                let end = joined.rfind([';', '{', '}']).map_or(0, |at| at + 1);
                condition = joined[end..].trim().to_owned();
            }
        }
    }
    outcome
}

/// `… && let …`, or `if let … = … && …` where the `&&` joins conditions (and is
/// not inside brackets, or a reference to a reference).
fn is_chain(code: &str) -> bool {
    let after_and = code
        .match_indices("&&")
        .any(|(at, _)| find_word(code[at + 2..].trim_start(), "let") == Some(0));
    after_and
        || ["if", "while"].iter().any(|keyword| {
            let condition = find_word(code, keyword).map(|at| &code[at + keyword.len()..]);
            condition
                .map(str::trim_start)
                .filter(|condition| find_word(condition, "let") == Some(0))
                .is_some_and(joins_at_top)
        })
}

/// Whether a spaced `&&` stands outside all brackets, before the block.
fn joins_at_top(condition: &str) -> bool {
    let mut depth = 0usize;
    for (at, c) in condition.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' if depth == 0 => return false,
            '&' if depth == 0 && condition[at..].starts_with("&& ") => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let outcome = check(&Tree::of(&[("a.rs", text)]));
        outcome.findings.into_iter().map(|f| f.place).collect()
    }

    #[test]
    fn canaries() {
        for bad in [
            "if a && let Some(b) = c {}",
            "if let Some(b) = c && b > 1 {}",
            "while let Some(b) = c.next() && b {}",
            "if x {\n} else if let Some(b) = c && b {}",
        ] {
            assert_eq!(places(bad).len(), 1, "{bad}");
        }
        assert_eq!(places("if a\n    && let Some(b) = c\n{}"), ["a.rs:2"]);
        assert_eq!(places("if let Some(b) = c\n    && d\n{}"), ["a.rs:2"]);
    }

    #[test]
    fn others_are_fine() {
        for good in [
            "if let (true, Some(b)) = (c && d, e) {}",
            "if let Some(b) = f(|x| x && y) { a && b }",
            "let a = b && c;\nif let Some(d) = e {}",
            "let Some(a) = b else { return };\nlet c = a && d;",
            "if a && b { let c = d; }",
            "let a = &&let_it_be;",
        ] {
            assert_eq!(places(good), Vec::<String>::new(), "{good}");
        }
    }
}
