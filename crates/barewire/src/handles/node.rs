//! A node: a program's attachment to the network, with its event queue.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use barewire_sys::clock::monotonic_ns;

use crate::apertures::layout::ApertureConfig;
use crate::config::{ConnectOptions, ListenOptions, NodeConfig};
use crate::error::{Credentials, Error, Result};
use crate::handles::aperture::Aperture;
use crate::handles::connection::Connection;
use crate::handles::event::Event;
use crate::handles::id::ConnectionId;
use crate::handles::listener::Listener;
use crate::handles::port::Port;
use crate::handles::request::Request;
use crate::log::{self, Level};
use crate::node::core::NodeCore;
use crate::node::settings::Setting;
use crate::node::wait::Deadline;
#[cfg(feature = "tokio")]
use crate::tables::doorbells::OWN_SOURCE;
use crate::tables::entries::Phase;

/// Pauses between two tries to connect to a name that nobody listens to yet.
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
    pub(crate) core: Arc<NodeCore>,
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
            core: NodeCore::new(config)?,
        })
    }

    /// The settings it was made with. [`Node::settings`] has what holds now.
    #[must_use]
    pub fn config(&self) -> &NodeConfig {
        &self.core.config
    }

    /// Its settings that can be changed while it lives, as they are now.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.core.settings()
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
        self.core.base.check_fork()?;
        self.core.change(changes)
    }

    /// The credentials that our peers see.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        self.core.base.own
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
        Listener::bind(&self.core, name, options)
    }

    /// Lets nodes of other hosts reach this one at an address, such as `0.0.0.0:7400`, under all names that it listens
    /// to. How they prove who they are says [`NodeConfig::hosts`]; whom a name lets in, its [`Policy`](crate::Policy).
    ///
    /// # Errors
    /// [`Error::HostUnreachable`] if nobody can listen there, or the node's settings do not allow it;
    /// [`Error::System`].
    pub fn listen_on(&self, address: &str) -> Result<Port> {
        Port::open(&self.core, address)
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
                log::line(Level::Warn, || {
                    format!("no connection to `{name}`: {error}")
                });
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
        let node = &self.core;
        node.base.check_fork()?;
        let number = node.start_connect(name, options, false)?;
        let answer = node.wait_until(deadline, false, |_| {
            let mut state = node.state();
            let entry = state.connections.get_mut(number as usize)?;
            match (entry.failure.take(), entry.phase) {
                (Some(error), _) => Some(Err(error)),
                (None, Phase::Open) => Some(state.open_handle(number)),
                (None, _) => None,
            }
        });
        match answer {
            Ok(Some(Ok(opened))) => Ok(Connection::new(node, opened)),
            Ok(Some(Err(error))) => {
                node.state().drop_handle(number);
                Err(error)
            }
            Ok(None) => {
                let mut state = node.state();
                state.abandon(number);
                let own = node.base.own.uid;
                let listens =
                    |name: &str| state.listeners.entries.iter().any(|(_, l)| l.name == name);
                if options.owner.unwrap_or(own) == own && listens(name) {
                    return Err(Error::OwnName {
                        name: name.to_owned(),
                    });
                }
                Err(Error::Timeout)
            }
            Err(error) => {
                node.state().abandon(number);
                Err(error)
            }
        }
    }

    /// Begins to connect and returns at once. The request reaches the other side even if nobody
    /// polls this node.
    /// The answer comes as [`Event::Connected`] or [`Event::ConnectFailed`] with the number
    /// returned, from the next poll after it has arrived. The timeout of the options and
    /// their waiting for a name do not apply.
    ///
    /// The first contact with a node takes a handshake, which a thread of the process completes. If
    /// no thread can be started, the next poll completes it.
    ///
    /// # Errors
    /// Those of [`Node::connect_with`] that are known at once.
    pub fn start_connect(&self, name: &str, options: &ConnectOptions) -> Result<ConnectionId> {
        self.core.base.check_fork()?;
        self.core
            .start_connect(name, options, true)
            .map(ConnectionId)
    }

    /// Gives up what [`Node::start_connect`] began and no event has reported yet.
    pub fn cancel_connect(&self, connection: ConnectionId) {
        if self.core.base.check_fork().is_err() {
            return;
        }
        self.core.state().cancel_connect(connection.0);
    }

    /// Has whoever waits for our events look.
    #[cfg(feature = "tokio")]
    pub(crate) fn ring(&self) {
        self.core.base.ring_own(OWN_SOURCE);
    }

    /// Makes an aperture.
    ///
    /// # Errors
    /// [`Error::OutOfLimits`], [`Error::System`].
    pub fn export(&self, config: ApertureConfig) -> Result<Aperture> {
        self.core.base.check_fork()?;
        Aperture::new(&self.core, config)
    }

    /// Appends events that are there to `events`, at most `max`, and returns how many.
    /// After a 0, our descriptor ([`AsFd`]) becomes readable with the next event. Who polls without end need not pause
    /// between calls: where a peer is about to send, this does.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] if the sockets can not be looked at.
    #[inline]
    pub fn poll(&self, events: &mut Vec<Event>, max: usize) -> Result<usize> {
        self.core
            .poll(max, &mut |found| events.push(Event::new(&self.core, found)))
    }

    /// As [`Node::poll`], but a 0 promises nothing of the descriptor. It is for programs that poll for a while before they
    /// wait on the descriptor: [`Node::poll`] makes ready to sleep each time that it finds nothing, which takes system calls
    /// here, and in a peer that then sends. The last call before the wait is [`Node::poll`], and the wait follows a 0 only.
    ///
    /// # Errors
    /// As [`Node::poll`].
    #[inline]
    pub fn poll_awake(&self, events: &mut Vec<Event>, max: usize) -> Result<usize> {
        self.core
            .poll_awake(max, &mut |found| events.push(Event::new(&self.core, found)))
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
    /// whichever was sent to first, and in no order with other events. Where the order matters,
    /// send on one connection: its messages arrive in the order in which they were sent.
    ///
    /// # Errors
    /// As [`Node::poll`].
    pub fn wait(
        &self,
        events: &mut Vec<Event>,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<usize> {
        let mut put = |found| events.push(Event::new(&self.core, found));
        self.core.wait(max, &mut put, timeout.into())
    }

    /// Waits for one event, for at most `timeout`.
    ///
    /// # Errors
    /// As [`Node::poll`].
    pub fn next_event(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<Event>> {
        let mut events = Vec::with_capacity(1);
        self.wait(&mut events, 1, timeout)?;
        Ok(events.pop())
    }

    /// Writes out what the capture tap ([`NodeConfig::capture`]) has recorded. That is
    /// also done when the node goes away.
    ///
    /// # Errors
    /// [`Error::Capture`] if the file could not be written, now or earlier: it ends there.
    /// The network does not stop for it.
    pub fn flush_capture(&self) -> Result<()> {
        match (&self.core.tap, &self.core.config.capture) {
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
        let node = &self.core;
        let found = node.wait_until(deadline, false, |_| node.state().take_request())?;
        let requested = found.ok_or(Error::Timeout)?;
        Ok(Request::new(node, requested))
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
        self.core.descriptor()
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
            .field("id", &format_args!("{:016x?}", self.core.base.node_id))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with an accepted connection, and the other end of that with its node.
    fn connected(of: &str) -> (Node, Connection, Node, Connection) {
        let name = format!("hot-{}-{of}", std::process::id());
        let server = Node::new().unwrap();
        let _listener = server.listen(&name).unwrap();
        let client = std::thread::spawn(move || {
            let node = Node::new().unwrap();
            let connection = node.connect(&name).unwrap();
            (node, connection)
        });
        let accepted = server.next_request(None).unwrap().accept().unwrap();
        let (node, connection) = client.join().unwrap();
        (server, accepted, node, connection)
    }

    /// Messages that are received by polling, each when it was announced.
    fn exchange(server: &Node, accepted: &mut Connection, connection: &mut Connection) {
        let (mut events, mut buffer) = (Vec::new(), [0; 8]);
        for _ in 0..100 {
            connection.send(b"message").unwrap();
            let mut received = 0;
            while received == 0 {
                events.clear();
                server.poll(&mut events, 16).unwrap();
                while accepted.try_recv(&mut buffer).unwrap().is_some() {
                    received += 1;
                }
            }
        }
    }

    #[test]
    fn a_hot_connection_does_not_ring_until_somebody_sleeps() {
        let (server, mut accepted, _client, mut connection) = connected("rings");
        exchange(&server, &mut accepted, &mut connection);
        let core = Arc::clone(accepted.sender().half().core());
        assert!(!core.is_armed() && server.core.waiting.has_disarmed());
        let nothing = server.next_event(Duration::from_millis(1)).unwrap();
        assert!(matches!(nothing, None | Some(Event::Ready(_))));
        while server
            .next_event(Duration::from_millis(1))
            .unwrap()
            .is_some()
        {}
        assert!(core.is_armed() && !server.core.waiting.has_disarmed());
    }

    #[test]
    fn a_connection_that_is_quiet_for_long_rings_again() {
        let (server, mut accepted, _client, mut connection) = connected("quiet");
        exchange(&server, &mut accepted, &mut connection);
        let mut events = Vec::new();
        let polls = (0..1_000_000).position(|_| {
            server.poll(&mut events, 16).unwrap();
            !server.core.waiting.has_disarmed()
        });
        assert!(polls.is_some_and(|polls| polls > 1000), "{polls:?}");
    }

    #[test]
    fn while_somebody_sleeps_all_are_rung() {
        let (server, mut accepted, _client, mut connection) = connected("sleeps");
        server.core.state().doorbells.announce_sleep();
        exchange(&server, &mut accepted, &mut connection);
        assert!(accepted.sender().half().core().is_armed());
        server.core.state().doorbells.announce_awake();
        exchange(&server, &mut accepted, &mut connection);
        assert!(!accepted.sender().half().core().is_armed());
    }

    #[test]
    fn the_descriptor_tells_of_what_came_before_it_was_first_asked_for() {
        use rustix::event::{PollFd, PollFlags, poll};
        let (server, _accepted, _client, mut connection) = connected("first");
        while server.poll(&mut Vec::new(), 16).unwrap() > 0 {}
        connection.send(b"message").unwrap();
        let long = rustix::time::Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let mut descriptors = [PollFd::new(&server, PollFlags::IN)];
        assert_eq!(poll(&mut descriptors, Some(&long)), Ok(1));
    }

    #[test]
    fn an_owner_with_a_loop_of_its_own_is_rung() {
        let (server, mut accepted, _client, mut connection) = connected("loop");
        let _descriptor = server.as_fd();
        exchange(&server, &mut accepted, &mut connection);
        assert!(accepted.sender().half().core().is_armed());
    }
}
