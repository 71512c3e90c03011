//! A node: one place on the network, with its event queue.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use barewire_sys::SysError;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::retire::{Guarded, Retirer};
use barewire_sys::socket::{Listener as ListenSocket, Socket};
use barewire_sys::wake::Interest;

use crate::config::{ConnectOptions, ListenOptions, NodeConfig, check_ring, socket_name};
use crate::error::{Credentials, Error, Result};
use crate::handles::aperture::{Aperture, ApertureConfig};
use crate::handles::connection::Connection;
use crate::handles::event::{ConnectionId, Event};
use crate::node::settings::Setting;
use crate::node::shared::Shared;
use crate::node::wait::Deadline;
#[cfg(feature = "tokio")]
use crate::tables::state::OWN_SOURCE;
use crate::tables::state::{ListenerEntry, Phase, Token};

/// Longest backlog of first contacts that the kernel keeps.
const BACKLOG: i32 = 1024;
/// Pauses between two looks for a name that nobody has yet.
const NAME_PAUSE_FIRST: Duration = Duration::from_millis(1);
const NAME_PAUSE_LONGEST: Duration = Duration::from_millis(20);

/// A place on the network: an event queue, listeners, and links to other nodes.
///
/// A process may have several nodes, one per thread for instance; each has its own event
/// queue. Cloning a node gives another handle of the same one. A node lives until its
/// last handle, connection, listener and aperture is dropped, imported ones too.
///
/// `Node` is `Send` and `Sync`: several threads may wait on it, each event goes to one.
#[derive(Clone)]
pub struct Node {
    pub(crate) shared: Arc<Shared>,
}

impl Node {
    /// A node with default settings.
    ///
    /// # Errors
    /// [`Error::System`] if memory, descriptors or a kernel feature is missing.
    pub fn new() -> Result<Node> {
        Node::with_config(NodeConfig::default())
    }

    /// A node with these settings.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`]; [`Error::System`] as for [`Node::new`].
    pub fn with_config(config: NodeConfig) -> Result<Node> {
        Ok(Node {
            shared: Shared::new(config)?,
        })
    }

    /// The settings it was made with. [`Node::settings`] has what holds now.
    #[must_use]
    pub fn config(&self) -> &NodeConfig {
        &self.shared.config
    }

    /// Its settings that can be changed while it lives, as they are now.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.shared.settings()
    }

    /// Changes settings, each by its name in [`Node::settings`] and a value as it is written
    /// there: all of these or, with an error, none. `barewire set` does the same from outside
    /// ([`settings::ask`](crate::settings::ask)).
    ///
    /// Limits hold for what comes next: who has more keeps it. Sizes hold for connections that
    /// begin afterwards. How long to spin holds at once, also for a thread that spins.
    ///
    /// # Errors
    /// [`Error::BadSetting`] names what can be set; [`Error::OutOfLimits`]; [`Error::Forked`].
    pub fn set(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.shared.check_fork()?;
        self.shared.change(changes)
    }

    /// Who we are to our peers.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        self.shared.own
    }

    /// Listens under a name of this user's, in this network namespace; only processes of
    /// the same user may connect.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NameTaken`], [`Error::System`].
    pub fn listen(&self, name: &str) -> Result<Listener> {
        self.listen_with(name, ListenOptions::default())
    }

    /// Listens under a name with these settings. Whoever wants to connect appears as
    /// [`Event::Request`].
    ///
    /// # Errors
    /// As [`Node::listen`].
    pub fn listen_with(&self, name: &str, options: ListenOptions) -> Result<Listener> {
        self.shared.check_fork()?;
        let socket_name = socket_name(self.shared.own.uid, name)?;
        let socket = ListenSocket::bind(&socket_name, BACKLOG)
            .map_err(|error| name_taken(error, name, &socket_name, &self.shared.retirer))?;
        let mut state = self.shared.state();
        let index = state.listeners.vacant_key();
        let token = Token::Listener(index).pack();
        self.shared.epoll.add(&socket, token, Interest::READ)?;
        state.listeners.insert(ListenerEntry {
            name: name.to_owned(),
            socket,
            policy: options.policy,
            waiting: 0,
        });
        Ok(Listener {
            shared: Arc::clone(&self.shared),
            index,
            name: name.to_owned(),
        })
    }

    /// Connects to a name of this user's; waits up to five seconds, also for the name to
    /// appear.
    ///
    /// The name may be one that this very node listens to: then another thread has to accept
    /// ([`Node::next_request`]), because this one waits here. With one thread, use
    /// [`Node::start_connect`] and accept in the event loop, or a second node.
    ///
    /// # Errors
    /// See [`Node::connect_with`].
    pub fn connect(&self, name: &str) -> Result<Connection> {
        self.connect_with(name, &ConnectOptions::default())
    }

    /// Connects to a name and waits for the answer.
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::Timeout`], [`Error::OwnName`] if the time has passed
    /// and it is this very node that should have accepted, [`Error::Refused`],
    /// [`Error::WrongOwner`] if the name has been squatted on, [`Error::LimitReached`],
    /// [`Error::PeerDied`], [`Error::PeerMisbehaved`], [`Error::System`].
    pub fn connect_with(&self, name: &str, options: &ConnectOptions) -> Result<Connection> {
        let deadline = Deadline::after(Some(options.timeout));
        let mut pause = NAME_PAUSE_FIRST;
        loop {
            let error = match self.connect_once(name, options, deadline) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let passing = error.may_pass(options.wait_for_name);
            let left = deadline.left(monotonic_ns()).unwrap_or_default();
            if !passing || left.is_zero() {
                return Err(error);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(NAME_PAUSE_LONGEST);
        }
    }

    fn connect_once(
        &self,
        name: &str,
        options: &ConnectOptions,
        deadline: Deadline,
    ) -> Result<Connection> {
        self.shared.check_fork()?;
        let shared = &self.shared;
        let number = shared.state().start_connect(shared, name, options, false)?;
        let answer = shared.wait_until(deadline, false, |_| {
            let mut state = shared.state();
            let entry = state.connections.get_mut(number as usize)?;
            match (entry.failure.take(), entry.phase) {
                (Some(error), _) => Some(Err(error)),
                (None, Phase::Open) => Some(state.make_handle(shared, number)),
                (None, _) => None,
            }
        });
        match answer {
            Ok(Some(Ok(connection))) => Ok(connection),
            Ok(Some(Err(error))) => {
                shared.state().drop_handle(shared, number);
                Err(error)
            }
            Ok(None) => {
                let mut state = shared.state();
                state.abandon(shared, number);
                if options.owner.unwrap_or(shared.own.uid) == shared.own.uid
                    && state.listeners.iter().any(|(_, l)| l.name == name)
                {
                    return Err(Error::OwnName {
                        name: name.to_owned(),
                    });
                }
                Err(Error::Timeout)
            }
            Err(error) => {
                shared.state().abandon(shared, number);
                Err(error)
            }
        }
    }

    /// Begins to connect and returns at once; nobody need poll for the other side to be asked.
    /// The answer comes as [`Event::Connected`] or [`Event::ConnectFailed`] with the number
    /// returned, from the next poll after it has arrived. The timeout of the options and
    /// their waiting for a name do not apply.
    ///
    /// The first contact with a node takes an exchange, to which a thread of the process
    /// attends. If none can be started, the next poll does.
    ///
    /// # Errors
    /// Those of [`Node::connect_with`] that can be told at once.
    pub fn start_connect(&self, name: &str, options: &ConnectOptions) -> Result<ConnectionId> {
        self.shared.check_fork()?;
        let mut state = self.shared.state();
        let number = state.start_connect(&self.shared, name, options, true)?;
        Ok(ConnectionId(number))
    }

    /// Gives up what [`Node::start_connect`] began and no event has reported yet.
    pub fn cancel_connect(&self, connection: ConnectionId) {
        if self.shared.check_fork().is_err() {
            return;
        }
        self.shared
            .state()
            .cancel_connect(&self.shared, connection.0);
    }

    /// Has whoever waits for our events look.
    #[cfg(feature = "tokio")]
    pub(crate) fn ring(&self) {
        self.shared.ring_own(OWN_SOURCE);
    }

    /// Makes an aperture.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`], [`Error::System`].
    pub fn export(&self, config: ApertureConfig) -> Result<Aperture> {
        self.shared.check_fork()?;
        Aperture::new(&self.shared, config)
    }

    /// Appends events that are there to `events`, at most `max`, and returns how many.
    /// After a 0, our descriptor ([`AsFd`]) becomes readable with the next event.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] if the sockets can not be looked at.
    #[inline]
    pub fn poll(&self, events: &mut Vec<Event>, max: usize) -> Result<usize> {
        self.shared.poll(events, max)
    }

    /// Waits for events, for at most `timeout` (`None`: for ever), and appends at most
    /// `max` of them. Returns how many: 0 at the time-out, or when a tripwire with the
    /// action [`Wake`](crate::Action::Wake) fired.
    ///
    /// A signal does not end the wait. A program that is to stop waits with a time-out and looks at
    /// its own flag, or waits on the node's descriptor and an eventfd of its own.
    ///
    /// *Order.* Requests, out-of-band messages and apertures of one peer node come in the
    /// order in which it sent them, also on different connections. `Ready` says only where to
    /// look: of several connections it comes in any order, within one wait and across waits,
    /// whichever was sent to first, and in no order with other events. Who must know what was
    /// sent first sends it on one connection: there messages come as they were sent.
    ///
    /// # Errors
    /// As [`Node::poll`].
    pub fn wait(
        &self,
        events: &mut Vec<Event>,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<usize> {
        self.shared.wait(events, max, timeout.into())
    }

    /// Waits for one event, for at most `timeout`.
    ///
    /// # Errors
    /// As [`Node::poll`].
    pub fn next_event(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<Event>> {
        let mut events = Vec::with_capacity(1);
        self.shared.wait(&mut events, 1, timeout.into())?;
        Ok(events.pop())
    }

    /// Writes out what the capture tap ([`NodeConfig::capture`]) has recorded. That is
    /// also done when the node goes away.
    ///
    /// # Errors
    /// [`Error::Capture`] if the file could not be written, now or earlier: it ends there.
    /// The network does not stop for it.
    pub fn flush_capture(&self) -> Result<()> {
        match (&self.shared.tap, &self.shared.config.capture) {
            (Some(tap), Some(path)) if !tap.flush() => Err(Error::Capture {
                path: path.display().to_string(),
                reason: "writing failed; the disk may be full".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Waits for the next request to connect to any of our names, for programs without
    /// an event loop. Other events stay where they are.
    ///
    /// # Errors
    /// [`Error::Timeout`]; as [`Node::poll`].
    pub fn next_request(&self, timeout: impl Into<Option<Duration>>) -> Result<Request> {
        let deadline = Deadline::after(timeout.into());
        let shared = &self.shared;
        let found = shared.wait_until(deadline, false, |_| shared.state().take_request(shared))?;
        found.ok_or(Error::Timeout)
    }
}

/// Readable when there are events, provided that [`Node::poll`] has found none since.
///
/// ```no_run
/// # fn wait_readable(_: impl std::os::fd::AsFd) {}
/// # fn main() -> barewire::Result<()> {
/// # let node = barewire::Node::new()?;
/// # let mut events = Vec::new();
/// loop {
///     while node.poll(&mut events, 64)? > 0 {
///         events.clear(); // handle them
///     }
///     wait_readable(&node); // with select, poll, epoll or an async runtime
/// }
/// # }
/// ```
impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.descriptor()
    }
}

impl std::os::fd::AsRawFd for Node {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("id", &format_args!("{:016x?}", self.shared.node_id))
            .finish_non_exhaustive()
    }
}

/// Who has a name that we wanted.
fn name_taken(error: SysError, name: &str, socket_name: &[u8], retirer: &Retirer) -> Error {
    if !matches!(error, SysError::AddressInUse { .. }) {
        return error.into();
    }
    let holder = Socket::connect(socket_name).map(|s| Guarded::new(s, retirer));
    let holder = holder.and_then(|s| s.peer_credentials());
    Error::NameTaken {
        name: name.to_owned(),
        holder: match holder {
            Ok(who) => format!("process {} of user {}", who.pid, who.uid),
            Err(_) => "a process that does not answer".to_owned(),
        },
    }
}

/// A name that is being listened to. Dropping it gives the name up; connections stay.
pub struct Listener {
    shared: Arc<Shared>,
    index: usize,
    name: String,
}

impl Listener {
    /// The name that is listened to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A child would take the name out of its parent's epoll set.
        if self.shared.check_fork().is_err() {
            return;
        }
        let mut state = self.shared.state();
        if let Some(entry) = state.listeners.try_remove(self.index) {
            let _ = self.shared.epoll.remove(&entry.socket);
            turn_all_away(entry.socket, &self.shared.retirer);
        }
    }
}

/// Gives a name up. What those have sent who still wait is closed beside us.
fn turn_all_away(listener: ListenSocket, retirer: &Retirer) {
    listener.shutdown();
    loop {
        match listener.accept() {
            Ok(Some(socket)) => retirer.socket(socket),
            Ok(None) => return,
            // No descriptor is left to take them with.
            Err(_) => return retirer.later(Box::new(listener)),
        }
    }
}

impl core::fmt::Debug for Listener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Listener")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A request to connect. Dropping it refuses it.
pub struct Request {
    shared: Arc<Shared>,
    number: u32,
    serial: u64,
    peer: Credentials,
    name: String,
    data: Vec<u8>,
    answered: bool,
}

impl Request {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        number: u32,
        serial: u64,
        peer: Credentials,
        name: String,
        data: Vec<u8>,
    ) -> Request {
        Request {
            shared: Arc::clone(shared),
            number,
            serial,
            peer,
            name,
            data,
            answered: false,
        }
    }

    /// Who asks, as the kernel says.
    #[must_use]
    pub fn peer(&self) -> Credentials {
        self.peer
    }

    /// The name that was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the application sent along.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Accepts, with the node's ring size.
    ///
    /// # Errors
    /// [`Error::PeerGone`] if the other side has given up; [`Error::System`].
    pub fn accept(self) -> Result<Connection> {
        let ring_bytes = self.shared.live().config.ring_bytes;
        self.accept_with_ring(ring_bytes)
    }

    /// Accepts, with a receive ring of this size.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`]; as [`Request::accept`].
    pub fn accept_with_ring(mut self, ring_bytes: usize) -> Result<Connection> {
        check_ring(ring_bytes)?;
        self.shared.check_fork()?;
        let mut state = self.shared.state();
        let connection = state.accept(&self.shared, self.number, self.serial, ring_bytes)?;
        drop(state);
        self.answered = true;
        Ok(connection)
    }

    /// Refuses, with a reason that the other side gets to read.
    pub fn reject(mut self, reason: &str) {
        self.refuse(reason);
    }

    fn refuse(&mut self, reason: &str) {
        if !self.answered && self.shared.check_fork().is_ok() {
            self.answered = true;
            let mut state = self.shared.state();
            state.reject(&self.shared, self.number, self.serial, reason);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.refuse("the listener did not accept");
    }
}

impl core::fmt::Debug for Request {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}
