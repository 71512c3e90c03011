//! A summary in numbers: one line at exit, if `BAREWIRE_SOCKETS_REPORT` asks for it.

use core::ffi::CStr;
use core::sync::atomic::AtomicU64;

use barewire_cpu::probes::sockets as probes;

use crate::process::kept_text::KeptText;
use crate::process::words::Lone;
use crate::process::{ids, settings};
use crate::system::append::append;
use crate::system::text::Line;
use crate::table::{descriptors, socket_state};

static UPGRADED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static REFUSED: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static STEPPED_BACK: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
/// Of sockets that are closed.
static BYTES_OUT: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));
static BYTES_IN: Lone<AtomicU64> = Lone::new(AtomicU64::new(0));

/// Where a line goes, as the environment said at start.
pub struct Target(KeptText);

impl Target {
    /// Nowhere.
    pub const fn nowhere() -> Self {
        Self(KeptText::none())
    }

    /// Reads the variable of this name. For the constructor. A text too long for a path leads nowhere.
    pub fn read(&'static self, name: &CStr) -> Option<&'static CStr> {
        let value = settings::variable(name).filter(|value| !value.is_empty())?;
        self.0.keep(value)
    }

    /// Where it goes, if anywhere.
    pub fn get(&'static self) -> Option<&'static CStr> {
        self.0.get()
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
pub fn stepped_back(socket: &socket_state::SocketState) {
    probes::stepped_back(socket.number());
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
    let mut line: Line = Line::new();
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
    append(path, line.as_bytes());
}
