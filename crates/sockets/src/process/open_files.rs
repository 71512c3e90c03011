//! Open files of processes, by `/proc`: who else has a socket, what a descriptor is, and lists of the kernel's.
//!
//! The socket state counts the processes that have the library. It does not count one that became another
//! program while it had the socket. A relay for such a socket must leave the bytes to that program.

use core::ffi::{CStr, c_int};

use barewire_calls::{call, descriptor};

use crate::process::ids;
use crate::system::kernel::Owned;
use crate::system::text::Line;

/// `struct linux_dirent64`: the length of the entry, and where its name begins.
const LEN_AT: usize = 16;
const NAME_AT: usize = 19;
const CHUNK_BYTES: usize = 8192;
const LIST_BYTES: usize = 4096;
/// Longest name that is looked at: a number.
const NAME_BYTES: usize = 16;

/// Whether another process has the socket, as far as this one may see. Where it cannot look,
/// it takes it that one has.
pub fn is_held_elsewhere(fd: c_int) -> bool {
    let (Some(own), Some(all)) = (identity(fd, c""), open(libc::AT_FDCWD, c"/proc")) else {
        return true;
    };
    let own_id = ids::id();
    any_number(all.raw(), |number, name| {
        number != own_id && has(all.raw(), name, own).unwrap_or(false)
    })
}

/// Whether the process of this folder has the socket. `None`: it is gone, or another user's.
fn has(all: c_int, process: &CStr, socket: (u64, u64)) -> Option<bool> {
    let folder = open(all, process)?;
    let table = open(folder.raw(), c"fd")?;
    Some(any_number(table.raw(), |_, name| {
        identity(table.raw(), name) == Some(socket)
    }))
}

/// A folder, by its name in another.
pub fn open(folder: c_int, name: &CStr) -> Option<Owned> {
    let opened = descriptor::open_in(folder, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
    opened.ok().map(Owned::from_raw)
}

/// What a descriptor (`name` is empty), or a link in a folder, leads to.
fn identity(folder: c_int, name: &CStr) -> Option<(u64, u64)> {
    let status = descriptor::status_in(folder, name).ok()?;
    Some((status.st_dev, status.st_ino))
}

/// Whether the link `name` in a folder leads to `wanted`, if it can be read.
pub fn leads_to(folder: c_int, name: &CStr, wanted: &[u8]) -> Option<bool> {
    let mut target = [0_u8; 32];
    let (name, at) = (name.as_ptr() as usize, target.as_mut_ptr() as usize);
    let given = [folder as usize, name, at, target.len()];
    // SAFETY: the name ends with a zero; `target` has as many bytes.
    let len = unsafe { call(libc::SYS_readlinkat, given) };
    Some(target.get(..len.ok()?)? == wanted)
}

/// Looks at the lines of a file, cut to `BYTES`, until one is found. `None`: it cannot be read.
pub fn find_line<const BYTES: usize, T>(
    path: &CStr,
    mut found: impl FnMut(&[u8]) -> Option<T>,
) -> Option<Option<T>> {
    let file = descriptor::open(path).ok().map(Owned::from_raw)?;
    let mut chunk = [0_u8; LIST_BYTES];
    let mut line = Line::<BYTES>::new();
    loop {
        let read = descriptor::read(file.raw(), &mut chunk).ok()?;
        if read.is_empty() {
            return Some(None);
        }
        for &byte in read {
            if byte != b'\n' {
                line.text(&[byte]);
                continue;
            }
            let result = found(line.as_bytes());
            if result.is_some() {
                return Some(result);
            }
            line = Line::new();
        }
    }
}

/// Whether `test` holds for an entry of a folder whose name is a number.
pub fn any_number(folder: c_int, mut test: impl FnMut(u32, &CStr) -> bool) -> bool {
    let mut chunk = [0_u8; CHUNK_BYTES];
    loop {
        let given = [folder as usize, chunk.as_mut_ptr() as usize, CHUNK_BYTES];
        // SAFETY: `chunk` has as many bytes.
        let read = unsafe { call(libc::SYS_getdents64, given) };
        let Some(mut entries) = read.ok().and_then(|len| chunk.get(..len)) else {
            return false;
        };
        if entries.is_empty() {
            return false;
        }
        while let Some(&[low, high]) = entries.get(LEN_AT..NAME_AT - 1) {
            let len = usize::from(u16::from_ne_bytes([low, high]));
            let Some(entry) = entries.get(..len).filter(|it| it.len() > NAME_AT) else {
                return false;
            };
            if number(&entry[NAME_AT..]).is_some_and(|(number, name)| test(number, name)) {
                return true;
            }
            entries = &entries[len..];
        }
    }
}

fn number(name: &[u8]) -> Option<(u32, &CStr)> {
    let name = CStr::from_bytes_until_nul(name).ok()?;
    let digits = name.to_bytes();
    let is_short = digits.len() < NAME_BYTES;
    let number = core::str::from_utf8(digits).ok()?.parse().ok()?;
    is_short.then_some((number, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_child_that_has_it_is_seen() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_held_elsewhere(near.as_raw_fd()));
        let copy = near.try_clone().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .stdin(std::os::fd::OwnedFd::from(copy))
            .spawn()
            .unwrap();
        assert!(is_held_elsewhere(near.as_raw_fd()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_held_elsewhere(near.as_raw_fd()));
    }
}
