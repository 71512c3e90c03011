//! Each atomic names its partner: in every crate that has atomics shared between processes, an
//! `Ordering::` has a comment near it, in the same function, that says what it
//! pairs with («pairs with the Acquire load in …»), or, for `Relaxed` alone,
//! why that is enough («Relaxed: …»).
//!
//! Near is the same line or the four lines of code above its statement. `Ordering` is written
//! in full, since a bare `Acquire` would not be seen. Those that still name none are counted by
//! crate in `xtask/ratchet/atomics.toml`.

use super::lex::{Lexed, find_word};
use super::outcome::Outcome;
use super::ratchet::{All, Found, Ratchet};
use super::tree::{Source, Tree};

const CRATES: &[&str] = &[
    "crates/shm",
    "crates/fabric",
    "crates/sys",
    "crates/sockets",
    "crates/barewire",
];
const LIST: Ratchet<'_> = Ratchet {
    path: "xtask/ratchet/atomics.toml",
    what: "uses of an `Ordering::` without a partner",
    remedy: "say in a comment what it «pairs with», or «Relaxed: why»",
};
const ORDERINGS: &[&str] = &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
/// How many lines of code above an ordering its comment may stand.
const CODE_LINES_ABOVE_MAX: usize = 4;

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut unexplained = All::new();
    for &krate in CRATES {
        for source in tree.shipped_sources(krate) {
            let found = unexplained.entry(krate.to_owned()).or_default();
            check_source(&source, found, &mut outcome);
        }
    }
    if unexplained.is_empty() {
        return Outcome::skipped("no crate with atomics yet");
    }
    LIST.check(tree, &unexplained, &mut outcome);
    outcome
}

fn check_source(source: &Source<'_>, unexplained: &mut Found, outcome: &mut Outcome) {
    let mut import = false;
    for (i, line) in source.lexed.lines.iter().enumerate() {
        if line.in_test {
            continue;
        }
        import |= find_word(&line.code, "use").is_some();
        if import {
            let bare = line.code.contains("Ordering::");
            import = !line.code.contains(';');
            if bare {
                outcome.find(
                    source.place(i),
                    "imports orderings by name: write `Ordering::` in full",
                );
            }
            continue;
        }
        let used: Vec<&str> = ORDERINGS
            .iter()
            .copied()
            .filter(|name| find_word(&line.code, &format!("Ordering::{name}")).is_some())
            .collect();
        if used.is_empty() {
            continue;
        }
        outcome.checked += 1;
        if !is_explained(source.lexed, i, used == ["Relaxed"]) {
            unexplained.add(source.path, i + 1);
        }
    }
}

fn is_explained(lexed: &Lexed, line: usize, all_relaxed: bool) -> bool {
    let explains = |comment: &str| {
        find_word(&comment.to_lowercase(), "pairs").is_some()
            || (all_relaxed && comment.contains("Relaxed:"))
    };
    let here = &lexed.lines[line];
    if explains(&here.comment) {
        return true;
    }
    if find_word(&here.code, "fn").is_some() {
        return false;
    }
    let mut code_lines = 0;
    let mut in_statement = true;
    for above in lexed.above(line) {
        let code = above.code.trim_end();
        if explains(&above.comment) {
            // Unless it explains the signature of the function.
            return find_word(code, "fn").is_none();
        }
        if code.trim().is_empty() {
            continue;
        }
        in_statement &= !code.ends_with([';', '{', '}']);
        code_lines += usize::from(!in_statement);
        if code_lines == CODE_LINES_ABOVE_MAX || find_word(code, "fn").is_some() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> (usize, Vec<String>) {
        let outcome = check(&Tree::of(&[("crates/shm/src/a.rs", text)]));
        let places = outcome.findings.into_iter().map(|f| f.place).collect();
        (outcome.checked, places)
    }

    #[test]
    fn explained_is_fine() {
        let text = "\
use core::sync::atomic::{AtomicU64, Ordering};
fn f() {
    // Pairs with the Acquire load in `g`:
    // what was written before becomes visible.
    // A third line does not count as code.
    // Nor a fourth.
    // Nor a fifth.
    a.store(1, Ordering::Release);
    b.load(Ordering::Relaxed); // Relaxed: only this thread writes it.
    if x.cmp(&y) == Ordering::Less {}
    // Pairs with itself; the load that fails: see above.
    let taken = a
        .compare_exchange(
            old,
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
}
#[cfg(test)]
mod tests {
    fn t() { a.load(Ordering::SeqCst); }
}
";
        assert_eq!(findings(text), (4, vec![]));
    }

    #[test]
    fn canary_unexplained() {
        assert_eq!(
            findings("fn f() {\n    a.load(Ordering::Acquire);\n}\n").1,
            ["crates/shm"]
        );
    }

    #[test]
    fn canary_relaxed_does_not_explain_acquire() {
        let text = "fn f() {\n    // Relaxed: ours.\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(findings(text).1.len(), 1);
    }

    #[test]
    fn canary_comment_in_another_function() {
        let text = "\
fn f() {
    // pairs with g
}
fn g() {
    a.load(Ordering::Acquire);
}
";
        assert_eq!(findings(text).1.len(), 1);
    }

    #[test]
    fn canary_comment_too_far() {
        let text = "\
fn f() {
    // pairs with g
    a;
    b;
    c;
    d;
    a.load(Ordering::Acquire);
}
";
        assert_eq!(findings(text).1.len(), 1);
    }

    #[test]
    fn canary_bare_import() {
        let text = "use core::sync::atomic::Ordering::{Acquire, Release};\n";
        assert_eq!(findings(text).1.len(), 1);
        let text = "use core::sync::atomic::{\n    AtomicU64,\n    Ordering::*,\n};\n";
        assert_eq!(findings(text).1.len(), 1);
    }

    #[test]
    fn a_word_that_holds_pairs_is_no_partner() {
        let text = "fn f() {\n    // repairs it\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(findings(text).1.len(), 1);
    }
}
