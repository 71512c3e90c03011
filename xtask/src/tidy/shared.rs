//! No exclusive reference to what threads share. `&'static mut` outlives the lock under which it
//! was made, and a table that it leads to may be read without that lock: a data race, which
//! volatile reads do not mend. A table is reached through the lock's guard (`DerefMut`), and what is
//! read without the lock is made of atomics.

use super::outcome::Outcome;
use super::tree::Tree;
use super::unsafety;

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for source in tree
        .sources()
        .filter(|source| unsafety::may_hold(source.path))
    {
        outcome.checked += 1;
        for (i, line) in source.lexed.lines.iter().enumerate() {
            let words: String = line.code.split_whitespace().collect::<Vec<_>>().join(" ");
            if words.contains("&'static mut ") || words.contains("static mut ") {
                outcome.find(
                    source.place(i),
                    "an exclusive reference or variable without a lock: use a guard, or atomics",
                );
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        let outcome = check(&Tree::of(&[(path, text)]));
        outcome.findings.into_iter().map(|f| f.place).collect()
    }

    #[test]
    fn canaries() {
        for bad in [
            "struct A {\n    tables: &'static mut Tables,\n}",
            "fn f() ->\n    Option<&'static  mut [u32]> {}",
            "fn f() {}\nstatic mut COUNT: u32 = 0;",
        ] {
            let found = places("crates/sockets/src/a.rs", bad);
            assert_eq!(found, ["crates/sockets/src/a.rs:2"], "{bad}");
        }
    }

    #[test]
    fn others_are_fine() {
        for good in [
            "// never &'static mut\nstruct A<'a>(&'a mut u32, &'static u32);",
            "static COUNT: AtomicU32 = AtomicU32::new(0);",
        ] {
            let found = places("crates/sockets/src/a.rs", good);
            assert_eq!(found, Vec::<String>::new(), "{good}");
        }
        let elsewhere = places("crates/cli/src/a.rs", "fn f(_: &'static mut u32) {}");
        assert_eq!(elsewhere, Vec::<String>::new());
    }
}
