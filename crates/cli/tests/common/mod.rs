//! The library that is preloaded into programs, for the tests that need it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const LIBRARY: &str = "libbarewire_sockets.so";

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
