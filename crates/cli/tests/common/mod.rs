//! The command and the library that is preloaded into programs, for the tests that need both.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const LIBRARY: &str = "libbarewire_sockets.so";

/// The command, without settings of whoever runs the tests.
pub fn barewire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BAREWIRE_") {
            command.env_remove(name);
        }
    }
    command
        .env("BAREWIRE_SOCKETS_LIB", library())
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// The library: as the environment says, beside the command, or built now.
pub fn library() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(path) = std::env::var_os("BAREWIRE_PRELOAD_LIB") {
            return path.into();
        }
        let folder = Path::new(env!("CARGO_BIN_EXE_barewire")).parent().unwrap();
        let mut places = ["", "../release", "../debug"]
            .map(|place| folder.join(place).join(LIBRARY))
            .into_iter();
        places.find(|path| path.is_file()).unwrap_or_else(|| {
            let target = folder.parent().unwrap();
            let mut cargo = Command::new(env!("CARGO"));
            cargo
                .args(["build", "--quiet", "-p", "barewire-sockets", "--target-dir"])
                .arg(target);
            let status = cargo
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(status.success(), "the library is not built");
            target.join("debug").join(LIBRARY)
        })
    })
}
