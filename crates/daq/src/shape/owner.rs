//! Whose queues are, and how they go when their owner has.
//!
//! | abstract socket name | says, while it is bound |
//! |---|---|
//! | `barewire-shape-turn` | somebody looks for owners, or becomes one: others wait |
//! | `barewire-shape-LINK-RUN-SOURCE` | this source of this run uses our queue on this interface |
//!
//! The kernel frees such names with the process that has them, however it ends. A queue with our
//! handle on an interface for which no name is bound is nobody's any more: [`sweep`] removes it.
//! That is done by a source that ends, by the guard process of a source that was killed, and by
//! the next source that starts.

use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use barewire_sys::netlink::RouteSocket;
use barewire_sys::process::{ForkedChild, fork_child, start_session};

use super::error::{ShapeError, system};
use super::htb::{HANDLE, Interface, remove};

const PREFIX: &str = "barewire-shape-";
const TURN_PATIENCE: Duration = Duration::from_secs(5);
const TURN_PAUSE: Duration = Duration::from_millis(2);

fn bind(name: &str) -> std::io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Nobody else looks for owners now, or becomes one.
#[derive(Debug)]
pub(super) struct Turn {
    _name: UnixDatagram,
}

impl Turn {
    pub fn take() -> Result<Self, ShapeError> {
        let deadline = Instant::now() + TURN_PATIENCE;
        loop {
            match bind(&format!("{PREFIX}turn")) {
                Ok(name) => return Ok(Self { _name: name }),
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    std::thread::sleep(TURN_PAUSE);
                }
                Err(error) => return Err(system("wait for others that set queues")(error)),
            }
        }
    }
}

/// A source uses an interface.
#[derive(Debug)]
pub(super) struct Claim {
    _name: UnixDatagram,
}

impl Claim {
    /// To be called in one's turn.
    pub fn make(interface: &Interface, run: &str, source: u16) -> Result<Self, ShapeError> {
        let what = || format!("claim {}", interface.name());
        let names = bound_names().map_err(system(what()))?;
        let owners = names.iter().filter_map(|it| owner(it));
        let other = owners
            .filter(|it| it.0 == interface.index())
            .find(|it| it.1 != run);
        if let Some((_, other)) = other {
            return Err(ShapeError::OtherRun {
                interface: interface.name().to_owned(),
                run: other.to_owned(),
            });
        }
        let name = format!("{PREFIX}{}-{run}-{source}", interface.index());
        let name = bind(&name).map_err(system(what()))?;
        Ok(Self { _name: name })
    }
}

/// Names of ours that are bound in this network namespace, without their begin.
fn bound_names() -> std::io::Result<Vec<String>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    Ok(names_in(&text))
}

fn names_in(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|it| it.split_once('@'));
    names
        .filter_map(|it| Some(it.1.strip_prefix(PREFIX)?.to_owned()))
        .collect()
}

/// Interface and run of a claim.
fn owner(name: &str) -> Option<(u32, &str)> {
    let (link, rest) = name.split_once('-')?;
    let (run, _) = rest.rsplit_once('-')?;
    Some((link.parse().ok()?, run))
}

/// Removes our queues on interfaces that no source uses.
///
/// # Errors
///
/// Not allowed; the kernel does not answer.
pub fn sweep() -> Result<(), ShapeError> {
    let what = "look for queues that are left";
    let mut socket = RouteSocket::open().map_err(system(what))?;
    let ours = |socket: &mut RouteSocket| {
        let mut queues = Interface::all_queues(socket).map_err(system(what))?;
        queues.retain(|it| it.kind == "htb" && it.handle == u32::from(HANDLE) << 16);
        Ok(queues)
    };
    if ours(&mut socket)?.is_empty() {
        return Ok(());
    }
    let turn = Turn::take()?;
    let names = bound_names().map_err(system(what))?;
    let used: Vec<_> = names.iter().filter_map(|it| Some(owner(it)?.0)).collect();
    for queue in ours(&mut socket)? {
        if !used.contains(&queue.link) {
            remove(&mut socket, &queue)?;
        }
    }
    drop(turn);
    Ok(())
}

/// A process that removes our queues when the one that made it has ended. It belongs to no
/// terminal, and ends with what it has to do.
#[derive(Debug)]
pub(super) struct Guard {
    // Killed first: what is to be removed, its maker has removed.
    _process: ForkedChild,
    _alive: Option<UnixStream>,
}

impl Guard {
    pub fn start() -> std::io::Result<Self> {
        let (mut ended, alive) = UnixStream::pair()?;
        let mut alive = Some(alive);
        let process = fork_child(|| {
            // The copy of this process: the end of the other one's is what is waited for.
            drop(alive.take());
            let _ = start_session();
            let _ = ended.read(&mut [0]);
            i32::from(sweep().is_err())
        })?;
        Ok(Self {
            _process: process,
            _alive: alive,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_names() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 4711 @barewire-shape-7-my-run-12\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 4712 @barewire-shape-turn\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 4713 /run/barewire-shape-8-x-1\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 4714\n";
        let names = names_in(text);
        let owners: Vec<_> = names.iter().filter_map(|it| owner(it)).collect();
        assert_eq!(owners, [(7, "my-run")]);
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn only_one_process_has_the_turn_at_a_time() {
        let turn = Turn::take().expect("first");
        let name = format!("{PREFIX}turn");
        assert_eq!(bind(&name).expect_err("taken").kind(), ErrorKind::AddrInUse);
        assert!(bound_names().expect("names").contains(&"turn".to_owned()));
        drop(turn);
        Turn::take().expect("again");
    }
}
