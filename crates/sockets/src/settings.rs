//! Settings, from the environment; read once, at start.
//!
//! | variable | default | what |
//! |---|---|---|
//! | `BAREWIRE_PROFILE` | `balanced` | `latency`, `throughput`, `quiet`: other defaults for the rest |
//! | `BAREWIRE_SPIN_US` | 50 | how long to look before a sleep, at most |
//! | `BAREWIRE_CALLS_BEFORE` | 16 | calls that move bytes before a connection looks for its other end |
//! | `BAREWIRE_BYTES_BEFORE` | 65536 | or so many bytes |
//! | `BAREWIRE_OFF` | | `1`: the library does nothing |
//! | `BAREWIRE_SOCKETS_REPORT` | | a file to append a line to at exit; `%p` is the process id |

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::process;

/// The settings.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Longest look before a sleep.
    pub spin_ns: u64,
    /// Calls before a connection looks for its other end.
    pub calls_before: u32,
    /// Or bytes.
    pub bytes_before: u64,
}

static SPIN_NS: AtomicU64 = AtomicU64::new(50_000);
static CALLS_BEFORE: AtomicU32 = AtomicU32::new(16);
static BYTES_BEFORE: AtomicU64 = AtomicU64::new(65_536);

/// The settings as they are.
#[inline]
pub fn get() -> Settings {
    // Relaxed: written once, before the program's first line.
    Settings {
        spin_ns: SPIN_NS.load(Ordering::Relaxed),
        calls_before: CALLS_BEFORE.load(Ordering::Relaxed),
        bytes_before: BYTES_BEFORE.load(Ordering::Relaxed),
    }
}

/// The value of an environment variable whose name ends with a zero.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero; at start nobody changes the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: the C library's strings end with a zero.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn number(name: &CStr) -> Option<u64> {
    variable(name)?.to_str().ok()?.trim().parse().ok()
}

/// Reads them. Returns `false` if the library is to do nothing.
pub fn read() -> bool {
    if variable(c"BAREWIRE_OFF").is_some_and(|value| value.to_bytes() == b"1") {
        return false;
    }
    let profile = variable(c"BAREWIRE_PROFILE").map_or(&b""[..], CStr::to_bytes);
    let spin_us = match profile {
        b"latency" => 1_000,
        b"quiet" => 0,
        // One processor: whoever looks keeps the other end from answering.
        _ if process::processors() == 1 => 0,
        _ => 50,
    };
    let spin_us = number(c"BAREWIRE_SPIN_US").unwrap_or(spin_us);
    SPIN_NS.store(spin_us.saturating_mul(1000), Ordering::Relaxed);
    if let Some(calls) = number(c"BAREWIRE_CALLS_BEFORE") {
        CALLS_BEFORE.store(u32::try_from(calls).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
    if let Some(bytes) = number(c"BAREWIRE_BYTES_BEFORE") {
        BYTES_BEFORE.store(bytes, Ordering::Relaxed);
    }
    true
}
