//! What all handles of a node share: the lock around its tables, its settings, and polling of
//! its sockets.
//!
//! An importer that never polls its node would go on storing into the memory of a dead process,
//! and loading from it. So while a link has imported apertures, a thread of the process
//! ([`barewire_sys::watch`]) watches the link's descriptors for the end of the peer. It sets a
//! flag in each of these apertures, in a word that every access loads anyway, and rings for
//! those that wait for the owner's stores. It does not take the lock of the node's tables:
//! everything else that follows from a death is done by the next poll. A node without imported
//! apertures has no such thread. The reasons are in `docs/decisions/0007`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_shm::Window;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::process::own_credentials;
use barewire_sys::wake::{EpollEvent, Interest};

use crate::apertures::imported::Imported;
use crate::config::{ConnectOptions, NodeConfig};
use crate::error::Result;
use crate::links::base::{Base, TOKEN_DRIVEN};
use crate::links::budget::Accounts;
use crate::links::connection::ConnectionCore;
use crate::log;
use crate::node::bulk::{Bulk, Job};
use crate::node::capture::Tap;
use crate::node::hosts::Hosts;
use crate::node::settings::{self, Setting, SettingsServer};
use crate::node::waiting::Waiting;
use crate::remote::address::HostName;
use crate::tables::doorbells::{Doorbells, OWN_SOURCE};
use crate::tables::events::Pending;
use crate::tables::peer::Stage;
use crate::tables::state::State;

/// While polling, sockets are looked at this often: peers ring for control messages, so
/// only deaths and first contacts wait for it.
const SOCKET_POLL_INTERVAL_NS: u64 = 1_000_000;

/// How long a node that goes away waits for other hosts to take what it has sent.
const LINGER: Duration = Duration::from_secs(2);

/// A node, below its handles.
pub(crate) struct NodeCore {
    pub base: Arc<Base>,
    /// What it was made with.
    pub config: NodeConfig,
    state: Mutex<State>,
    /// Our own doorbell page, which every poll loads from: one pointer nearer than in the base.
    pub own_page: Window,
    pub waiting: Waiting,
    /// Where other processes read and change settings.
    settings_server: Option<SettingsServer>,
    /// Held by who changes settings.
    changing: Mutex<()>,
    bulk: Bulk,
    pub hosts: Hosts,
    pub tap: Option<Arc<Tap>>,
}

impl NodeCore {
    pub fn new(config: NodeConfig) -> Result<Arc<NodeCore>> {
        log::prepare();
        config.check()?;
        let placement = config.placement();
        placement.check()?;
        let own = own_credentials();
        let doorbells = Doorbells::new(own.uid, &placement)?;
        let base = Arc::new(Base::new(&config, doorbells.own_page().clone())?);
        let (of_one, of_all) = config.fitted_budgets();
        let accounts = Accounts::new(&of_one, &of_all, base.counters.clone());
        let state = State::new(Arc::clone(&base), doorbells, accounts, placement);
        let tap = match &config.capture {
            Some(path) => Some(Arc::new(Tap::create(path, own.pid as u32)?)),
            None => None,
        };
        Ok(Arc::new(NodeCore {
            settings_server: SettingsServer::open(base.node_id, &base.epoll),
            own_page: base.own_page.clone(),
            base,
            waiting: Waiting::new(config.spin),
            config,
            state: Mutex::new(state),
            changing: Mutex::default(),
            bulk: Bulk::default(),
            hosts: Hosts::default(),
            tap,
        }))
    }

    /// The node's state. A panic of another thread while it held the lock does not make
    /// the state unusable: every change leaves it consistent before anything can panic.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the sockets and handles what is there.
    pub fn poll_sockets(&self, timeout: Option<Duration>) -> Result<usize> {
        let mut events: Vec<EpollEvent> = Vec::with_capacity(64);
        self.base.epoll.wait(&mut events, timeout)?;
        // Relaxed: a hint about when we last looked.
        self.waiting
            .last_poll_ns
            .store(monotonic_ns(), Ordering::Relaxed);
        if events.iter().any(|event| event.token == TOKEN_DRIVEN) {
            self.base.driven.drive();
        }
        if let Some(server) = &self.settings_server {
            server.accept_postponed(&self.base);
            for event in &events {
                server.serve(&self.base, event.token, |request| self.answer(request));
            }
        }
        let mut state = self.state();
        for event in &events {
            state.socket_event(event);
        }
        state.resume_listeners();
        state.close_marked();
        state.news = false;
        if !state.is_settled() {
            state.attract();
        }
        let unclaimed = core::mem::take(&mut state.events.unclaimed);
        drop(state);
        // To give memory back takes its time.
        drop(unclaimed);
        Ok(events.len())
    }

    /// Looks at the sockets without waiting. What it finds may be what the thread that
    /// sleeps in the kernel waits for, or the owner's event loop: these are woken.
    pub fn poll_sockets_now(&self) -> Result<()> {
        // That thread looks, and must not have what wakes it taken away.
        if self.waiting.gate().led {
            return Ok(());
        }
        if self.poll_sockets(Some(Duration::ZERO))? > 0 {
            let mut state = self.state();
            state.doorbells.renumber_sleep_if_asleep();
            self.wake_owner_loop(&state);
            drop(state);
            self.wake_leader();
        }
        Ok(())
    }

    /// What woke us may have been meant for the owner's event loop.
    pub fn wake_owner_loop(&self, state: &State) {
        // Relaxed: changed under the lock of the state only.
        if self.waiting.asleep_for_descriptor.load(Ordering::Relaxed) && state.has_work() {
            self.base.wake();
        }
    }

    pub fn wake_leader(&self) {
        if self.waiting.gate().led {
            self.base.wake();
        }
    }

    /// Looks at the sockets if that has not been done for a while.
    pub fn poll_sockets_if_due(&self, now_ns: u64) -> Result<()> {
        // Relaxed: a hint about when we last looked.
        if now_ns.wrapping_sub(self.waiting.last_poll_ns.load(Ordering::Relaxed))
            > SOCKET_POLL_INTERVAL_NS
        {
            self.poll_sockets_now()?;
        }
        Ok(())
    }

    /// Remembers a connection whose receiver has told its peer not to ring.
    pub fn note_disarmed(&self, connection: &Arc<ConnectionCore>) {
        if self.waiting.add_disarmed(connection) {
            self.base.wake();
        }
    }

    /// All settings that may change, as they are now.
    pub fn settings(&self) -> Vec<Setting> {
        settings::list(&self.base.live())
    }

    /// Changes settings: all of these or, with an error, none.
    pub fn change(&self, changes: &[(&str, &str)]) -> Result<()> {
        // Held to the end: of two changes at a time, one comes after the other.
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.base.live().clone();
        let wanted = settings::changed(&now, changes, &self.config)?;
        if wanted.config.spin != now.config.spin {
            self.waiting.spinner.change(wanted.config.spin);
        }
        let (of_one, of_all) = wanted.config.fitted_budgets();
        self.state().accounts.change(&of_one, &of_all);
        if let Some(tap) = &self.tap {
            tap.pause(!wanted.capturing);
        }
        *self.base.live() = wanted;
        drop(changing);
        Ok(())
    }

    /// The answer to a request on the settings socket.
    fn answer(&self, request: &[u8]) -> String {
        settings::answer(request, |changes| self.change(changes), || self.settings())
    }

    /// Begins a connection; the answer comes later. Returns its number. `announce`: as an event,
    /// and nobody need poll before the other side is asked.
    pub fn start_connect(
        self: &Arc<Self>,
        name: &str,
        options: &ConnectOptions,
        announce: bool,
    ) -> Result<u32> {
        let mut state = self.state();
        let (number, link) = match HostName::parse(name) {
            Some(host) => {
                let reach = || self.reach_host(&host.host);
                state.start_connect_to_host(&host, options, announce, reach)?
            }
            None => state.start_connect(name, options, announce)?,
        };
        if announce && !state.is_up(link) {
            let (node, peer) = (Arc::downgrade(self), &mut state.peers[link]);
            let generation = peer.generation;
            let said_hello = move || {
                if let Some(node) = node.upgrade() {
                    node.check_peer(link, generation);
                }
            };
            // Without a thread to do it, the next poll reads the hello.
            peer.watch(Interest::READ, Arc::new(said_hello));
        }
        Ok(number)
    }

    /// Hands a transfer to the copying thread.
    pub fn bulk(self: &Arc<Self>, job: Job) -> Result<()> {
        let limit = self.base.live().config.bulk_max;
        let node = Arc::downgrade(self);
        self.bulk.add(job, limit, move |cookie, result| {
            let Some(node) = node.upgrade() else {
                return false;
            };
            node.bulk.one_ended();
            node.state().push(Pending::Completion { cookie, result });
            node.base.ring_own(OWN_SOURCE);
            true
        })
    }

    /// There is news of this peer, whether or not anybody polls: handles it, and wakes who
    /// waits for it.
    pub fn check_peer(&self, index: usize, generation: u32) {
        let mut state = self.state();
        let peer = state.peers.get(index);
        let Some(peer) = peer.filter(|p| p.generation == generation && p.has_socket()) else {
            return;
        };
        if peer.has_ended() {
            state.handle_death(index);
        } else if matches!(peer.stage, Stage::Greeting) {
            state.read_socket(index);
        } else {
            return;
        }
        self.wake_all(state);
    }

    /// As [`NodeCore::check_peer`], for the peer of a connection of ours.
    pub fn check_peer_of(&self, connection: u32) {
        let state = self.state();
        let link = state.route(connection).map(|(link, _)| link);
        let peer = link.and_then(|link| Some((link, state.peers.get(link)?.generation)));
        drop(state);
        if let Some((index, generation)) = peer {
            self.check_peer(index, generation);
        }
    }

    /// No thread watches the owner of an imported aperture: sees whether it is still there, and
    /// now and then tries to have it watched.
    pub fn check_owner(&self, imported: &Imported) {
        let (index, generation) = imported.peer;
        if imported.has_owner_ended() {
            return self.check_peer(index, generation);
        }
        if imported.is_watch_due() {
            self.state().watch_again(imported.peer);
        }
    }

    /// Has whoever waits on this node look at what was handled without it.
    fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        state.close_marked();
        state.news = false;
        state.attract();
        let unclaimed = core::mem::take(&mut state.events.unclaimed);
        state.doorbells.renumber_sleep_if_asleep();
        self.wake_owner_loop(&state);
        drop(state);
        // To give memory back takes its time.
        drop(unclaimed);
        self.wake_leader();
    }
}

impl Drop for NodeCore {
    fn drop(&mut self) {
        if self.base.check_fork().is_ok() {
            if let Some(tap) = &self.tap {
                tap.flush();
            }
            self.state
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .send_bye();
            self.base.driven.linger(LINGER);
            self.hosts.ring();
            log::settle();
        }
    }
}
