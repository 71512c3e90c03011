//! Files that results are written to.

use std::path::{Path, PathBuf};

use crate::error::{Result, What};

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).what(&format!("writing {}", path.display()))
}

/// Finds out before minutes of measuring whether reports can be written to these files.
pub fn check_writable<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    for path in paths {
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .what(&format!("writing {}", path.display()))?;
    }
    Ok(())
}
