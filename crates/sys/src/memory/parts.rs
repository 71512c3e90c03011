//! Shared memory that goes to a descriptor without a copy in this program.

use std::os::fd::{AsRawFd, BorrowedFd};

use barewire_calls::call;
use barewire_cpu::after_system_call;
use barewire_shm::Window;

use crate::error::Errno;

/// Writes `before` and then the bytes of a window from `from` on by one system call (`writev`); how many bytes of both were
/// taken. Whoever else has the memory may change it meanwhile: then some mixture is written.
///
/// # Errors
/// What the kernel says. A socket whose other end is gone raises SIGPIPE, as with write(2).
///
/// # Panics
/// If `from` lies outside the window, and not at its end.
pub fn write_parts(
    to: BorrowedFd<'_>,
    before: &[u8],
    window: &Window,
    from: usize,
) -> Result<usize, Errno> {
    let left = window.len_bytes().checked_sub(from);
    let left = left.expect("a place in the window");
    let rest = (window.base().as_ptr().wrapping_add(from).cast_const(), left);
    // SAFETY: the window is mapped for as long as this call lasts, and no reference to its bytes is made here.
    unsafe { write(to, before, rest) }
}

/// As [`write_parts`], with bytes of this program.
///
/// # Errors
/// As [`write_parts`].
pub fn write_slices(to: BorrowedFd<'_>, before: &[u8], rest: &[u8]) -> Result<usize, Errno> {
    // SAFETY: it is a slice.
    unsafe { write(to, before, (rest.as_ptr(), rest.len())) }
}

/// # Safety
/// The bytes at `at` can be read as long as this call lasts.
unsafe fn write(
    to: BorrowedFd<'_>,
    before: &[u8],
    (at, len): (*const u8, usize),
) -> Result<usize, Errno> {
    let part = |at: *const u8, len| libc::iovec {
        iov_base: at.cast_mut().cast(),
        iov_len: len,
    };
    let parts = [part(before.as_ptr(), before.len()), part(at, len)];
    let from = (&raw const parts) as usize;
    // SAFETY: the kernel only reads: a slice, and what the caller answers for.
    let written = unsafe { call(libc::SYS_writev, [to.as_raw_fd() as usize, from, 2]) };
    after_system_call();
    written.map_err(Errno)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::memory::{Access, Memfd};

    #[test]
    fn what_lies_in_a_window_goes_behind_other_bytes() {
        let memory = Memfd::create_sealed("parts", 8192).expect("memory");
        let region = memory.map(Access::ReadWrite).expect("it maps");
        let window = region.window(4096, 3000).expect("it lies there");
        let bytes: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
        window.write_bytes(0, &bytes);
        let (mut reader, writer) = UnixStream::pair().expect("a pair");
        assert_eq!(write_parts(writer.as_fd(), b"head", &window, 0), Ok(3004));
        assert_eq!(write_parts(writer.as_fd(), b"", &window, 2997), Ok(3));
        assert_eq!(write_slices(writer.as_fd(), b"la", b"st"), Ok(4));
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("it reads");
        assert_eq!(
            read,
            [b"head", &bytes[..], &bytes[2997..], b"last"].concat()
        );
    }

    #[test]
    fn a_descriptor_that_takes_nothing_is_an_error() {
        let memory = Memfd::create_sealed("parts", 4096).expect("memory");
        let region = memory.map(Access::ReadWrite).expect("it maps");
        let window = region.window(0, 10).expect("it lies there");
        let only_read = std::fs::File::open("/dev/null").expect("it is there");
        assert_eq!(
            write_parts(only_read.as_fd(), b"", &window, 0),
            Err(Errno(libc::EBADF))
        );
    }
}
