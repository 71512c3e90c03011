//! Clocks, entropy and threads only in `sys` and above: the crates of tiers 0
//! and 1 are handed the time and their random numbers, so the same code runs in
//! the product, the simulator and a fuzzer. Their tests may do as they like.

use super::lex::find_word;
use super::outcome::Outcome;
use super::tiers::network_crates_below;
use super::tree::Tree;

/// The lowest tier that may read a clock.
const TIER_MIN: u32 = 2;

/// Paths that read a clock, ask for entropy or make threads; a path is banned
/// with everything below it.
const BANNED: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "std::thread",
    "rand",
    "getrandom",
    "fastrand",
];

/// Names that give the same away however they came into scope.
const BANNED_NAMES: &[&str] = &["SystemTime", "UNIX_EPOCH", "getrandom"];

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut sources: Vec<_> = network_crates_below(TIER_MIN)
        .flat_map(|dir| tree.shipped_sources(&dir))
        .collect();
    // Formats, cores and models of the laboratory are such crates too, by their nature.
    for dir in ["lab/formats", "lab/classic", "lab/models", "lab/des"] {
        sources.extend(tree.shipped_sources(dir));
    }
    for source in &sources {
        outcome.checked += 1;
        // A `use` may go over several lines; it is judged where it begins.
        let mut import: Option<(usize, String)> = None;
        for (i, line) in source.lexed.lines.iter().enumerate() {
            if line.in_test {
                import = None;
                continue;
            }
            let code = line.code.trim();
            let begins = import.is_none() && find_use(code).is_some();
            if begins {
                import = Some((i, String::new()));
            }
            if let Some((begin, text)) = &mut import {
                let begin = *begin;
                text.push_str(if begins {
                    &code[find_use(code).unwrap_or(0)..]
                } else {
                    code
                });
                if text.contains(';') {
                    let paths = expand(text.split(';').next().unwrap_or(""));
                    if let Some(banned) = paths.iter().find_map(|path| banned_path(path)) {
                        report(&mut outcome, &source.place(begin), banned);
                    }
                    import = None;
                }
                continue;
            }
            if let Some(banned) = banned_in_code(code) {
                report(&mut outcome, &source.place(i), banned);
            }
        }
    }
    outcome
}

fn report(outcome: &mut Outcome, place: &str, banned: &str) {
    outcome.find(
        place,
        format!("{banned}: this tier is handed its time, chance and threads from above"),
    );
}

/// Where the tree of a `use` begins, in a line that begins one.
fn find_use(code: &str) -> Option<usize> {
    let at = find_word(code, "use")?;
    let before = code[..at].trim();
    let begins = before.is_empty() || before.starts_with("pub") || before.ends_with(']');
    begins.then_some(at + "use".len())
}

/// The paths of a use tree, without spaces, aliases or a leading `::`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        return vec![path.replace(' ', "").trim_start_matches("::").to_owned()];
    };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let prefix = prefix.replace(' ', "");
    let prefix = prefix.trim_start_matches("::");
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .flat_map(expand)
        .map(|path| format!("{prefix}{path}"))
        .collect()
}

/// The ban that an imported path breaks. Bringing in a parent is harmless until
/// it is used, except by `*`.
fn banned_path(path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches("::self");
    let star = path.strip_suffix("::*");
    BANNED.iter().copied().find(|&banned| {
        let below = |rest: &str| rest.is_empty() || rest.starts_with("::");
        path.strip_prefix(banned).is_some_and(below)
            || star.is_some_and(|parent| banned.strip_prefix(parent).is_some_and(below))
    })
}

/// The ban that a line of code breaks.
fn banned_in_code(code: &str) -> Option<&'static str> {
    let by_path = BANNED.iter().copied().find(|banned| {
        if banned.contains("::") {
            // `time::Instant` behind `use std::time` is the same thing.
            let short = banned.strip_prefix("std::").unwrap_or(banned);
            let short_is_path = short.contains("::") && find_word(code, short).is_some();
            find_word(code, banned).is_some() || short_is_path
        } else {
            find_word(code, &format!("{banned}::")).is_some()
                || code.contains(&format!(" {banned}::"))
                || code.contains(&format!("({banned}::"))
                || code.starts_with(&format!("{banned}::"))
        }
    });
    by_path.or_else(|| {
        BANNED_NAMES
            .iter()
            .copied()
            .find(|name| find_word(code, name).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let outcome = check(&Tree::of(&[("crates/fabric/src/a.rs", text)]));
        assert_eq!(outcome.checked, 1);
        outcome.findings.into_iter().map(|f| f.place).collect()
    }

    #[test]
    fn harmless_is_fine() {
        let text = "\
use core::time::Duration;
use std::time::Duration as D;
use barewire_units::{Instant, Rng};
// std::thread::spawn
fn f(now: Instant) { operand::g(\"std::time::Instant\"); brand::new(); }
#[cfg(test)]
mod tests {
    use std::thread;
    fn t() { std::time::Instant::now(); }
}
";
        assert_eq!(findings(text), Vec::<String>::new());
    }

    #[test]
    fn canaries() {
        for bad in [
            "use std::time::Instant;",
            "use std::time::{Duration, Instant};",
            "use std::{fmt, time::{self, SystemTime}};",
            "pub(crate) use ::std::thread::sleep as nap;",
            "use std::thread;",
            "use std::thread::{self, JoinHandle};",
            "use std::time::*;",
            "use rand::Rng;",
            "use rand;",
            "fn f() { let t = std::time::Instant::now(); }",
            "fn f() { let t = time::Instant::now(); }",
            "fn f() { std::thread::yield_now(); }",
            "fn f() { rand::random::<u8>(); }",
            "fn f() { let x = ::getrandom::fill(b); }",
            "fn f(t: SystemTime) {}",
            "#[cfg(not(test))] use std::thread;",
        ] {
            assert_eq!(findings(bad).len(), 1, "{bad}");
        }
        assert_eq!(
            findings("use std::{\n    fmt,\n    thread,\n};\n"),
            ["crates/fabric/src/a.rs:1"]
        );
    }

    #[test]
    fn the_system_may() {
        let tree = Tree::of(&[("crates/sys/src/a.rs", "use std::time::Instant;")]);
        let outcome = check(&tree);
        assert_eq!((outcome.checked, outcome.findings.len()), (0, 0));
    }
}
