//! Lines that are appended to a file that the environment names.

use core::ffi::CStr;

use barewire_calls::{descriptor, process};

use crate::system::fd_passing;
use crate::system::kernel::Owned;
use crate::system::text::Line;

/// Longest path, with the zero behind it.
const PATH_BYTES: usize = 4096;
/// Longest line that is appended.
const LINE_BYTES_MAX: u64 = 1024;

/// Appends a line to a file; `%p` in its name is the process id. Returns whether that was possible.
pub fn append(path: &CStr, line: &[u8]) -> bool {
    open(path).is_some_and(|file| descriptor::write(file.raw(), line).is_ok())
}

/// Whether lines can be appended to it now. It is made if it is not there.
pub fn can_append(path: &CStr) -> bool {
    open(path).is_some()
}

fn open(path: &CStr) -> Option<Owned> {
    let mut name = Line::<PATH_BYTES>::new();
    let mut pieces = path.to_bytes().split(|&byte| byte == b'%');
    if let Some(first) = pieces.next() {
        name.text(first);
    }
    for piece in pieces {
        match piece.strip_prefix(b"p") {
            Some(rest) => {
                name.number(u64::from(process::id()));
                name.text(rest);
            }
            None => {
                name.text(b"%");
                name.text(piece);
            }
        }
    }
    name.text(&[0]);
    // A name that was cut does not end with a zero.
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok();
    name.and_then(open_to_append)
}

/// Opens a file that a line may be appended to. Others may be able to write to its folder (`/tmp`):
/// they must not make the program write to a file of their choice, nor wait. So no link is followed
/// in the last part of the path, and nothing is written but to a regular file that has no other name.
fn open_to_append(path: &CStr) -> Option<Owned> {
    let flags = libc::O_WRONLY
        | libc::O_APPEND
        | libc::O_CREAT
        | libc::O_NOFOLLOW
        | libc::O_NONBLOCK
        | libc::O_NOCTTY;
    let file = descriptor::open_in(libc::AT_FDCWD, path, flags, 0o644);
    let file = file.ok().map(Owned::from_raw)?;
    let status = descriptor::status(file.raw()).ok()?;
    let is_file = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    // To write beyond the limit for files would end the program (SIGXFSZ).
    let bytes = status.st_size.unsigned_abs() + LINE_BYTES_MAX;
    let has_room = bytes <= fd_passing::file_bytes_max();
    (is_file && has_room && status.st_nlink == 1).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn opens(path: &Path) -> bool {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        open_to_append(&path).is_some()
    }

    #[test]
    fn only_a_file_of_one_name_is_written_to() {
        let folder = std::env::temp_dir().join(format!("barewire-append-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let [file, link, second, pipe] =
            ["file", "link", "second", "pipe"].map(|name| folder.join(name));
        assert!(opens(&file) && opens(&file));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(!opens(&link));
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        // Without a reader, and with one.
        assert!(!opens(&pipe));
        let reader = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&pipe);
        assert!(!opens(&pipe));
        drop(reader);
        assert!(!opens(&folder));
        std::fs::hard_link(&file, &second).unwrap();
        assert!(!opens(&file) && !opens(&second));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
