//! Files on a file system that may be full, read-only or faulty, or whose directory goes away: room set aside,
//! and what a person is told when a write fails.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use barewire_units::ByteSize;
use rustix::fs::{FallocateFlags, StatVfsMountFlags};

/// Has the file system set aside room for the file up to byte `end`, without making the file longer.
/// Returns `false` if it knows no such thing.
///
/// # Errors
///
/// There is not so much room, or the file cannot be written.
pub fn reserve(file: &File, end: u64) -> io::Result<bool> {
    let reserve = || rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, end);
    match rustix::io::retry_on_intr(reserve) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file still has a name: what is written to one without goes away with its last descriptor.
///
/// # Errors
///
/// The file system does not say.
pub fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Why `bytes` more cannot be written to the file at `path`: the error, the file system by its mount
/// point and kind, and how much room it has.
#[must_use]
pub fn explain(path: &Path, error: &io::Error, bytes: u64) -> String {
    let mut text = format!("{}: {error}", path.display());
    let directory = path.parent().unwrap_or(path);
    let Ok(statistics) = rustix::fs::statvfs(directory) else {
        let _ = write!(text, "; {} cannot be reached", directory.display());
        return text;
    };
    if let Some((mount, kind)) = mount_of(directory) {
        let _ = write!(text, "; file system {} ({kind})", mount.display());
    }
    let free = ByteSize::from_bytes(statistics.f_bavail.saturating_mul(statistics.f_frsize));
    let _ = write!(text, ": {free:.1} are free");
    if bytes > 0 {
        let wanted = ByteSize::from_bytes(bytes);
        let _ = write!(text, ", {wanted:.1} are to be written");
    }
    if statistics.f_flag.contains(StatVfsMountFlags::RDONLY) {
        text.push_str(", and it is read-only");
    }
    text
}

/// Where the file system of a directory is mounted, and of which kind it is.
fn mount_of(directory: &Path) -> Option<(PathBuf, String)> {
    let directory = directory.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let of_line = |line: &str| {
        let (mount, rest) = line.split_once(" - ")?;
        let kind = rest.split(' ').next()?.to_owned();
        Some((PathBuf::from(mount.split(' ').nth(4)?), kind))
    };
    let around = mounts.lines().filter_map(of_line);
    let around = around.filter(|(mount, _)| directory.starts_with(mount));
    // The last one of several at the same place hides the others.
    around.max_by_key(|(mount, _)| mount.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_the_file_system_and_what_it_has() {
        let path = std::env::temp_dir().join("record.evb");
        let error = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let text = explain(&path, &error, 5 << 20);
        assert!(
            text.contains("record.evb: No space left on device"),
            "{text}"
        );
        assert!(text.contains("; file system /"), "{text}");
        assert!(text.contains("5.0MiB are to be written"), "{text}");
        let gone = explain(Path::new("/nowhere/record.evb"), &error, 1);
        assert!(gone.ends_with("/nowhere cannot be reached"), "{gone}");
    }
}
