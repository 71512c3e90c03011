//! The nodes of this host, seen from outside: what `ls`, `stat`, `dump` and `set` look at.
//!
//! A node keeps its counters in memory that whoever may look at its process can map for
//! reading (`barewire_shm::counters`). Looking stops nobody, and needs nobody's help.

use std::io;
use std::time::Duration;

use barewire_shm::counters::{CounterView, Placed, QUEUE_COUNTERS, SlotCopy, UserCopy};
use barewire_sys::clock::monotonic_ns;
use barewire_sys::discover::{Found, find_counter_pages, open_counter_page};

/// Why nothing can be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// It belongs to somebody else.
    #[error("process {0} may not be looked at: it belongs to another user (try as root)")]
    NoPermission(i32),
    /// It has no node.
    #[error(
        "process {0} has no barewire node (`barewire ls` lists those that have); the sockets of \
         a program under `barewire run` are shown by `barewire ls {0}`"
    )]
    NoNode(i32),
    /// It has nodes, but not this one.
    #[error(
        "process {0} has no node whose number begins with {1} (`barewire ls --json` lists them)"
    )]
    NoSuchNode(i32, String),
    /// It does not have the sockets' library.
    #[error(
        "process {0} is not on board: its program was not begun with `barewire run`, or cannot \
         be accelerated (`barewire ls --sockets` lists those on board)"
    )]
    NotOnBoard(i32),
    /// What was looked at could not be written.
    #[error("writing the result: {0}")]
    Write(#[from] io::Error),
}

/// The result of looking.
pub type Result<T> = std::result::Result<T, LookError>;

/// A node of some process.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The process.
    pub found: Found,
    counters: CounterView,
}

impl NodeView {
    fn open(found: Found) -> Option<NodeView> {
        let region = open_counter_page(found.pid, found.fd_number).ok()?;
        let counters = CounterView::open(&region)?;
        Some(NodeView { found, counters })
    }

    /// Its random number.
    pub fn number(&self) -> [u64; 2] {
        self.counters.identity().node_id
    }

    /// The same, as text.
    pub fn id(&self) -> String {
        let [low, high] = self.number();
        format!("{low:016x}{high:016x}")
    }

    /// How the memory that it makes is placed.
    pub fn placed(&self) -> Placed {
        self.counters.placed()
    }

    /// One of its open connections.
    pub fn connection(&self, number: u32) -> Option<SlotCopy> {
        self.counters
            .slot(number)
            .filter(|slot| slot.connection == number)
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        let started_ns = self.counters.identity().started_ns;
        Duration::from_nanos(monotonic_ns().saturating_sub(started_ns))
    }

    /// The counters of its event queue, with their names.
    pub fn queue(&self) -> Vec<(&'static str, u64)> {
        QUEUE_COUNTERS
            .iter()
            .map(|(counter, name)| (*name, self.counters.queue_counter(*counter)))
            .collect()
    }

    /// What the peers of each other user hold, of those who hold something.
    pub fn users(&self) -> Vec<UserCopy> {
        let mut users = self.counters.users();
        users.retain(|user| user.held.iter().any(|held| *held > 0));
        users
    }

    /// One of them.
    pub fn queue_counter(&self, wanted: &str) -> u64 {
        let counters = self.queue();
        let found = counters.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, value)| *value)
    }

    /// Its open connections, by number.
    pub fn connections(&self) -> Vec<SlotCopy> {
        (0..self.counters.slots_used())
            .filter_map(|number| self.counters.slot(number))
            .collect()
    }
}

/// All nodes that this user may look at, by process and age.
pub fn all() -> Vec<NodeView> {
    let mut nodes: Vec<NodeView> = Vec::new();
    for node in find_counter_pages().into_iter().filter_map(NodeView::open) {
        // A forked child has its parent's page as well; it is the parent's node.
        let pid_of_maker = node.counters.identity().pid;
        match nodes.iter_mut().find(|known| known.id() == node.id()) {
            Some(known) if node.found.pid as u32 == pid_of_maker => *known = node,
            Some(_) => {}
            None => nodes.push(node),
        }
    }
    nodes.sort_by_key(|node| (node.found.pid, node.counters.identity().started_ns));
    nodes
}

/// The nodes of one process.
pub fn of_process(pid: i32) -> Result<Vec<NodeView>> {
    let mut nodes = all();
    nodes.retain(|node| node.found.pid == pid);
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    Err(why_not(pid, LookError::NoNode(pid)))
}

/// Why a process cannot be looked at, or else what it lacks.
pub fn why_not(pid: i32, lack: LookError) -> LookError {
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        return LookError::NoProcess(pid);
    }
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            LookError::NoPermission(pid)
        }
        _ => lack,
    }
}

/// A duration in its largest unit and the next.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Lines of cells in columns: text to the left, numbers to the right.
pub fn in_columns(lines: &[Vec<String>], text_columns: &[usize], indent: &str) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut row = String::from(indent);
        for (column, cell) in line.iter().enumerate() {
            if column > 0 {
                row.push_str("  ");
            }
            let width = widths[column];
            row += &match text_columns.contains(&column) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            };
        }
        out += row.trim_end();
        out.push('\n');
    }
    out
}

/// Writes to standard output; a reader that has closed the pipe has seen enough.
pub fn print(text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(of(7), "7s");
        assert_eq!(of(61), "1m01s");
        assert_eq!(of(3660), "1h01m");
        assert_eq!(of(90_000), "1d01h");
    }

    #[test]
    fn columns_line_up() {
        let line = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let text = in_columns(&[line("name", "n"), line("x", "12")], &[0], " ");
        assert_eq!(text, " name   n\n x     12\n");
    }

    #[test]
    fn absent_processes_are_told_from_those_without_a_node() {
        assert!(matches!(
            of_process(i32::MAX),
            Err(LookError::NoProcess(i32::MAX))
        ));
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(of_process(own), Err(LookError::NoNode(_))));
    }
}
