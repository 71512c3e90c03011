//! Executes another program in this process, with everything as this process found it.
//!
//! The standard library changes three things before `main`: it ignores SIGPIPE, it opens
//! `/dev/null` for descriptors 0 to 2 that are closed, and when it runs another program it
//! clears the signal mask. A program that is started by Barewire must not notice.
//!
//! What is to be restored is noted in a constructor, which every program has that links this
//! crate. So the preload library does not: what both need is in `barewire-calls`.

use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Runs before the standard library does anything.
extern "C" fn note() {
    for (fd, closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: no pointers. Relaxed: one thread so far.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        closed.store(flags < 0, Ordering::Relaxed);
    }
    // SAFETY: zeros are a valid action, and it is ours to write.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    };
    // Relaxed: one thread so far.
    PIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

pub use barewire_calls::process::is_secure;

/// Becomes the program `path`. Returns only if that fails.
///
/// A file that is neither a program nor a script that names its interpreter is given to
/// `/bin/sh`, as shells and `execvp` do.
pub fn exec(
    path: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
) -> io::Error {
    let assignment = |(name, value): &(OsString, OsString)| {
        [name.as_os_str(), OsStr::new("="), value]
            .into_iter()
            .fold(Vec::new(), |mut all, part| {
                all.extend_from_slice(part.as_bytes());
                all
            })
    };
    let texts = || -> Option<(CString, Vec<CString>, Vec<CString>)> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let arguments = arguments
            .iter()
            .map(|text| CString::new(text.clone().into_vec()));
        let environment = environment
            .iter()
            .map(|pair| CString::new(assignment(pair)));
        Some((
            path,
            arguments.collect::<Result<_, _>>().ok()?,
            environment.collect::<Result<_, _>>().ok()?,
        ))
    };
    let Some((path, mut arguments, environment)) = texts() else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    restore();
    let mut error = call(&path, &arguments, &environment);
    if error.raw_os_error() == Some(libc::ENOEXEC) {
        let shell = c"/bin/sh";
        arguments.splice(..arguments.len().min(1), [shell.to_owned(), path]);
        error = call(&shell.to_owned(), &arguments, &environment);
    }
    error
}

fn call(path: &CString, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        let ends = std::iter::once(std::ptr::null());
        texts.iter().map(|text| text.as_ptr()).chain(ends).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with a null pointer and hold strings that live.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

fn restore() {
    for (fd, closed) in (0 as c_int..).zip(&WAS_CLOSED) {
        // Relaxed: written before any other thread began.
        if closed.load(Ordering::Relaxed) {
            // SAFETY: the standard library opened it for nobody; this process uses it no more.
            unsafe { libc::close(fd) };
        }
    }
    // Relaxed: written before any other thread began.
    if !PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default action needs no function.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
