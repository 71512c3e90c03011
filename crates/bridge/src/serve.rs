//! The loop: frames, events of the node, time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barewire::{
    Connection, ConnectionId, Error, Event, ListenOptions, Listener, Node, NodeConfig, Request,
};
use barewire_proto::edge::bridge::{Bridge as Core, HEAD_BYTES, HEADROOM};
use barewire_proto::edge::counters::Counters;
use barewire_proto::edge::flow::HashKey;
use barewire_proto::edge::leases::LeaseId;
use barewire_proto::edge::message::{Answer, Ask, MESSAGE_BYTES_MAX, Refusal};
use barewire_proto::edge::network::Attachment;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::frames::{FrameDevice, FrameSent};
use barewire_sys::interrupt::Interrupt;
use barewire_sys::process::random_bytes;
use barewire_units::{Duration, Instant, Rng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attach::attach;
use crate::clients::{Clients, Out, Questions, fate, frame_begins};
use crate::config::BridgeConfig;
use crate::error::BridgeError;
use crate::pause::Pause;

/// Frames, messages of one client and events that are taken before others have their turn.
const TURN: usize = 64;
/// No message takes less of a queue, in bytes.
const MESSAGE_BYTES_MIN: usize = 8;
/// A longer message of a client is sent from where it lies: a copy of it takes longer than to look at its beginning first.
const SHORT_BYTES: usize = 4096;
/// After so long time counts from another origin: a hundred days.
const REBASED_AFTER_NS: u64 = 100 * 86_400 * 1_000_000_000;
/// Room for the longest frame with its header.
const FRAME_BYTES_MAX: usize = 68 << 10;
/// Connections beyond those with a lease: of clients that have not asked yet.
const CONNECTIONS_MORE: u32 = 256;

/// A bridge that is attached to its network.
#[derive(Debug)]
pub struct Bridge {
    device: FrameDevice,
    at: Attachment,
    node: Node,
    _listener: Listener,
    core: Core,
    clients: Clients,
    clients_max: usize,
    ring_bytes: usize,
    spin_ns: u64,
    pause: Pause,
    from_ns: u64,
    frame: Vec<u8>,
    message: Vec<u8>,
    events: Vec<Event>,
}

/// How a bridge is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it has counted.
    pub counters: Counters,
    /// Leases.
    pub leases: usize,
    /// Connections in TIME-WAIT.
    pub waits: usize,
    /// Neighbours in the table.
    pub neighbours: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "leases {}, in TIME-WAIT {}, neighbours {}",
            self.leases, self.waits, self.neighbours
        )?;
        let shown = self.counters.list().filter(|(.., value)| *value != 0);
        shown
            .into_iter()
            .try_for_each(|(name, _, value)| write!(f, ", {name} {value}"))
    }
}

fn random() -> Result<[u64; 5], BridgeError> {
    let mut bytes = [[0; 8]; 5];
    random_bytes(bytes.as_flattened_mut())?;
    Ok(bytes.map(u64::from_ne_bytes))
}

impl Bridge {
    /// Opens the device, gives up all rights of root in this thread and those that it starts, and listens.
    ///
    /// # Errors
    /// See [`BridgeError`].
    pub fn open(config: &BridgeConfig) -> Result<Self, BridgeError> {
        let (device, at) = attach(config)?;
        let clients_max = config.limits.leases_max.saturating_add(CONNECTIONS_MORE);
        let node = Node::with_config(NodeConfig {
            ring_bytes: config.ring_bytes,
            message_bytes_max: MESSAGE_BYTES_MAX,
            connections_max: clients_max,
            ..NodeConfig::default()
        })?;
        let policy = config.policy.clone();
        let listener = node.listen_with(&config.name, ListenOptions { policy })?;
        let [a, b, c, d, seed] = random()?;
        let keys = [HashKey::new([a, b]), HashKey::new([c, d])];
        let core = Core::new(
            at.clone(),
            config.limits.clone(),
            keys,
            Rng::from_seed(seed),
        );
        Ok(Self {
            device,
            at,
            node,
            _listener: listener,
            core,
            clients: Clients::default(),
            clients_max: clients_max as usize,
            ring_bytes: config.ring_bytes,
            spin_ns: u64::try_from(config.spin.as_nanos()).unwrap_or(u64::MAX),
            pause: Pause::new(),
            from_ns: monotonic_ns(),
            frame: vec![0; FRAME_BYTES_MAX],
            message: vec![0; HEADROOM + MESSAGE_BYTES_MAX],
            events: Vec::with_capacity(TURN),
        })
    }

    /// How it is attached to its network.
    #[must_use]
    pub fn attachment(&self) -> &Attachment {
        &self.at
    }

    /// How it is doing.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            counters: *self.core.counters(),
            leases: self.core.leases().len(),
            waits: self.core.leases().waits(),
            neighbours: self.core.neighbours().len(),
        }
    }

    /// Serves until a signal ends it (SIGINT, SIGTERM, SIGHUP). On SIGUSR1, and at the end, `report` is called. Call it
    /// with a bridge of the only thread.
    ///
    /// # Errors
    /// The device is gone; the node is broken.
    pub fn serve_until_signal(
        &mut self,
        mut report: impl FnMut(&Summary),
    ) -> Result<(), BridgeError> {
        let interrupt = Interrupt::catch()?;
        let asked = Arc::new(AtomicBool::new(false));
        let signal = signal_hook::consts::SIGUSR1;
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&asked)) {
            eprintln!("barewire: SIGUSR1 will end the bridge: {error}");
        }
        let ended = self.serve(&interrupt, &mut |bridge| {
            // Relaxed: set by the signal's handler in this thread, and nothing else goes with it.
            if asked.swap(false, Ordering::Relaxed) {
                report(&bridge.summary());
            }
        });
        report(&self.summary());
        ended
    }

    /// Serves until `stop` is readable. `idle` is called before each sleep, and after a signal.
    ///
    /// # Errors
    /// The device is gone; the node is broken.
    pub fn serve(
        &mut self,
        stop: &impl AsFd,
        idle: &mut dyn FnMut(&Self),
    ) -> Result<(), BridgeError> {
        self.core.announce(&mut Out {
            device: &self.device,
            clients: &mut self.clients,
        });
        let mut idle_since = None;
        loop {
            let now_ns = monotonic_ns();
            let taken = self.turn(now_ns)?;
            if taken != 0 {
                idle_since = None;
                continue;
            }
            let since = *idle_since.get_or_insert(now_ns);
            if now_ns - since < self.spin_ns {
                self.pause(now_ns);
                continue;
            }
            idle(self);
            // Until here, clients need not wake it.
            if self.take_events(self.instant(now_ns), true)? != 0 {
                continue;
            }
            if self.sleep(stop)? {
                return Ok(());
            }
            idle_since = None;
        }
    }

    /// Lets others have the processor, or not.
    fn pause(&mut self, now_ns: u64) {
        if !self.pause.is_due() {
            return std::hint::spin_loop();
        }
        std::thread::yield_now();
        self.pause.took(monotonic_ns() - now_ns, self.spin_ns);
    }

    /// Takes what is there, without waiting: frames and events, each at most some. Returns how many.
    ///
    /// # Errors
    /// The device is gone; the node is broken.
    pub fn poll_once(&mut self) -> Result<usize, BridgeError> {
        self.turn(monotonic_ns())
    }

    /// [`poll_once`](Self::poll_once) at a time that holds for all of it.
    fn turn(&mut self, now_ns: u64) -> Result<usize, BridgeError> {
        let now = self.instant(now_ns);
        let frames = self.take_frames(now)?;
        let events = self.take_events(now, false)?;
        self.handle_time(now);
        self.rebase_if_due(now_ns);
        Ok(frames + events)
    }

    /// An instant goes no further than 213 days, so time counts from a later origin long before that.
    fn rebase_if_due(&mut self, now_ns: u64) {
        if now_ns - self.from_ns < REBASED_AFTER_NS {
            return;
        }
        let by = Duration::from_ns(REBASED_AFTER_NS);
        self.core.rebase(by);
        self.clients.rebase(by);
        self.from_ns += REBASED_AFTER_NS;
    }

    fn instant(&self, now_ns: u64) -> Instant {
        Instant::from_ps((now_ns - self.from_ns).saturating_mul(1000))
    }

    fn now(&self) -> Instant {
        self.instant(monotonic_ns())
    }

    /// Sleeps until there is something to do. The node was polled for the last time and had nothing, so its descriptor is armed.
    fn sleep(&self, stop: &impl AsFd) -> Result<bool, BridgeError> {
        let deadlines = [self.core.next_deadline(), self.clients.next_deadline()];
        let until = deadlines.into_iter().flatten().min();
        let left = until.map(|until| until.saturating_duration_since(self.now()).as_ns() + 1);
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as i64,
        });
        let mut fds = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(&self.device, PollFlags::IN),
            PollFd::new(&self.node, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => {
                let what = "wait for frames and clients (poll)";
                Err(barewire_sys::SysError::Os {
                    what,
                    errno: errno.into(),
                }
                .into())
            }
        }
    }

    fn take_frames(&mut self, now: Instant) -> Result<usize, BridgeError> {
        let at = frame_begins(&self.device);
        for taken in 0..TURN {
            let Some(len) = self.device.try_receive(&mut self.frame[at..])? else {
                return Ok(taken);
            };
            if at != 0 {
                self.frame[..at].fill(0);
            }
            let mut out = Out {
                device: &self.device,
                clients: &mut self.clients,
            };
            self.core
                .from_network(now, &mut self.frame[..at + len], &mut out);
        }
        Ok(TURN)
    }

    /// Takes events of the node. `is_last`: if there are none, its descriptor tells of the next.
    fn take_events(&mut self, now: Instant, is_last: bool) -> Result<usize, BridgeError> {
        let mut events = std::mem::take(&mut self.events);
        let taken = match is_last {
            true => self.node.poll(&mut events, TURN)?,
            false => self.node.poll_awake(&mut events, TURN)?,
        };
        for event in events.drain(..) {
            match event {
                Event::Request(request) => self.accept(now, request),
                Event::Ready(id) => self.take_messages(now, id, TURN),
                Event::Closed { connection, .. } => self.take_last_messages(now, connection),
                _ => {}
            }
        }
        self.events = events;
        Ok(taken)
    }

    fn accept(&mut self, now: Instant, request: Request) {
        if self.clients.len() >= self.clients_max {
            return request.reject("the bridge has as many clients as it can");
        }
        // An error: the client has given up meanwhile.
        if let Ok(connection) = request.accept_with_ring(self.ring_bytes) {
            self.clients.add(now, connection);
        }
    }

    /// Takes messages of a client, at most so many.
    fn take_messages(&mut self, now: Instant, id: ConnectionId, most: usize) {
        for _ in 0..most {
            let Some(client) = self.clients.get(id) else {
                return;
            };
            let lease = client.lease;
            let short = &mut self.message[HEADROOM..HEADROOM + SHORT_BYTES];
            let len = match client.connection.try_recv(short) {
                Ok(Some(len)) => Ok(len),
                Ok(None) => return,
                Err(Error::BufferTooSmall { .. }) => match self.take_long(now, id, lease) {
                    Ok(Some(len)) => Ok(len),
                    Ok(None) => continue,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            let Ok(len) = len else {
                return self.end(now, id);
            };
            match lease {
                Some(lease) => {
                    let mut out = Out {
                        device: &self.device,
                        clients: &mut self.clients,
                    };
                    let framed = &mut self.message[..HEADROOM + len];
                    self.core.from_client(now, lease, framed, &mut out);
                }
                None => self.answer(now, id, len),
            }
        }
    }

    /// Sends a client's long message from where it lies, if all that has to be seen of it is its beginning. Otherwise takes it
    /// out, and returns its length.
    fn take_long(
        &mut self,
        now: Instant,
        id: ConnectionId,
        lease: Option<LeaseId>,
    ) -> barewire::Result<Option<usize>> {
        let Some(client) = self.clients.get(id) else {
            return Ok(None);
        };
        let Some(message) = client.connection.receiver().try_recv_message()? else {
            return Ok(None);
        };
        let len = message.len_bytes();
        if let (Some(lease), Some(fd)) = (lease, self.device.written_to()) {
            let head = &mut self.message[..HEADROOM + HEAD_BYTES];
            message.read_at(0, &mut head[HEADROOM..]);
            let from = frame_begins(&self.device);
            let send = |head: &[u8]| {
                let written = message.write_to(fd, &head[from..], HEAD_BYTES);
                fate(FrameSent::of_write(written))
            };
            let mut questions = Questions(&self.device);
            let core = &mut self.core;
            if core.from_client_head(now, lease, head, len, send, &mut questions) {
                message.release();
                return Ok(None);
            }
        }
        message.read_at(0, &mut self.message[HEADROOM..HEADROOM + len]);
        message.release();
        Ok(Some(len))
    }

    /// Takes what a client sent before it went, and lets it go. That is a queue full at most: whoever writes on, since it still
    /// has the memory, is not waited for.
    fn take_last_messages(&mut self, now: Instant, id: ConnectionId) {
        self.take_messages(now, id, self.ring_bytes / MESSAGE_BYTES_MIN);
        self.end(now, id);
    }

    /// Answers a client's first message.
    fn answer(&mut self, now: Instant, id: ConnectionId, len: usize) {
        let ask = Ask::parse(&self.message[HEADROOM..HEADROOM + len]);
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let asked = ask
            .map_err(|_| Refusal::BadRequest)
            .map(|ask| fitted(ask, &mut client.connection));
        let granted = asked.and_then(|ask| self.core.grant(client.connection.peer().uid, &ask));
        let (lease, answer) = match granted {
            Ok((lease, granted)) => (Some(lease), Answer::Granted(granted)),
            Err(refusal) => (None, Answer::Refused(refusal)),
        };
        let sent = client.connection.try_send(answer.to_bytes().as_ref());
        if let Some(lease) = lease {
            self.clients.leased(id, lease);
        }
        if lease.is_none() || !matches!(sent, Ok(true)) {
            self.end(now, id);
        }
    }

    fn end(&mut self, now: Instant, id: ConnectionId) {
        if let Some(lease) = self.clients.remove(id) {
            let mut out = Out {
                device: &self.device,
                clients: &mut self.clients,
            };
            self.core.end(now, lease, &mut out);
        }
    }

    fn handle_time(&mut self, now: Instant) {
        if self
            .core
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            let mut out = Out {
                device: &self.device,
                clients: &mut self.clients,
            };
            self.core.handle_time(now, &mut out);
        }
        self.clients.handle_time(now);
    }
}

/// What a client asks for, as far as its own queue has room for it: a large packet must fit.
fn fitted(mut ask: Ask, connection: &mut Connection) -> Ask {
    ask.takes.large_tcp &= connection.sender().try_send_bytes_max() >= MESSAGE_BYTES_MAX;
    ask
}
