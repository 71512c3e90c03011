//! Process families: the processes that share one set of socket states, as parents and children do.
//!
//! The kernel reuses the id of a thread that has ended. Whoever waits for a lock that such a thread held
//! would wait for a stranger. So the waiting thread checks whether the process with that id has the
//! shared memory mapped, by its list of mappings (proc_pid_maps(5)).

use core::fmt::Write;
use core::sync::atomic::AtomicUsize;

use barewire_calls::descriptor;

use crate::process::words::AtStart;
use crate::process::{ids, open_files};
use crate::system::text::Line;

/// Longest line that is looked at: address, rights, offset, device and inode fit.
const LINE_BYTES: usize = 96;

type Text = Line<LINE_BYTES>;

/// Where the memory begins that all processes of a family share.
static SHARED_AT: AtStart<AtomicUsize> = AtStart::new(AtomicUsize::new(0));

/// Notes by which memory a family is known.
pub fn note_shared_memory(at: usize) {
    SHARED_AT.set(at);
}

/// Whether a thread's process shares our socket states; also if that cannot be told.
pub fn has_member(thread: u32) -> bool {
    let own = line_of_records(ids::id());
    let other = line_of_records(thread);
    match (own, other) {
        (Some(Some(own)), Some(other)) => other.is_some_and(|it| it.as_bytes() == own.as_bytes()),
        _ => true,
    }
}

/// Whether a process lives though its first thread has ended: then it seems to have nothing mapped.
pub fn is_headless(process: u32) -> bool {
    let mut path = Text::new();
    // A folder for each thread, and two names.
    let threads = write!(path, "/proc/{process}/task\0")
        .ok()
        .and_then(|()| links(&path))
        .map_or(0, |links| links.saturating_sub(2));
    threads > 1 && line_that_begins(process, b"").is_none_or(|line| line.is_none())
}

fn links(path: &Text) -> Option<libc::nlink_t> {
    let status = descriptor::status_in(libc::AT_FDCWD, path.as_path());
    status.ok().map(|status| status.st_nlink)
}

/// The line of what a process has mapped where we have the tables that children share; `None` if its list
/// cannot be read.
fn line_of_records(process: u32) -> Option<Option<Text>> {
    let shared_at = SHARED_AT.get();
    let mut begin = Text::new();
    write!(begin, "{shared_at:x}-").ok()?;
    line_that_begins(process, begin.as_bytes())
}

/// The first line of the list that begins so; `None` if the list cannot be read.
fn line_that_begins(process: u32, begin: &[u8]) -> Option<Option<Text>> {
    let mut path = Text::new();
    write!(path, "/proc/{process}/maps\0").ok()?;
    open_files::find_line::<LINE_BYTES, _>(path.as_path(), |line| {
        line.starts_with(begin).then(|| {
            let mut found = Text::new();
            found.text(line);
            found
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_none() {
        assert!(has_member(ids::id()));
        assert!(has_member(ids::thread_id()));
        let mut stranger = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        // Until it has become another program it is a copy of this one.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while has_member(stranger.id()) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!has_member(stranger.id()));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
