//! What happened, in numbers: a line at exit, if that was asked for.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{kernel::Owned, real, settings};
use crate::{process, record};

static UPGRADED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static STEPPED_BACK: AtomicU64 = AtomicU64::new(0);
/// Of sockets that are closed.
static BYTES_OUT: AtomicU64 = AtomicU64::new(0);
static BYTES_IN: AtomicU64 = AtomicU64::new(0);

// Relaxed, all: counters for display.

/// A connection is on board.
pub fn upgraded() {
    UPGRADED.fetch_add(1, Ordering::Relaxed);
}

/// A connection looked for its other end in vain.
pub fn refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// A direction went back to the line.
pub fn stepped_back() {
    STEPPED_BACK.fetch_add(1, Ordering::Relaxed);
}

/// A socket is closed: its bytes are added up.
pub fn closed(record: &record::Record) {
    BYTES_OUT.fetch_add(
        record.ring_bytes_out.swap(0, Ordering::Relaxed),
        Ordering::Relaxed,
    );
    BYTES_IN.fetch_add(
        record.ring_bytes_in.swap(0, Ordering::Relaxed),
        Ordering::Relaxed,
    );
}

/// A child begins with nothing.
pub fn forget() {
    for counter in [&UPGRADED, &REFUSED, &STEPPED_BACK, &BYTES_OUT, &BYTES_IN] {
        counter.store(0, Ordering::Relaxed);
    }
}

/// Text in a buffer of fixed size; what does not fit is cut.
pub struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}

impl Line {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// What it holds.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.text(&digits[at..]);
    }
}

/// Appends the line to the file that the environment names.
pub fn write() {
    let Some(path) = settings::variable(c"BAREWIRE_SOCKETS_REPORT") else {
        return;
    };
    record::for_each_own(closed);
    let mut line = Line::new();
    for (text, counter) in [
        (&b"upgraded="[..], &UPGRADED),
        (b" ring_bytes_out=", &BYTES_OUT),
        (b" ring_bytes_in=", &BYTES_IN),
        (b" stepped_back=", &STEPPED_BACK),
        (b" refused=", &REFUSED),
    ] {
        line.text(text);
        line.number(counter.load(Ordering::Relaxed));
    }
    line.text(b" pid=");
    line.number(u64::from(process::id()));
    line.text(b"\n");
    append(path, &line);
}

/// Appends a line to a file; `%p` in its name is the process id.
pub fn append(path: &CStr, line: &Line) {
    let mut name = Line::new();
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
    if name.as_bytes().last() != Some(&0) {
        return;
    }
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero, and the line has its length.
    unsafe {
        let fd = real::open(name.bytes.as_ptr().cast(), flags, 0o644);
        if fd >= 0 {
            let file = Owned::from_raw(fd);
            real::write(file.raw(), line.bytes.as_ptr().cast(), line.len);
        }
    }
}
