//! Nodes, connections and streams in async code on tokio (cargo feature `tokio`).
//!
//! An [`AsyncNode`] polls a [`Node`] in a task of its own and wakes those who wait. Its
//! connections are [`Stream`](futures_core::Stream) and [`Sink`](futures_sink::Sink) of
//! messages; as byte streams they are [`AsyncRead`](::tokio::io::AsyncRead) and
//! [`AsyncWrite`](::tokio::io::AsyncWrite). `examples/async.rs` is a server with many clients.
//!
//! ```
//! use barewire::Node;
//! use barewire::tokio::AsyncNode;
//!
//! # fn main() -> barewire::Result<()> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! # let name = format!("async-echo-{}", std::process::id());
//! let node = AsyncNode::new(Node::new()?)?;
//! let _listener = node.listen(&name)?;
//! tokio::spawn(async move {
//!     let request = node.next_request().await?;
//!     let mut connection = node.accept(request)?;
//!     let mut message = Vec::new();
//!     while connection.recv_into(&mut message).await.is_ok() {
//!         connection.send(&message).await?;
//!     }
//!     Ok::<_, barewire::Error>(())
//! });
//!
//! let client = AsyncNode::new(Node::new()?)?;
//! let mut connection = client.connect(&name).await?;
//! connection.send(b"hello").await?;
//! let mut buffer = [0; 256];
//! let len = connection.recv(&mut buffer).await?;
//! assert_eq!(&buffer[..len], b"hello");
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! A task that waits costs a wake-up by the kernel and one by the runtime. For the shortest round
//! trips use the calls that spin, in a thread.

mod connection;
mod driver;
mod stream;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ::tokio::time::{sleep, timeout};

pub use connection::AsyncConnection;
pub use stream::AsyncStream;

use crate::config::{ConnectOptions, ListenOptions};
use crate::error::{Error, Result};
use crate::handles::connection::Connection;
use crate::handles::event::Event;
use crate::handles::id::ConnectionId;
use crate::handles::listener::Listener;
use crate::handles::node::Node;
use crate::handles::request::Request;
use driver::Driver;
use stream::Seat;

/// How long to wait before a name is looked for again.
const NAME_PAUSE: Duration = Duration::from_millis(5);

/// A node in async code. Cloning gives another handle of the same.
///
/// It must be made in a runtime of tokio with I/O and time enabled, and lives as long as
/// that: after the runtime has ended, everything that would wait gives
/// [`Error::NoRuntime`]. Leave the node's own [`Node::poll`] and [`Node::wait`] alone.
#[derive(Clone)]
pub struct AsyncNode {
    driver: Arc<Driver>,
}

impl AsyncNode {
    /// Drives a node, in a task of the runtime that this is called in. Events that are neither requests nor of connections (tripwires,
    /// apertures, messages out of band, completions) are dropped: see
    /// [`AsyncNode::with_events`].
    ///
    /// # Errors
    /// [`Error::NoRuntime`].
    ///
    /// # Panics
    /// In a runtime without I/O, as everything of tokio that waits for descriptors.
    pub fn new(node: Node) -> Result<AsyncNode> {
        let driver = Driver::start(node, false)?;
        Ok(AsyncNode { driver })
    }

    /// Drives a node, and returns the stream of its other events.
    ///
    /// # Errors
    /// [`Error::NoRuntime`].
    pub fn with_events(node: Node) -> Result<(AsyncNode, Events)> {
        let driver = Driver::start(node, true)?;
        let events = Events {
            driver: Arc::clone(&driver),
        };
        Ok((AsyncNode { driver }, events))
    }

    /// The node, for what does not wait: apertures, its configuration.
    #[must_use]
    pub fn get_ref(&self) -> &Node {
        &self.driver.node
    }

    /// Listens under a name; see [`Node::listen`].
    ///
    /// # Errors
    /// As [`Node::listen`].
    pub fn listen(&self, name: &str) -> Result<Listener> {
        self.driver.node.listen(name)
    }

    /// Listens under a name with these settings; see [`Node::listen_with`].
    ///
    /// # Errors
    /// As [`Node::listen`].
    pub fn listen_with(&self, name: &str, options: ListenOptions) -> Result<Listener> {
        self.driver.node.listen_with(name, options)
    }

    /// Waits for the next request to connect to any of our names.
    ///
    /// # Errors
    /// [`Error::NoRuntime`]; as [`Node::poll`].
    pub async fn next_request(&self) -> Result<Request> {
        self.driver.next_request().await
    }

    /// Accepts a request, with the node's ring size.
    ///
    /// # Errors
    /// As [`Request::accept`]; [`Error::OtherNode`] if it was made to another node.
    pub fn accept(&self, request: Request) -> Result<AsyncConnection> {
        self.adopt(request.accept()?)
    }

    /// Takes a connection of this node into async code: one accepted with
    /// [`Request::accept_with_ring`], for instance.
    ///
    /// # Errors
    /// [`Error::OtherNode`] if it is none of this node.
    pub fn adopt(&self, connection: Connection) -> Result<AsyncConnection> {
        if !connection.is_of(&self.driver.node.core) {
            return Err(Error::OtherNode);
        }
        let seat = Seat {
            driver: Arc::clone(&self.driver),
            id: connection.id(),
        };
        Ok(AsyncConnection::new(seat, connection))
    }

    /// Connects to a name of this user's; waits up to five seconds, also for the name to
    /// appear.
    ///
    /// # Errors
    /// See [`AsyncNode::connect_with`].
    pub async fn connect(&self, name: &str) -> Result<AsyncConnection> {
        self.connect_with(name, &ConnectOptions::default()).await
    }

    /// Connects to a name. If the future is dropped, the attempt is given up.
    ///
    /// # Errors
    /// As [`Node::connect_with`]; [`Error::NoRuntime`].
    pub async fn connect_with(
        &self,
        name: &str,
        options: &ConnectOptions,
    ) -> Result<AsyncConnection> {
        let mut late = Error::Timeout;
        let connecting = async {
            loop {
                match self.connect_once(name, options).await {
                    Ok(connection) => return self.adopt(connection),
                    Err(error) if error.may_pass(options.wait_for_name) => late = error,
                    Err(error) => return Err(error),
                }
                sleep(NAME_PAUSE).await;
            }
        };
        match timeout(options.timeout, connecting).await {
            Ok(connection) => connection,
            Err(_) => Err(late),
        }
    }

    async fn connect_once(&self, name: &str, options: &ConnectOptions) -> Result<Connection> {
        let node = &self.driver.node;
        let id = self.driver.begin_opening(|| {
            let id = node.start_connect(name, options)?;
            // The answer may be there already, for a poll to find.
            node.ring();
            Ok(id)
        })?;
        let opening = Attempt {
            driver: &self.driver,
            id,
        };
        poll_fn(|context| opening.driver.poll_opened(context, opening.id)).await
    }
}

impl core::fmt::Debug for AsyncNode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Async{:?}", self.driver.node)
    }
}

/// An attempt to connect, given up when it is dropped.
struct Attempt<'a> {
    driver: &'a Driver,
    id: ConnectionId,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.driver.give_up_opening(self.id);
    }
}

/// The events of a node that are neither requests nor readiness, got from
/// [`AsyncNode::with_events`]: [`Event::Closed`], [`Event::OutOfBand`], [`Event::Granted`],
/// [`Event::Tripwire`], [`Event::Completion`].
///
/// Give tripwires of an async program the action [`Enqueue`](crate::Action::Enqueue):
/// [`Wake`](crate::Action::Wake) only wakes the task that polls the node. Apertures come as
/// [`Event::Granted`]: [`Connection::import`](crate::Connection::import) would stop the thread.
///
/// Take them: when 1024 wait, the node is not polled until some have been taken. Dropping this
/// drops all such events, now and later.
pub struct Events {
    driver: Arc<Driver>,
}

impl Events {
    /// Waits for the next event.
    ///
    /// # Errors
    /// [`Error::NoRuntime`]; as [`Node::poll`].
    pub async fn next(&mut self) -> Result<Event> {
        self.driver.next_other().await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.driver.stop_collecting();
    }
}

impl core::fmt::Debug for Events {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Events {{ of: {:?} }}", self.driver.node)
    }
}
