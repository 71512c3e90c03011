//! The command and the library that is preloaded into programs, for the tests that need both.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

#[path = "../../../sockets/tests/built/mod.rs"]
mod built;

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

/// The library: as the environment says, or built from the present sources, however old what lies there is.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("BAREWIRE_PRELOAD_LIB") {
            return path.into();
        }
        let folder = Path::new(env!("CARGO_BIN_EXE_barewire")).parent().unwrap();
        built::build(folder).unwrap_or_else(|error| panic!("{error}"))
    })
}
