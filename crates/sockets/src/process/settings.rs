//! Settings, from the environment; read once, at start.
//!
//! | variable | key | default | what |
//! |---|---|---|---|
//! | `BAREWIRE_PROFILE` | `profile` | `balanced` | `latency`, `throughput`, `quiet`: other defaults for the rest |
//! | `BAREWIRE_SPIN_US` | `spin_us` | 200 | longest time to poll before a sleep |
//! | `BAREWIRE_CALLS_BEFORE` | `calls_before` | 16 | calls that move bytes before a connection looks for its other end; `never`: see `worth` |
//! | `BAREWIRE_BYTES_BEFORE` | `bytes_before` | 1048576 | or so many bytes |
//! | `BAREWIRE_UNIX` | `unix` | 0 | `1`: Unix sockets too |
//! | `BAREWIRE_IO_URING` | `io_uring` | `inspect` | `leave`: a program with an io_uring has all sockets from the kernel; `refuse`: it gets no ring |
//! | `BAREWIRE_OFF` | `off` | 0 | `1`: the library does nothing |
//! | `BAREWIRE_SETTINGS` | | | what `barewire run` read from a file, as below |
//! | `BAREWIRE_WHY` | | | `-` or a file: what became of each connection. See `reason_report` |
//! | `BAREWIRE_WHY_FORMAT` | | `text` | `json`: as JSON |
//! | `BAREWIRE_LOG` | | | a level, then `:` and a file if lines are not to go to standard error. See `log` |
//! | `BAREWIRE_SOCKETS_REPORT` | | | a file to append a line to at exit; `%p` is the process id. A regular file, not a link |
//!
//! | profile | `spin_us` | `calls_before` | `bytes_before` | for |
//! |---|---|---|---|---|
//! | `balanced` | 200 | 16 | 1048576 | most |
//! | `latency` | 1000 | 4 | 16384 | answers at once, at the price of processor time |
//! | `throughput` | 10 | 16 | 1048576 | busy servers: processor time goes to work, not to polling |
//! | `quiet` | 0 | never | 4194304 | batteries and busy hosts: never polls, sleeps at once, upgrades streams only |
//!
//! On one processor no thread polls, unless the profile is `latency` or `spin_us` is set.
//!
//! `BAREWIRE_SETTINGS` is `key=value;key=value;[NAME];key=value...`: what stands behind
//! `[NAME]` is for programs of that name only. Later sources win: the settings for all programs,
//! those for this program, the other variables. Within each, the profile is applied first.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use barewire_units::log::Level;

use crate::process::words::AtStart;
use crate::process::{ids, log};

/// `calls_before` for which no number of calls is enough.
pub const NEVER: u32 = u32::MAX;

/// What becomes of a program that asks for an io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rings {
    /// Its entries are looked at: the sockets that it uses are the kernel's.
    Inspect = 0,
    /// All its sockets are the kernel's.
    Leave = 1,
    /// It gets none, as where the kernel permits none.
    Refuse = 2,
}

/// The settings.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Longest look before a sleep.
    pub spin_ns: u64,
    /// Calls before a connection looks for its other end; or [`NEVER`].
    pub calls_before: u32,
    /// Or bytes.
    pub bytes_before: u64,
    /// Whether Unix sockets are carried.
    pub unix: bool,
    /// What becomes of a program with io_urings.
    pub rings: Rings,
}

/// How long a wait looks, by default: as long as KVM has a guest's processor look before it sleeps
/// (`halt_poll_ns`), since a wake-up costs some tens of microseconds there.
const SPIN_US: u64 = 200;
/// Bytes before a connection looks for its other end, by default. To be upgraded costs what a ring then
/// saves on some 150 KB. One that ends right after that has lost it: little beside what 1 MiB takes.
const BYTES: u64 = 1 << 20;

static SPIN_NS: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(SPIN_US * 1000));
static CALLS_BEFORE: AtStart<AtomicU32> = AtStart::new(AtomicU32::new(16));
static BYTES_BEFORE: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(BYTES));
static UNIX: AtStart<AtomicBool> = AtStart::new(AtomicBool::new(false));
static RINGS: AtStart<AtomicU32> = AtStart::new(AtomicU32::new(Rings::Inspect as u32));

/// The settings as they are.
#[inline]
pub fn get() -> Settings {
    Settings {
        spin_ns: SPIN_NS.get(),
        calls_before: CALLS_BEFORE.get(),
        bytes_before: BYTES_BEFORE.get(),
        unix: UNIX.get(),
        rings: match RINGS.get() {
            0 => Rings::Inspect,
            1 => Rings::Leave,
            _ => Rings::Refuse,
        },
    }
}

/// The value of an environment variable whose name ends with a zero.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero; at start nobody changes the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: the C library's strings end with a zero.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Settings on their way.
struct Draft {
    spin_us: u64,
    calls_before: u64,
    bytes_before: u64,
    unix: bool,
    rings: Rings,
    off: bool,
}

impl Draft {
    /// The defaults of a profile; of `balanced` for a name that is none.
    fn set_profile(&mut self, name: &[u8]) {
        // One processor: whoever looks keeps the other end from answering.
        let look = u64::from(ids::are_many_processors());
        (self.spin_us, self.calls_before, self.bytes_before) = match name {
            b"latency" => (1_000, 4, 16 << 10),
            b"throughput" => (10 * look, 16, BYTES),
            b"quiet" => (0, NEVER.into(), 4 * BYTES),
            other => {
                if other != b"balanced" {
                    not_understood(b"profile", other);
                }
                (SPIN_US * look, 16, BYTES)
            }
        };
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        let number = || core::str::from_utf8(value).ok()?.trim().parse().ok();
        let place = match key {
            b"spin_us" => &mut self.spin_us,
            b"calls_before" if value == b"never" => {
                self.calls_before = NEVER.into();
                return;
            }
            b"calls_before" => &mut self.calls_before,
            b"bytes_before" => &mut self.bytes_before,
            b"unix" => {
                self.unix = is_on(key, value);
                return;
            }
            b"io_uring" => {
                self.rings = match value {
                    b"inspect" => Rings::Inspect,
                    b"leave" => Rings::Leave,
                    b"refuse" => Rings::Refuse,
                    _ => {
                        not_understood(key, value);
                        self.rings
                    }
                };
                return;
            }
            b"off" => {
                self.off = is_on(key, value);
                return;
            }
            _ => return,
        };
        // What is no number changes nothing: a program must not suffer from a typing error.
        match number() {
            Some(number) => *place = number,
            None => not_understood(key, value),
        }
    }
}

fn is_on(key: &[u8], value: &[u8]) -> bool {
    if ![&b"0"[..], b"1"].contains(&value) {
        not_understood(key, value);
    }
    value == b"1"
}

/// Logs that a value has no meaning.
fn not_understood(key: &[u8], value: &[u8]) {
    let (key, value) = (key.escape_ascii(), value.escape_ascii());
    log::line(
        Level::Warn,
        format_args!("the setting {key}={value} is not understood, and left out"),
    );
}

/// Logs which keys there are not.
fn check_keys(text: &[u8]) {
    for item in text.split(|&byte| byte == b';') {
        let key = item.split(|&byte| byte == b'=').next().unwrap_or(item);
        let is_heading = item.starts_with(b"[") && item.ends_with(b"]");
        let is_known = key == b"profile" || KEYS.contains(&key);
        let has_value = key.len() < item.len();
        if !(item.is_empty() || is_heading || (is_known && has_value)) {
            let item = item.escape_ascii();
            log::line(
                Level::Warn,
                format_args!("the setting {item} is not known, and left out"),
            );
        }
    }
}

/// All keys but `profile`.
const KEYS: [&[u8]; 6] = [
    b"spin_us",
    b"calls_before",
    b"bytes_before",
    b"unix",
    b"io_uring",
    b"off",
];

/// One layer: `find` gives the value of a key, if it has one.
fn lay(draft: &mut Draft, find: impl Fn(&[u8]) -> Option<&'static [u8]>) {
    if let Some(profile) = find(b"profile") {
        draft.set_profile(profile);
    }
    for key in KEYS {
        if let Some(value) = find(key) {
            draft.set(key, value);
        }
    }
}

/// The last value of a key in the part of `text` for `program`, or for all if there is none.
fn find_in<'a>(text: &'a [u8], program: Option<&[u8]>, key: &[u8]) -> Option<&'a [u8]> {
    let mut part = None;
    let mut found = None;
    for item in text.split(|&byte| byte == b';') {
        let name = item
            .strip_prefix(b"[")
            .and_then(|rest| rest.strip_suffix(b"]"));
        if name.is_some() {
            part = name;
            continue;
        }
        let Some(at) = item.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        if part == program && &item[..at] == key {
            found = Some(&item[at + 1..]);
        }
    }
    found
}

fn own_variable(key: &[u8]) -> Option<&'static [u8]> {
    let name = match key {
        b"profile" => c"BAREWIRE_PROFILE",
        b"spin_us" => c"BAREWIRE_SPIN_US",
        b"calls_before" => c"BAREWIRE_CALLS_BEFORE",
        b"bytes_before" => c"BAREWIRE_BYTES_BEFORE",
        b"unix" => c"BAREWIRE_UNIX",
        b"io_uring" => c"BAREWIRE_IO_URING",
        _ => c"BAREWIRE_OFF",
    };
    variable(name).map(CStr::to_bytes)
}

/// The last part of the name that this program was started by.
fn program_name() -> &'static [u8] {
    // SAFETY: a variable of the C library's, of this type.
    unsafe extern "C" {
        static program_invocation_short_name: *const c_char;
    }
    // SAFETY: the C library set it before any constructor, to a string or to null.
    unsafe {
        let name = program_invocation_short_name;
        if name.is_null() {
            return b"";
        }
        CStr::from_ptr(name).to_bytes()
    }
}

/// Reads them. Returns `false` if the library is to do nothing.
pub fn read() -> bool {
    let mut draft = Draft {
        spin_us: 0,
        calls_before: 0,
        bytes_before: 0,
        unix: false,
        rings: Rings::Inspect,
        off: false,
    };
    draft.set_profile(b"balanced");
    if let Some(text) = variable(c"BAREWIRE_SETTINGS").map(CStr::to_bytes) {
        check_keys(text);
        lay(&mut draft, |key| find_in(text, None, key));
        let name = program_name();
        lay(&mut draft, |key| find_in(text, Some(name), key));
    }
    lay(&mut draft, own_variable);
    SPIN_NS.set(draft.spin_us.saturating_mul(1000));
    let calls = u32::try_from(draft.calls_before).unwrap_or(u32::MAX);
    CALLS_BEFORE.set(calls);
    BYTES_BEFORE.set(draft.bytes_before);
    UNIX.set(draft.unix);
    RINGS.set(draft.rings as u32);
    !draft.off
}
