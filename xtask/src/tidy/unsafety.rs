//! Unsafe has an address: only the crates and files named here may hold any.
//! Every other crate forbids it at its root, and none of its sources says the
//! word. A crate with one such file denies it at its root, and forbids it when
//! the feature that brings the file is off, if there is one.

use super::lex::find_word;
use super::outcome::Outcome;
use super::tree::Tree;
use super::workspace::Workspace;

/// The crates that may hold `unsafe`: instructions, shared memory, the kernel, the system, libfabric, and the libraries
/// whose functions are an ABI: the preload library, the face for C, the provider for libfabric, the VI Provider Library.
const MAY_HOLD: &[&str] = &[
    "crates/cpu",
    "crates/calls",
    "crates/capi",
    "crates/fi",
    "crates/ofi",
    "crates/shm",
    "crates/sys",
    "crates/sockets",
    "crates/vipl",
];

/// Single files of other crates that may hold `unsafe`: vector code, memory that Python sees in place, and functions
/// that packetdrill calls.
const FILES_MAY_HOLD: &[&str] = &[
    "crates/wire/src/checksum/simd.rs",
    PYTHON_VIEW,
    PACKETDRILL_BORDER,
];
const PYTHON_VIEW: &str = "python/src/view.rs";
const PACKETDRILL_BORDER: &str = "tests/packetdrill/src/border.rs";

/// What the root of a crate says that may hold none.
const FORBIDS: &[&str] = &["#![forbid(unsafe_code)]"];
/// What the roots of the crates say that have [`PYTHON_VIEW`] and [`PACKETDRILL_BORDER`].
const DENIES: &[&str] = &["#![deny(unsafe_code)]"];
/// What the root of a crate says whose feature `simd` brings one of [`FILES_MAY_HOLD`].
const FORBIDS_WITHOUT_SIMD: &[&str] = &[
    "#![cfg_attr(not(feature=\"simd\"),forbid(unsafe_code))]",
    "#![cfg_attr(feature=\"simd\",deny(unsafe_code))]",
];

fn lies_in(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the file or folder at `path` may hold `unsafe`.
pub(crate) fn may_hold(path: &str) -> bool {
    MAY_HOLD.iter().any(|dir| lies_in(path, dir)) || FILES_MAY_HOLD.contains(&path)
}

/// The lines that the root of the crate in `dir` must have.
fn demands(dir: &str) -> &'static [&'static str] {
    match FILES_MAY_HOLD.iter().find(|file| lies_in(file, dir)) {
        Some(&PYTHON_VIEW | &PACKETDRILL_BORDER) => DENIES,
        Some(_) => FORBIDS_WITHOUT_SIMD,
        None => FORBIDS,
    }
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
            for &demand in demands(&krate.dir) {
                // The lexer empties strings, and a feature's name is one.
                let mut lines = tree.text(root).unwrap_or_default().lines();
                if !lines.any(|line| line.replace(' ', "") == demand) {
                    outcome.find(root, format!("needs `{demand}`"));
                }
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
                    "unsafe code: only shm, sys, the ABI crates and the files named in tidy may hold it",
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
    fn canary_root_of_a_crate_with_one_unsafe_file() {
        let workspace = Workspace {
            crates: vec![Crate {
                dir: "crates/wire".into(),
                roots: vec!["crates/wire/src/lib.rs".into()],
                ..Crate::default()
            }],
            ..Workspace::default()
        };
        let forbid = "#![cfg_attr(not(feature = \"simd\"), forbid(unsafe_code))]\n";
        let deny = "#![cfg_attr(feature = \"simd\", deny(unsafe_code))]\n";
        let findings = |text: &str| {
            let tree = Tree::of(&[("crates/wire/src/lib.rs", text)]);
            check_roots(&workspace, &tree).findings.len()
        };
        assert_eq!(findings(&format!("{forbid}{deny}")), 0);
        assert_eq!(findings(forbid), 1);
        assert_eq!(findings(&format!("// {forbid}{deny}")), 1);
        assert!(may_hold("crates/wire/src/checksum/simd.rs"));
        assert!(may_hold("python/src/view.rs") && !may_hold("python/src/lib.rs"));
        assert!(!may_hold("crates/wire/src/checksum/simd_too.rs"));
        assert!(!may_hold("crates/wire/src/checksum.rs"));
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
