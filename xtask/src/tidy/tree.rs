//! The text files of the project, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::lex::{Lexed, after_attributes, is_test_attribute};

/// The text files by their path from the root, in order.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    /// The Rust sources among them.
    lexed: BTreeMap<String, Lexed>,
    /// Everything that links may point to: these files and those not text.
    paths: BTreeSet<String>,
}

/// A Rust source, lexed.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) lexed: &'a Lexed,
}

impl Source<'_> {
    /// `path:line` with lines counted from 1.
    pub(crate) fn place(&self, line: usize) -> String {
        format!("{}:{}", self.path, line + 1)
    }
}

impl Tree {
    /// Reads what git tracks or would track: never build outputs. Without git
    /// (an unpacked archive) everything but `target` and dot folders.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let listed = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard")
            .output();
        let paths = match listed {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
                .split_terminator('\0')
                .map(str::to_owned)
                .collect(),
            _ => walk(root)?,
        };
        let mut tree = Self::default();
        for path in paths {
            // A file deleted but still in the index is no file; a link is not text.
            let Ok(meta) = root.join(&path).symlink_metadata() else {
                continue;
            };
            if meta.is_file() {
                let bytes =
                    std::fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    tree.add(&path, text);
                }
            }
            tree.paths.insert(path);
        }
        Ok(tree)
    }

    fn add(&mut self, path: &str, text: String) {
        if path.ends_with(".rs") {
            self.lexed.insert(path.to_owned(), Lexed::new(&text));
        }
        self.files.insert(path.to_owned(), text);
    }

    /// A tree of samples.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for &(path, text) in files {
            tree.add(path, text.to_owned());
            tree.paths.insert(path.to_owned());
        }
        tree
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether a file, or a folder with files in it, has this path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&folder))
    }

    /// A Rust source, lexed.
    pub(crate) fn source(&self, path: &str) -> Option<Source<'_>> {
        let (path, lexed) = self.lexed.get_key_value(path)?;
        Some(Source { path, lexed })
    }

    /// The Rust sources, lexed.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        self.lexed
            .iter()
            .map(|(path, lexed)| Source { path, lexed })
    }

    /// The Rust sources of what a crate ships: those under its `src`, less the
    /// modules that exist only for tests (`#[cfg(test)] mod tests;`).
    pub(crate) fn shipped_sources(&self, crate_dir: &str) -> Vec<Source<'_>> {
        let src = format!("{crate_dir}/src/");
        let sources: Vec<_> = self
            .sources()
            .filter(|source| source.path.starts_with(&src))
            .collect();
        let test_modules: Vec<String> = sources
            .iter()
            .flat_map(|&source| test_modules(source))
            .collect();
        sources
            .into_iter()
            .filter(|source| {
                !test_modules.iter().any(|module| {
                    source
                        .path
                        .strip_prefix(module.as_str())
                        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
                })
            })
            .collect()
    }
}

/// The paths, less `.rs` or `/mod.rs`, of the modules of `source` that stand in
/// files of their own and exist only for tests.
fn test_modules(source: Source<'_>) -> Vec<String> {
    let folder = match source.path.rsplit_once('/') {
        Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    let mut modules = Vec::new();
    let mut pending = false;
    for line in &source.lexed.lines {
        let code = line.code.trim();
        if code.starts_with("#[") {
            pending |= is_test_attribute(code);
        }
        let item = after_attributes(code);
        let name = item
            .strip_suffix(';')
            .and_then(|item| item.rsplit_once("mod "))
            .map(|(_, name)| name.trim());
        if let (true, Some(name)) = (pending, name) {
            modules.push(format!("{folder}/{name}"));
        }
        if !item.is_empty() {
            pending = false;
        }
    }
    modules
}

fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        let entries = std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", path.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let hidden = name.starts_with('.') && !matches!(name.as_str(), ".ci" | ".cargo");
            if is_dir && (name == "target" || hidden) {
                continue;
            }
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            if is_dir {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_only_for_tests_are_not_shipped() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod tests;\npub mod ring;\n",
            ),
            (
                "crates/a/src/ring.rs",
                "#[cfg(all(test, barewire_loom))] mod loom;\nmod slot;\n",
            ),
            ("crates/a/src/ring/loom.rs", ""),
            ("crates/a/src/ring/slot.rs", ""),
            ("crates/a/src/tests/mod.rs", ""),
            ("crates/a/src/tests/deep.rs", ""),
            ("crates/a/tests/it.rs", ""),
        ]);
        let shipped: Vec<_> = tree
            .shipped_sources("crates/a")
            .into_iter()
            .map(|source| source.path.to_owned())
            .collect();
        assert_eq!(
            shipped,
            [
                "crates/a/src/lib.rs",
                "crates/a/src/ring.rs",
                "crates/a/src/ring/slot.rs"
            ]
        );
    }

    #[test]
    fn a_folder_is_held_by_its_files() {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs/ab.md", "")]);
        assert!(tree.holds("docs/a"));
        assert!(tree.holds("docs/ab.md"));
        assert!(!tree.holds("docs/ab"));
    }

    #[test]
    fn walking_leaves_out_build_outputs() {
        let root = std::env::temp_dir().join(format!("barewire-tidy-{}", std::process::id()));
        std::fs::create_dir_all(root.join("target/debug")).unwrap();
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("target/debug/x.rs"), "").unwrap();
        std::fs::write(root.join("src/x.rs"), "").unwrap();
        let found = walk(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Ok(vec!["src/x.rs".to_owned()]));
    }
}
