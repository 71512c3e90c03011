//! Every `unsafe` says why it is right: a `SAFETY:` comment on its line or
//! right above its statement; an unsafe function or trait, which makes its
//! caller answer, has a `# Safety` section in its documentation instead.
//!
//! Two uses need no reason: an unsafe attribute (`#[unsafe(no_mangle)]`) and
//! the type of a pointer to an unsafe function.

use super::lex::{Lexed, find_word};
use super::outcome::Outcome;
use super::tree::Tree;
use super::unsafety::may_hold;

/// What stands behind the word `unsafe`.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// An attribute or the type of a function pointer.
    Exempt,
    /// We promise: a block, an implementation, an `extern` block.
    Promise,
    /// Others must promise: a function or a trait.
    Demand,
}

/// Tells the uses apart by what follows, on this line or the next.
fn classify(rest: &str) -> Use {
    let mut rest = rest.trim_start();
    if rest.starts_with('(') {
        return Use::Exempt;
    }
    if let Some(after) = rest.strip_prefix("extern") {
        rest = after.trim_start().trim_start_matches("\"\"").trim_start();
    }
    if let Some(after) = rest.strip_prefix("fn") {
        if after.trim_start().starts_with('(') {
            return Use::Exempt;
        }
        return Use::Demand;
    }
    if find_word(rest, "trait") == Some(0) {
        return Use::Demand;
    }
    Use::Promise
}

/// Whether a comment on the line, or right above the statement that the line
/// belongs to, contains one of `words`.
fn has_comment(lexed: &Lexed, line: usize, words: &[&str]) -> bool {
    let says = |comment: &str| words.iter().any(|word| comment.contains(word));
    if says(&lexed.lines[line].comment) {
        return true;
    }
    let mut in_comment = false;
    for above in lexed.above(line) {
        if above.is_only_comment() {
            in_comment = true;
            if says(&above.comment) {
                return true;
            }
        } else if above.is_attribute() {
            // Attributes stand between an item and its comment.
        } else {
            // Code above the comment, or the end of another statement: too far.
            let code = above.code.trim_end();
            let ends = code.ends_with([';', '{', '}', ',']);
            if in_comment || ends || above.is_blank() {
                return false;
            }
        }
    }
    false
}

/// Every `unsafe` of the crates that may hold it.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut sources = 0;
    for source in tree.sources().filter(|source| may_hold(source.path)) {
        sources += 1;
        for (i, line) in source.lexed.lines.iter().enumerate() {
            let mut from = 0;
            while let Some(at) = find_word(&line.code[from..], "unsafe") {
                from += at + "unsafe".len();
                let rest = line.code[from..].trim();
                let next = source.lexed.lines.get(i + 1);
                let next = next.map_or("", |next| next.code.as_str());
                let (words, needs): (&[&str], _) =
                    match classify(if rest.is_empty() { next } else { rest }) {
                        Use::Exempt => continue,
                        Use::Promise => (&["SAFETY:"], "a `SAFETY:` comment right above"),
                        Use::Demand => (
                            &["# Safety", "SAFETY:"],
                            "a `# Safety` section in its documentation",
                        ),
                    };
                outcome.checked += 1;
                if !has_comment(source.lexed, i, words) {
                    outcome.find(source.place(i), format!("unsafe without {needs}"));
                }
            }
        }
    }
    if sources == 0 {
        return Outcome::skipped("no crate that may hold unsafe code yet");
    }
    outcome
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
    fn reasons_are_found() {
        let text = "\
// SAFETY: the pointer is ours,
// and nobody else has it.
#[allow(dead_code)]
unsafe impl Send for A {}
fn f() {
    unsafe { g() } // SAFETY: see above.
    // SAFETY: a call over several lines.
    let x = call(a)
        .then(|| unsafe { g() });
}
/// Does.
///
/// # Safety
/// The caller must.
#[inline]
pub unsafe fn h() {}
type F = unsafe extern \"C\" fn(u8);
#[unsafe(no_mangle)]
pub extern \"C\" fn k() {}
";
        assert_eq!(findings(text), (4, vec![]));
    }

    #[test]
    fn canary_block_without_reason() {
        assert_eq!(
            findings("fn f() {\n    unsafe { g() }\n}\n").1,
            ["crates/shm/src/a.rs:2"]
        );
    }

    #[test]
    fn canary_reason_too_far() {
        let text = "// SAFETY: for another.\nlet a = b;\nunsafe { g() }\n";
        assert_eq!(findings(text).1, ["crates/shm/src/a.rs:3"]);
        let text = "// SAFETY: for nobody.\n\nunsafe { g() }\n";
        assert_eq!(findings(text).1, ["crates/shm/src/a.rs:3"]);
    }

    #[test]
    fn canary_impl_fn_trait_extern() {
        assert_eq!(findings("unsafe impl Send for A {}\n").1.len(), 1);
        assert_eq!(findings("/// Does.\npub unsafe fn h() {}\n").1.len(), 1);
        assert_eq!(findings("unsafe extern \"C\" fn h() {}\n").1.len(), 1);
        assert_eq!(findings("unsafe extern \"C\" {\n}\n").1.len(), 1);
        assert_eq!(findings("/// Does.\nunsafe trait T {}\n").1.len(), 1);
        assert_eq!(findings("let x = unsafe\n{ g() };\n").1.len(), 1);
    }

    #[test]
    fn a_contract_is_no_reason_for_a_block() {
        let text = "/// # Safety\nunsafe { g() }\n";
        assert_eq!(findings(text).1.len(), 1);
    }
}
