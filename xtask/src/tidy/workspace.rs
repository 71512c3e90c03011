//! The crates of the workspace and what they depend on, from `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) crates: Vec<Crate>,
}

/// One crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    /// Its folder from the root, such as `crates/shm`.
    pub(crate) dir: String,
    /// The folders of the workspace crates it needs to be built, from the root:
    /// ordinary and build dependencies, not those of its tests alone.
    pub(crate) needs: Vec<String>,
    /// The roots of its libraries and programs, as paths from the root.
    pub(crate) roots: Vec<String>,
}

impl Workspace {
    /// Asks cargo; needs no network.
    pub(crate) fn load() -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // What cargo says at run time: a build may serve several checkouts.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .arg("--offline")
            .current_dir(here)
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("cargo metadata: {why}"));
        }
        Self::parse(&output.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self, String> {
        let metadata: Value =
            serde_json::from_slice(json).map_err(|error| format!("cargo metadata: {error}"))?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let from_root = |path: &Path| -> Result<String, String> {
            path.strip_prefix(&root)
                .map(|path| path.to_string_lossy().into_owned())
                .map_err(|_| format!("{} lies outside the workspace", path.display()))
        };
        let mut crates = Vec::new();
        for package in list(&metadata, "packages")? {
            let manifest = PathBuf::from(text(package, "manifest_path")?);
            let dir = manifest
                .parent()
                .ok_or_else(|| format!("{} has no folder", manifest.display()))?;
            let mut found = Crate {
                dir: from_root(dir)?,
                ..Crate::default()
            };
            for dependency in list(package, "dependencies")? {
                let for_tests = dependency["kind"].as_str() == Some("dev");
                if let (false, Some(path)) = (for_tests, dependency["path"].as_str()) {
                    found.needs.push(from_root(Path::new(path))?);
                }
            }
            for target in list(package, "targets")? {
                let shipped = list(target, "kind")?
                    .iter()
                    .filter_map(Value::as_str)
                    .any(|kind| kind == "bin" || kind.ends_with("lib") || kind == "proc-macro");
                if shipped {
                    found
                        .roots
                        .push(from_root(Path::new(text(target, "src_path")?))?);
                }
            }
            crates.push(found);
        }
        crates.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(Self { root, crates })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata: no {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata: no {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read() {
        let json = br#"{
            "workspace_root": "/w",
            "packages": [{
                "manifest_path": "/w/crates/shm/Cargo.toml",
                "dependencies": [
                    {"kind": null, "path": "/w/crates/units"},
                    {"kind": "build", "path": "/w/crates/wire"},
                    {"kind": "dev", "path": "/w/crates/cli"},
                    {"kind": null, "path": null}
                ],
                "targets": [
                    {"kind": ["lib"], "src_path": "/w/crates/shm/src/lib.rs"},
                    {"kind": ["test"], "src_path": "/w/crates/shm/tests/loom.rs"}
                ]
            }]
        }"#;
        let workspace = Workspace::parse(json).unwrap();
        assert_eq!(workspace.crates.len(), 1);
        let shm = &workspace.crates[0];
        assert_eq!(shm.dir, "crates/shm");
        assert_eq!(shm.needs, ["crates/units", "crates/wire"]);
        assert_eq!(shm.roots, ["crates/shm/src/lib.rs"]);
    }

    #[test]
    fn other_json_is_an_error() {
        assert!(Workspace::parse(b"{}").is_err());
        assert!(Workspace::parse(b"no json").is_err());
    }

    #[test]
    fn this_workspace_loads() {
        let workspace = Workspace::load().unwrap();
        assert!(workspace.crates.iter().any(|found| found.dir == "xtask"));
    }
}
