//! A NIC: what its objects share, under one lock, and how threads wait for it.

pub(crate) mod connecting;
mod ending;
mod posting;
mod progress;
mod receiving;
mod sending;
pub(crate) mod state;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, Event, Node, NodeConfig, Spin};
use barewire_proto::via::protection::Regions;

use crate::raw::Code;
use state::{Inner, RING_BYTES};

/// How long a thread of the program polls before it sleeps.
const POLLING: Duration = Duration::from_micros(50);
/// How long it may take to set up the connection of a node with itself.
const SETUP: Duration = Duration::from_secs(5);

/// A NIC that was opened.
pub(crate) struct Nic {
    inner: Mutex<Inner>,
    /// Threads of the program that sleep.
    woken: Condvar,
    /// The helper thread, while the program polls.
    pub(crate) helper: Condvar,
    /// The thread that calls the program's functions.
    pub(crate) caller: Condvar,
}

/// The lock of a NIC. When it is released, those who wait for what has changed are woken.
pub(crate) struct Locked<'a> {
    nic: &'a Nic,
    guard: Option<MutexGuard<'a, Inner>>,
}

impl std::ops::Deref for Locked<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        self.guard.as_ref().expect("held until it is dropped")
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.guard.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.nic.announce(self);
    }
}

impl Nic {
    /// Opens a device.
    pub(crate) fn open(device: u8) -> Result<Arc<Nic>, Code> {
        let resource = |_| Code::ErrorResource;
        let node = Node::with_config(NodeConfig {
            // Threads of the program poll; the helper need not.
            spin: Spin::Never,
            ring_bytes: RING_BYTES,
            ..NodeConfig::default()
        });
        let node = node.map_err(resource)?;
        let waker = connect_with_itself(&node).map_err(resource)?;
        let nic = Nic {
            inner: Mutex::new(Inner {
                node,
                device,
                closed: false,
                pending: 0,
                regions: Regions::new(),
                tags: HashSet::new(),
                vis: BTreeMap::new(),
                queues: HashMap::new(),
                requests: HashMap::new(),
                by_connection: HashMap::new(),
                recent: None,
                listening: HashMap::new(),
                waker: Some(waker),
                woke_program: false,
                error_handler: None,
                due: VecDeque::new(),
                calls: false,
                changed: false,
                sleepers: 0,
                polls: 0,
                busy: Vec::new(),
                events: Vec::new(),
                staging: Vec::new(),
            }),
            woken: Condvar::new(),
            helper: Condvar::new(),
            caller: Condvar::new(),
        };
        Ok(Arc::new(nic))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        // A panic was reported by the call that it ended.
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Locked {
            nic: self,
            guard: Some(guard),
        }
    }

    /// Wakes whoever waits for what has changed.
    fn announce(&self, inner: &mut Inner) {
        if !std::mem::take(&mut inner.changed) {
            return;
        }
        if inner.sleepers > 0 {
            self.woken.notify_all();
        }
        if !inner.due.is_empty() || inner.closed {
            self.caller.notify_all();
        }
    }

    /// Sleeps on a condition variable of this NIC for at most `timeout`.
    pub(crate) fn sleep<'a>(
        &'a self,
        mut locked: Locked<'a>,
        on: &Condvar,
        timeout: Option<Duration>,
    ) -> Locked<'a> {
        self.announce(&mut locked);
        let guard = locked.guard.take().expect("held until it is dropped");
        // A drop of `locked` has nothing to announce any more.
        std::mem::forget(locked);
        let guard = match timeout {
            Some(timeout) => {
                let slept = on.wait_timeout(guard, timeout);
                slept.unwrap_or_else(PoisonError::into_inner).0
            }
            None => on.wait(guard).unwrap_or_else(PoisonError::into_inner),
        };
        Locked {
            nic: self,
            guard: Some(guard),
        }
    }

    /// Waits until `ready` gives something, and makes progress meanwhile, first of all of one VI; `None` if the time is
    /// over.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        first: Option<usize>,
        mut ready: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let mut locked = self.lock();
        loop {
            if let Some(found) = ready(&mut locked) {
                return Some(found);
            }
            locked.progress(first);
            // This, too, may bring about what is waited for.
            let due = locked.keep_time();
            if let Some(found) = ready(&mut locked) {
                return Some(found);
            }
            let now = Instant::now();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if now.duration_since(begun) < POLLING {
                drop(locked);
                std::hint::spin_loop();
                locked = self.lock();
                continue;
            }
            // From now on the helper thread makes progress.
            locked.sleepers += 1;
            self.helper.notify_all();
            let due = due.map(|due| due.saturating_duration_since(now));
            let longest = [left, due].into_iter().flatten().min();
            locked = self.sleep(locked, &self.woken, longest);
            locked.sleepers -= 1;
        }
    }
}

/// A connection of a node with itself, by which a thread of the process wakes one that waits for the node.
fn connect_with_itself(node: &Node) -> barewire::Result<[Connection; 2]> {
    use std::hash::{BuildHasher as _, RandomState};
    // The kernel seeds the standard library's hashes with numbers that nobody can foresee.
    let random = RandomState::new().hash_one(std::process::id());
    let name = format!("vipl-wake-{}-{random:016x}", std::process::id());
    let _listener = node.listen(&name)?;
    node.start_connect(&name, &ConnectOptions::default())?;
    let (mut called, mut accepted) = (None, None);
    let deadline = Instant::now() + SETUP;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match node.next_event(left)? {
            Some(Event::Request(request)) => accepted = Some(request.accept()?),
            Some(Event::Connected(connection)) => called = Some(*connection),
            Some(Event::ConnectFailed { error, .. }) => return Err(error),
            None => return Err(barewire::Error::Timeout),
            Some(_) => {}
        }
        match (called.take(), accepted.take()) {
            (Some(one), Some(other)) => return Ok([one, other]),
            (one, other) => (called, accepted) = (one, other),
        }
    }
}
