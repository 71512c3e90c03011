//! A summary in numbers: one line at exit, if `BAREWIRE_SOCKETS_REPORT` asks for it.

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use barewire_calls::descriptor;

use crate::process::words::{AtStart, Lone};
use crate::process::{ids, settings};
use crate::system::fd_passing;
use crate::system::kernel::Owned;
use crate::system::text::{LINE_BYTES, Line};
use crate::table::{descriptors, socket_state};

static UPGRADED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static REFUSED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static STEPPED_BACK: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
/// Of sockets that are closed.
static BYTES_OUT: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static BYTES_IN: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));

/// Where a line goes, as the environment said at start: our copy, since there are programs that
/// clear their environment and write over it, or set it for others.
pub struct Target(AtStart<AtomicPtr<c_char>>);

impl Target {
    /// Nowhere.
    pub const fn nowhere() -> Self {
        Self(AtStart::new(AtomicPtr::new(null_mut())))
    }

    /// Reads the variable of this name. For the constructor.
    pub fn read(&self, name: &CStr) -> Option<&'static CStr> {
        let value = settings::variable(name).filter(|value| !value.is_empty())?;
        // SAFETY: a string; without memory for the copy nothing is told.
        let copy = unsafe { libc::strdup(value.as_ptr()) };
        self.0.set(copy);
        self.get()
    }

    /// Where it goes, if anywhere.
    pub fn get(&self) -> Option<&'static CStr> {
        let target = self.0.get();
        // SAFETY: it is null or a string that stays.
        (!target.is_null()).then(|| unsafe { CStr::from_ptr(target) })
    }
}

/// Where the line at exit goes.
static TARGET: Target = Target::nowhere();

/// Notes whether a line was asked for.
pub fn set_up() {
    TARGET.read(c"BAREWIRE_SOCKETS_REPORT");
}

/// A connection is upgraded.
pub fn upgraded() {
    UPGRADED.add(1);
}

/// A connection looked for its other end and did not find it.
pub fn refused() {
    REFUSED.add(1);
}

/// A direction went back to the line.
pub fn stepped_back() {
    STEPPED_BACK.add(1);
}

/// This process is done with a socket: its bytes are added up, but for those that another process, or
/// an earlier call, has added up. The socket state keeps its counts, for whoever is told of them later.
pub fn closed(socket: &socket_state::SocketState) {
    let [out_reported, in_reported] = &socket.bytes_reported;
    for (moved, reported, sum) in [
        (&socket.ring_bytes_out, out_reported, &BYTES_OUT),
        (&socket.ring_bytes_in, in_reported, &BYTES_IN),
    ] {
        let now = moved.get();
        let before = reported.raise(now);
        sum.add(now.saturating_sub(before));
    }
}

/// A child begins with nothing.
pub fn forget() {
    for counter in [&UPGRADED, &REFUSED, &STEPPED_BACK, &BYTES_OUT, &BYTES_IN] {
        // What is not written is still one page with the parent's.
        if counter.get() != 0 {
            counter.set(0);
        }
    }
}

/// Whether a line was asked for.
pub fn is_wanted() -> bool {
    TARGET.get().is_some()
}

/// Appends the line to the file that the environment named at start.
pub fn write() {
    let Some(path) = TARGET.get() else {
        return;
    };
    descriptors::for_each_own(closed);
    let mut line = Line::new();
    for (text, counter) in [
        (&b"upgraded="[..], &UPGRADED),
        (b" ring_bytes_out=", &BYTES_OUT),
        (b" ring_bytes_in=", &BYTES_IN),
        (b" stepped_back=", &STEPPED_BACK),
        (b" refused=", &REFUSED),
    ] {
        line.text(text);
        line.number(counter.get());
    }
    line.text(b" pid=");
    line.number(u64::from(ids::id()));
    line.text(b"\n");
    append(path, &line);
}

/// Appends a line to a file; `%p` in its name is the process id.
pub fn append(path: &CStr, line: &Line) {
    let mut name = Line::<LINE_BYTES>::new();
    let mut pieces = path.to_bytes().split(|&byte| byte == b'%');
    if let Some(first) = pieces.next() {
        name.text(first);
    }
    for piece in pieces {
        match piece.strip_prefix(b"p") {
            Some(rest) => {
                name.number(u64::from(ids::id()));
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
    if let Some(file) = name.and_then(open_to_append) {
        let _ = descriptor::write(file.raw(), line.as_bytes());
    }
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
    let bytes = status.st_size.unsigned_abs() + LINE_BYTES as u64;
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
