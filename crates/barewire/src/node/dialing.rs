//! How a node comes to links with nodes on other hosts: it opens ports, and reaches those of others.

use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};

use barewire_sys::process::start_thread;
use barewire_sys::socket::Socket;
use barewire_sys::wake::{Epoll, EventFd};

use crate::config::{HostsConfig, Security};
use crate::error::{Error, Result};
use crate::links::driven::{Driven, RemotePeer};
use crate::node::core::NodeCore;
use crate::node::hosts::{Running, Wish};
use crate::node::hosts_thread::{GREETING_TIME, Thread, Welcome};
use crate::remote::address::{is_private, split_host};
use crate::remote::greeter::{Greeted, Greeter};
use crate::remote::greeting::Greeting;
use crate::remote::proxy::{OfNode, Proxy};
use crate::remote::trust::Trust;

/// Tokens of ports in the thread's epoll set come after this one.
const FIRST_TOKEN: u64 = 16;

/// A node, for its thread.
struct WeakNode(Weak<NodeCore>);

impl Welcome for WeakNode {
    fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    fn welcome(&self, greeted: Greeted) {
        if let Some(node) = self.0.upgrade() {
            // Without memory or descriptors it is turned away: it finds the connection closed.
            let _ = node.welcome(greeted);
        }
    }
}

impl NodeCore {
    /// Starts the thread, if it does not run; for a link to `host`, or a port there.
    fn start_hosts(self: &Arc<Self>, host: &str) -> Result<MutexGuard<'_, Option<Running>>> {
        let mut running = self.hosts.running();
        if running.is_none() {
            let trust =
                Trust::new(&self.config.hosts).map_err(|reason| Error::HostUnreachable {
                    host: host.to_owned(),
                    reason,
                })?;
            let own = self.greeting(&trust);
            let bell = Arc::new(EventFd::new()?);
            let (wishes, wished) = channel();
            let thread = Thread::new(
                Box::new(WeakNode(Arc::downgrade(self))),
                Arc::clone(&self.base.driven),
                (Arc::clone(&bell), wished),
                (own, trust.clone()),
                self.config.hosts.timeout,
            )?;
            start_thread("barewire-hosts", move || thread.run())?;
            self.base.driven.set_thread_bell(Arc::clone(&bell));
            *running = Some(Running {
                bell,
                wishes,
                last_token: FIRST_TOKEN,
                own,
                trust,
            });
        }
        Ok(running)
    }

    /// Accepts nodes of other hosts at this address. Returns the address with its port, and what to close it by.
    pub fn open_port(self: &Arc<Self>, address: &str) -> Result<(SocketAddr, u64)> {
        let unusable = |reason: String| Error::HostUnreachable {
            host: address.to_owned(),
            reason,
        };
        let mut addresses = address
            .to_socket_addrs()
            .map_err(|error| unusable(format!("it is no address to listen at: {error}")))?;
        let wanted = addresses
            .next()
            .ok_or_else(|| unusable("it has no address".to_owned()))?;
        check_security(&self.config.hosts, &wanted).map_err(&unusable)?;
        let bound = TcpListener::bind(wanted)
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            })
            .map_err(|error| unusable(format!("nobody can listen there: {error}")))?;
        let (bound_to, listener) = bound;
        let mut running = self.start_hosts(address)?;
        let running = running.as_mut().ok_or(Error::Closed)?;
        running.last_token += 1;
        let token = running.last_token;
        // The thread ends with the node only.
        let _ = running.wishes.send(Wish::Open { token, listener });
        running.bell.signal()?;
        Ok((bound_to, token))
    }

    /// Closes a port; links that came by it stay.
    pub fn close_port(&self, token: u64) {
        if let Some(running) = &*self.hosts.running() {
            let _ = running.wishes.send(Wish::Close { token });
            let _ = running.bell.signal();
        }
    }

    fn of_node(&self) -> OfNode {
        OfNode {
            own: self.base.own,
            membarrier: self.base.membarrier,
            counters: self.base.counters.clone(),
            retirer: self.base.retirer.clone(),
            set: Arc::clone(&self.base.driven),
        }
    }

    /// What plays the part of a node on another host, and a thread that reaches it.
    pub fn reach_host(self: &Arc<Self>, host: &str) -> Result<(Arc<dyn Driven>, Socket)> {
        let running = self.start_hosts(host)?;
        let running = running.as_ref().ok_or(Error::Closed)?;
        let (own, trust) = (running.own, running.trust.clone());
        let (proxy, socket) = Proxy::new(host, self.of_node())?;
        let dial = Dial {
            node: Arc::downgrade(self),
            proxy: Arc::clone(&proxy),
            host: host.to_owned(),
            config: self.config.hosts.clone(),
            own,
            trust,
        };
        start_thread("barewire-dial", move || dial.run())?;
        Ok((proxy, socket))
    }

    fn greeting(&self, trust: &Trust) -> Greeting {
        let own = self.base.own;
        let mut greeting = Greeting::own(self.base.node_id, own.pid as u32, own.uid);
        if trust.wants_libfabric() {
            greeting = greeting.wanting_libfabric();
        }
        match self.config.hosts.shortcut {
            true => greeting,
            false => greeting.of_nowhere(),
        }
    }

    /// A node of another host has greeted us at a port.
    pub fn welcome(self: &Arc<Self>, greeted: Greeted) -> Result<()> {
        let peer = remote_peer(&greeted);
        let (proxy, socket) = Proxy::new(&peer.address, self.of_node())?;
        let remote = Arc::clone(&proxy) as Arc<dyn Driven>;
        self.state().add_remote(socket, remote, false)?;
        proxy.establish(greeted.carrier, &greeted.theirs, peer)?;
        // Its hello waits at our socket.
        self.base.wake();
        Ok(())
    }
}

fn remote_peer(greeted: &Greeted) -> RemotePeer {
    let properties = greeted.carrier.properties();
    RemotePeer {
        address: properties.peer_address,
        own_address: properties.own_address,
        identity: greeted.identity.clone(),
        pid: greeted.theirs.pid,
        transport: properties.transport,
        is_encrypted: properties.is_encrypted,
        round_trip: None,
    }
}

/// Whether links to this address may be made, by the node's settings.
fn check_security(config: &HostsConfig, address: &SocketAddr) -> std::result::Result<(), String> {
    if config.security == Security::Insecure && !is_private(address) {
        return Err(format!(
            "{address} is neither loopback nor private, and HostsConfig::security is Insecure: use Keys \
             (barewire node keygen), or InsecureAnywhere if everybody who reaches this address may do what a \
             process of this user may"
        ));
    }
    Ok(())
}

/// Reaches another host, in a thread of its own: to find an address may take long.
struct Dial {
    node: Weak<NodeCore>,
    proxy: Arc<Proxy>,
    host: String,
    config: HostsConfig,
    own: Greeting,
    trust: Trust,
}

impl Dial {
    fn run(self) {
        if let Err(reason) = self.reach() {
            let host = self.host.clone();
            self.proxy.give_up(Error::HostUnreachable { host, reason });
        }
        if let Some(node) = self.node.upgrade() {
            // What has become of it waits at a socket of the node.
            node.base.wake();
            // The thread may sleep for good, as it does while there is no link: now it looks after one.
            node.hosts.ring();
        }
    }

    fn reach(&self) -> std::result::Result<(), String> {
        let deadline = Instant::now() + GREETING_TIME;
        let stream = self.connect(deadline)?;
        let greeter = Greeter::dial(stream, &self.host, &self.trust, &self.own)?;
        let greeted = greet(greeter, deadline)?;
        if self.own.is_local_to(&greeted.theirs) {
            return self.move_to_this_host();
        }
        let peer = remote_peer(&greeted);
        let established = self.proxy.establish(greeted.carrier, &greeted.theirs, peer);
        established.map_err(|error| error.to_string())
    }

    fn connect(&self, deadline: Instant) -> std::result::Result<TcpStream, String> {
        let (_, address) = split_host(&self.host);
        let addresses = address
            .to_socket_addrs()
            .map_err(|error| error.to_string())?;
        let mut reason = "it has no address".to_owned();
        for address in addresses {
            check_security(&self.config, &address)?;
            let left = deadline.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) => reason = format!("{address}: {error}"),
            }
        }
        Err(reason)
    }

    /// The other node is on this very host: it is reached by its names.
    fn move_to_this_host(&self) -> std::result::Result<(), String> {
        let node = self.node.upgrade().ok_or("the node is gone")?;
        let mut state = node.state();
        let proxy = Arc::clone(&self.proxy) as Arc<dyn Driven>;
        state.move_to_this_host(&proxy);
        Ok(())
    }
}

/// Does all steps up to a link, and waits for each.
fn greet(mut greeter: Greeter, deadline: Instant) -> std::result::Result<Greeted, String> {
    let epoll = Epoll::new().map_err(|error| error.to_string())?;
    let mut events = Vec::with_capacity(1);
    loop {
        if let Some(greeted) = greeter.step()? {
            return Ok(greeted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("it did not answer with a greeting in time".to_owned());
        }
        let Some((descriptor, interest)) = greeter.wait_for() else {
            continue;
        };
        epoll
            .add(descriptor, 0, interest)
            .and_then(|()| epoll.wait(&mut events, Some(left)))
            .and_then(|_| epoll.remove(descriptor))
            .map_err(|error| error.to_string())?;
        events.clear();
    }
}
