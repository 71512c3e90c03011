//! Another process's memory, and what `/proc` says of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// What the library's file is called, wherever it lies.
const LIBRARY: &str = "barewire_sockets";
/// Nothing that is read is larger.
const READ_MAX: u64 = 8 << 20;

/// The memory of a process.
pub struct Memory(File);

impl Memory {
    /// Opens it. Whoever may trace a process may do so.
    pub fn open(pid: i32) -> io::Result<Memory> {
        File::open(format!("/proc/{pid}/mem")).map(Memory)
    }

    /// Opens it for writing, too.
    pub fn open_to_write(pid: i32) -> io::Result<Memory> {
        let mut options = File::options();
        options.read(true).write(true);
        options.open(format!("/proc/{pid}/mem")).map(Memory)
    }

    /// Puts bytes there, if there is memory.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Option<()> {
        self.0.write_all_at(bytes, at).ok()
    }

    /// Some bytes of it, if all of them are there.
    pub fn read(&self, at: u64, bytes: u64) -> Option<Vec<u8>> {
        if bytes > READ_MAX || i64::try_from(at.checked_add(bytes)?).is_err() {
            return None;
        }
        let mut all = vec![0; usize::try_from(bytes).ok()?];
        self.0.read_exact_at(&mut all, at).ok()?;
        Some(all)
    }
}

/// The numbers among the names in a folder.
pub fn numbers_in(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Where the library's data lie in a process; `None` if it has no preload library, or is not to be
/// seen.
pub fn library_data(pid: i32) -> Option<Vec<(u64, u64)>> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let ours = |line: &&str| line.contains(LIBRARY);
    let data: Vec<_> = maps
        .lines()
        .filter(ours)
        .filter_map(writable_range)
        .collect();
    (!data.is_empty()).then_some(data)
}

/// `FROM-TO rw-p OFFSET DEVICE INODE PATH`
fn writable_range(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    words
        .next()?
        .starts_with("rw")
        .then_some((address(from)?, address(to)?))
}

/// Whose a process is.
pub fn owner(pid: i32) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}
