//! The project speaks of the software alone: no path of a machine it was made
//! on, no address of a package registry.

use super::lex::is_word;
use super::outcome::Outcome;
use super::tree::Tree;

/// This list, and the samples below, are the one place where they stand.
const HERE: &str = "xtask/src/tidy/addresses.rs";

/// Folders of a machine; found only where a path begins.
const FOLDERS: &[&str] = &["/work/", "/root/", "/.cargo/registry/", "/tmp/t-"];

/// Addresses; found anywhere.
const HOSTS: &[&str] = &[
    "crates.io/api",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    "pypi.org/simple",
    "files.pythonhosted.org",
    "proxy.golang.org",
    "registry.npmjs.org",
];

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for (path, text) in tree.files().filter(|&(path, _)| path != HERE) {
        outcome.checked += 1;
        for (i, line) in text.lines().enumerate() {
            let begins_there = |folder: &&&str| {
                line.match_indices(**folder).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '/' | '}'))
                })
            };
            let folder = FOLDERS.iter().find(begins_there);
            let host = HOSTS.iter().find(|host| line.contains(**host));
            if let Some(found) = folder.or(host) {
                outcome.find(
                    format!("{path}:{}", i + 1),
                    format!("names `{found}`: a machine's path or a registry's address"),
                );
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canaries() {
        let tree = Tree::of(&[
            ("a.md", "see /work/main\n"),
            ("b.rs", "\"/root/x\"\n"),
            ("c.toml", "registry = \"https://index.crates.io/\"\n"),
            (
                "fine.md",
                "a/work/b ../root/ https://crates.io/crates/libc\n",
            ),
            (HERE, "/work/\n"),
        ]);
        let outcome = check(&tree);
        assert_eq!(outcome.checked, 4);
        let places: Vec<_> = outcome.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(places, ["a.md:1", "b.rs:1", "c.toml:1"]);
    }
}
