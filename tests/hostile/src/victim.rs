//! The service that is attacked: echoes messages, grants apertures with tripwires on
//! them, stores into them and into what it is granted, and calls whom it is told to call.
//!
//! It answers `report` on its standard input with lines `key value` and one `end`.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire::{
    Action, Aperture, ApertureConfig, ConnectOptions, Connection, Error, Event, ListenOptions,
    Memory, Mode, Node, NodeConfig, Policy, RemoteAperture, Rights, Spin, Tripwire,
};

/// Longest message the service takes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Messages echoed before the next connection has its turn.
const TURN: usize = 32;
/// Answers that wait for a client that does not read; then it is closed.
const ANSWERS_MAX: usize = 64;
/// Connections of one user other than ours: what the service itself allows.
const FOREIGN_CONNECTIONS_MAX: usize = 4096;

/// Pause between two rounds of stores into its own apertures.
const STORES_EVERY: Duration = Duration::from_millis(50);

type Tally = Arc<Mutex<BTreeMap<String, u64>>>;

struct Client {
    connection: Connection,
    answers: VecDeque<Vec<u8>>,
    behind_since: Option<Instant>,
}

struct Service {
    node: Node,
    tally: Tally,
    clients: Vec<Option<Client>>,
    behind: Vec<usize>,
    foreign: usize,
    apertures: Vec<Aperture>,
    _tripwires: Vec<Tripwire>,
    held: VecDeque<(RemoteAperture, Option<Tripwire>)>,
    buffer: Vec<u8>,
    /// When it last stored into its own apertures.
    stored: Instant,
}

/// Serves under `name` until its standard input ends.
pub fn run(name: &str) {
    let tally = Tally::default();
    let reported = Arc::clone(&tally);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == "report" {
                report(&reported);
            }
        }
        std::process::exit(0);
    });
    let mut service = Service::new(tally).expect("a service");
    let options = ListenOptions {
        policy: Policy::anyone(),
    };
    let _listener = service.node.listen_with(name, options).expect("the name");
    println!("serving");
    service.serve();
}

fn report(tally: &Tally) {
    let mut out = String::new();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split_whitespace().map(|n| n.parse().unwrap_or(0));
    let rss: u64 = pages.nth(1).unwrap_or(0);
    let shared: u64 = pages.next().unwrap_or(0);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let fds = barewire_sys::process::open_fd_count().unwrap_or(0);
    let cpu = barewire_sys::process::cpu_time_self().as_millis();
    let numbers = [
        ("descriptors", fds as u64),
        ("private_kib", rss.saturating_sub(shared) * 4),
        ("mappings", maps.lines().count() as u64),
        ("cpu_ms", cpu as u64),
    ];
    for (key, value) in numbers {
        out += &format!("{key} {value}\n");
    }
    for (key, value) in tally.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        out += &format!("{key}={value}\n");
    }
    out += "end\n";
    let _ = std::io::stdout().lock().write_all(out.as_bytes());
    let _ = std::io::stdout().flush();
}

/// An error by name, without its numbers.
fn name_of(error: &Error) -> String {
    match error {
        Error::PeerMisbehaved(misconduct) => {
            let text = format!("{misconduct:?}");
            let end = text.find([' ', '{']).filter(|_| !text.contains('"'));
            format!("misconduct: {}", &text[..end.unwrap_or(text.len())])
        }
        other => {
            let text = format!("{other:?}");
            let end = text.find([' ', '{', '(']).unwrap_or(text.len());
            format!("ended: {}", &text[..end])
        }
    }
}

impl Service {
    fn new(tally: Tally) -> barewire::Result<Service> {
        let node = Node::with_config(NodeConfig {
            spin: Spin::For(Duration::from_micros(20)),
            message_bytes_max: MESSAGE_BYTES_MAX,
            connections_max: 10_000,
            granted_apertures_max: 32,
            ..NodeConfig::default()
        })?;
        let mut apertures = Vec::new();
        let mut tripwires = Vec::new();
        for rights in [Rights::ReadWrite, Rights::Read] {
            let aperture = node.export(ApertureConfig::new(64 << 10, rights))?;
            for i in 0..16 {
                let action = match i % 3 {
                    0 => Action::Enqueue { cookie: i as u64 },
                    1 => Action::Count,
                    _ => Action::Wake,
                };
                tripwires.push(aperture.tripwire(i * 1000, 100, Mode::Sticky, action)?);
            }
            apertures.push(aperture);
        }
        Ok(Service {
            node,
            tally,
            clients: Vec::new(),
            behind: Vec::new(),
            foreign: 0,
            apertures,
            _tripwires: tripwires,
            held: VecDeque::new(),
            buffer: vec![0; MESSAGE_BYTES_MAX],
            stored: Instant::now(),
        })
    }

    fn count(&self, what: impl Into<String>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.entry(what.into()).or_default() += 1;
    }

    fn serve(&mut self) {
        let mut events = Vec::new();
        loop {
            let patience = if self.behind.is_empty() { 100 } else { 1 };
            self.node
                .wait(&mut events, 64, Some(Duration::from_millis(patience)))
                .expect("a node that works");
            for event in events.drain(..) {
                self.handle(event);
            }
            for at in core::mem::take(&mut self.behind) {
                self.answer(at);
            }
            self.store_for_those_who_wait();
        }
    }

    /// Stores of our own, after each of which importers are looked at that say they wait.
    fn store_for_those_who_wait(&mut self) {
        // Not so often that others wait for it.
        if self.stored.elapsed() < STORES_EVERY {
            return;
        }
        self.stored = Instant::now();
        for aperture in &self.apertures {
            let stored = [
                aperture.put(100, &[5; 5000]),
                aperture.store(64, 1),
                aperture.add(4096, 1).map(drop),
                aperture.compare_exchange(64, 1, 2).map(drop),
            ];
            assert!(stored.iter().all(Result::is_ok), "its own memory");
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(request) => {
                let foreign = request.peer().uid != self.node.credentials().uid;
                if foreign && self.foreign >= FOREIGN_CONNECTIONS_MAX {
                    return request.reject("too many");
                }
                let data = request.data().to_vec();
                match request.accept() {
                    Ok(connection) => self.welcome(connection, &data),
                    Err(error) => self.count(format!("accepting {}", name_of(&error))),
                }
            }
            Event::Connected(connection) => {
                self.count("call answered");
                self.welcome(*connection, b"");
            }
            Event::ConnectFailed { error, .. } => {
                self.count(format!("call {}", name_of(&error)));
            }
            Event::Ready(id) => self.answer(id.index()),
            Event::Closed { connection, reason } => {
                self.count(name_of(&reason));
                self.answer(connection.index());
                self.drop_client(connection.index());
            }
            Event::Granted { aperture, .. } => self.use_aperture(aperture),
            Event::OutOfBand { .. } => self.count("out of band"),
            Event::Tripwire { .. } => self.count("tripwires"),
            Event::Completion {
                result: Err(error), ..
            } => self.count(format!("bulk {}", name_of(&error))),
            _ => {}
        }
    }

    fn welcome(&mut self, connection: Connection, data: &[u8]) {
        if data.starts_with(b"aperture") {
            for (aperture, cookie) in self.apertures.iter().zip(0..) {
                let _ = connection.grant(aperture, cookie);
            }
        }
        if let Some(name) = data.strip_prefix(b"call:") {
            let options = ConnectOptions {
                owner: Some(connection.peer().uid),
                ..ConnectOptions::default()
            };
            let name = String::from_utf8_lossy(name);
            match self.node.start_connect(&name, &options) {
                Ok(_) => {}
                Err(error) => self.count(format!("call at once {}", name_of(&error))),
            }
        }
        let at = connection.id().index();
        if connection.peer().uid != self.node.credentials().uid {
            self.foreign += 1;
        }
        if self.clients.len() <= at {
            self.clients.resize_with(at + 1, || None);
        }
        let before = self.clients[at].replace(Client {
            connection,
            answers: VecDeque::new(),
            behind_since: None,
        });
        assert!(before.is_none(), "a number in use was given again");
    }

    fn drop_client(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at).and_then(Option::take) {
            if client.connection.peer().uid != self.node.credentials().uid {
                self.foreign -= 1;
            }
        }
    }

    /// Echoes what is there, a turn of it.
    fn answer(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        match echo(client, &mut self.buffer) {
            Ok(true) => {}
            Ok(false) => {
                let since = *client.behind_since.get_or_insert_with(Instant::now);
                if since.elapsed() < Duration::from_secs(1) {
                    self.behind.push(at);
                } else {
                    self.count("does not read");
                    self.drop_client(at);
                }
            }
            Err(error) => {
                self.count(name_of(&error));
                self.drop_client(at);
            }
        }
    }

    /// Does everything that can be done with a peer's memory.
    fn use_aperture(&mut self, aperture: RemoteAperture) {
        self.count("granted");
        let len = aperture.len_bytes();
        let mut into = vec![0; len.min(5000)];
        for at in [
            0,
            8,
            64,
            4096,
            4089,
            (len / 2) & !7,
            len.saturating_sub(8) & !7,
        ] {
            let results = [
                aperture.put(at, &into[..into.len().min(8)]),
                aperture.put(at, &into),
                aperture.get(at, &mut into),
                aperture.load(at).map(|_| ()),
                aperture.store(at, 1),
                aperture.add(at, 1).map(|_| ()),
                aperture.compare_exchange(at, 1, 2).map(|_| ()),
            ];
            for error in results.iter().filter_map(|r| r.err()) {
                let text = format!("{error:?}");
                let end = text.find([' ', '{']).unwrap_or(text.len());
                self.count(format!("access: {}", &text[..end]));
            }
        }
        let _ = aperture.tripwire(0, len.min(100), Mode::Sticky, Action::Count);
        // Set and taken away again, in memory that its owner spoils meanwhile.
        let actions = [Action::Count, Action::Wake, Action::Enqueue { cookie: 3 }];
        for (at, action) in (0..len.saturating_sub(100)).step_by(777).zip(actions) {
            let _ = aperture.tripwire_on_owner(at, 100, Mode::Sticky, action);
        }
        let _ = aperture.bulk_put(0, vec![1; len.min(100_000)], 0);
        let _ = aperture.bulk_get(0, len.min(100_000), 1);
        let waits = aperture.tripwire_on_owner(0, 8, Mode::Sticky, Action::Wake);
        self.held.push_back((aperture, waits.ok()));
        if self.held.len() > 8 {
            self.held.pop_front();
        }
    }
}

/// Whether everything that came could be answered. A client whose ring is too small for
/// the answer is done with.
fn echo(client: &mut Client, buffer: &mut [u8]) -> Result<bool, Error> {
    for _ in 0..TURN {
        while let Some(answer) = client.answers.front() {
            if !client.connection.try_send(answer)? {
                return Ok(false);
            }
            client.answers.pop_front();
        }
        client.behind_since = None;
        let Some(len) = client.connection.try_recv(buffer)? else {
            return Ok(true);
        };
        if !client.connection.try_send(&buffer[..len])? {
            client.answers.push_back(buffer[..len].to_vec());
            return Ok(client.answers.len() > ANSWERS_MAX);
        }
    }
    Ok(true)
}
