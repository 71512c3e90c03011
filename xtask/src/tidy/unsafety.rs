//! Unsafe has an address: only the crates named here may hold any. Every other
//! crate forbids it at its root, and none of its sources says the word.

use super::Outcome;
use super::lex::find_word;
use super::tree::Tree;
use super::workspace::Workspace;

/// The crates that may hold `unsafe`: shared memory, the system, and the faces
/// that are an ABI.
const MAY_HOLD: &[&str] = &[
    "crates/shm",
    "crates/sys",
    "crates/capi",
    "crates/python",
    "crates/vipl",
    "crates/ofi",
    "crates/sockets",
];

/// Whether the file at `path` belongs to a crate that may hold `unsafe`.
pub(crate) fn may_hold(path: &str) -> bool {
    MAY_HOLD.iter().any(|dir| {
        path.strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// That the root of every other library and program forbids it.
pub(crate) fn check_roots(workspace: &Workspace, tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for krate in &workspace.crates {
        if may_hold(&krate.dir) {
            continue;
        }
        for root in &krate.roots {
            outcome.checked += 1;
            let forbids = tree.sources().any(|source| {
                source.path == root
                    && source.lexed.lines.iter().any(|line| {
                        line.code
                            .replace(' ', "")
                            .contains("#![forbid(unsafe_code)]")
                    })
            });
            if !forbids {
                outcome.find(root, "needs `#![forbid(unsafe_code)]`");
            }
        }
    }
    outcome
}

/// That no source outside those crates has any, tests and examples included
/// (each of those is a crate of its own, which no root speaks for).
pub(crate) fn check_sources(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for source in tree.sources().filter(|source| !may_hold(source.path)) {
        outcome.checked += 1;
        for (i, line) in source.lexed.lines.iter().enumerate() {
            if find_word(&line.code, "unsafe").is_some() {
                outcome.find(
                    source.place(i),
                    "unsafe code: only shm, sys and the ABI crates may hold it",
                );
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Crate;
    use super::*;

    #[test]
    fn canary_root_without_forbid() {
        let krate = |dir: &str| Crate {
            dir: dir.into(),
            roots: vec![format!("{dir}/src/lib.rs")],
            ..Crate::default()
        };
        let workspace = Workspace {
            crates: vec![
                krate("crates/good"),
                krate("crates/bad"),
                krate("crates/shm"),
            ],
            ..Workspace::default()
        };
        let tree = Tree::of(&[
            (
                "crates/good/src/lib.rs",
                "//! A.\n#![forbid(unsafe_code)]\n",
            ),
            ("crates/bad/src/lib.rs", "//! #![forbid(unsafe_code)]\n"),
            ("crates/shm/src/lib.rs", "//! C.\n"),
        ]);
        let outcome = check_roots(&workspace, &tree);
        assert_eq!(outcome.checked, 2);
        assert_eq!(outcome.findings.len(), 1);
        assert_eq!(outcome.findings[0].place, "crates/bad/src/lib.rs");
    }

    #[test]
    fn canary_unsafe_elsewhere() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        let tree = Tree::of(&[
            ("crates/shm/src/a.rs", text),
            ("crates/shmoo/src/a.rs", text),
            ("crates/cli/tests/a.rs", text),
            (
                "crates/cli/src/a.rs",
                "// unsafe\nconst A: &str = \"unsafe\";\n#![forbid(unsafe_code)]\n",
            ),
        ]);
        let outcome = check_sources(&tree);
        assert_eq!(outcome.checked, 3);
        let places: Vec<_> = outcome.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(
            places,
            ["crates/cli/tests/a.rs:2", "crates/shmoo/src/a.rs:2"]
        );
    }
}
