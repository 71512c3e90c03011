//! One thread that serves a thousand connections of several processes.
//!
//! ```sh
//! cargo run --release --example many_clients -- serve NAME
//! cargo run --release --example many_clients -- client NAME CONNECTIONS REQUESTS
//! cargo run --release --example many_clients          # a server, and four clients as children
//! ```

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Event, Node};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const CLIENTS: usize = 4;
const CONNECTIONS: usize = 250;
const REQUESTS: usize = 20;

/// Child processes, ended when they are no longer needed.
#[derive(Default)]
struct Clients(Vec<Child>);

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => Server::new(name)?.run(usize::MAX),
        ["client", name, connections, requests] => {
            client(name, connections.parse()?, requests.parse()?)
        }
        [] => demonstrate(),
        _ => Err("usage: many_clients [serve NAME | client NAME CONNECTIONS REQUESTS]".into()),
    }
}

fn demonstrate() -> Result {
    let name = format!("many-clients-{}", std::process::id());
    let mut server = Server::new(&name)?;
    let (connections, requests) = (CONNECTIONS.to_string(), REQUESTS.to_string());
    let mut clients = Clients::default();
    for _ in 0..CLIENTS {
        let child = Command::new(std::env::current_exe()?)
            .args(["client", &name, &connections, &requests])
            .spawn()?;
        clients.0.push(child);
    }
    let started = Instant::now();
    server.run(CLIENTS * CONNECTIONS)?;
    let seconds = started.elapsed().as_secs_f64();
    for mut child in std::mem::take(&mut clients.0) {
        if !child.wait()?.success() {
            return Err("a client failed".into());
        }
    }
    println!(
        "{} connections of {CLIENTS} processes, {} requests, one thread, {seconds:.2} s",
        server.served, server.answered
    );
    if server.answered == CLIENTS * CONNECTIONS * REQUESTS {
        Ok(())
    } else {
        Err("requests were lost".into())
    }
}

struct Server {
    node: Node,
    _listener: barewire::Listener,
    /// By the number of the connection, which is small and used again.
    connections: Vec<Option<Connection>>,
    /// Connections that have ended.
    served: usize,
    answered: usize,
}

impl Server {
    fn new(name: &str) -> Result<Server> {
        let node = Node::new()?;
        let listener = node.listen(name)?;
        Ok(Server {
            node,
            _listener: listener,
            connections: Vec::new(),
            served: 0,
            answered: 0,
        })
    }

    /// Serves until that many connections have ended.
    fn run(&mut self, connections: usize) -> Result {
        let mut events = Vec::new();
        while self.served < connections {
            // Spins a little, then sleeps. An idle server uses no processor time.
            self.node
                .wait(&mut events, 64, Some(Duration::from_secs(10)))?;
            if events.is_empty() && connections != usize::MAX {
                return Err("no client for ten seconds".into());
            }
            for event in events.drain(..) {
                match event {
                    Event::Request(request) => {
                        // An error: the client has given up meanwhile.
                        let Ok(connection) = request.accept() else {
                            self.served += 1;
                            continue;
                        };
                        let at = connection.id().index();
                        let room = self.connections.len().max(at + 1);
                        self.connections.resize_with(room, || None);
                        self.connections[at] = Some(connection);
                    }
                    // Also the end of a connection comes as readiness: what was sent
                    // before it is received first, and then the error says why.
                    Event::Ready(id) => self.serve(id.index()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Answers what has come on a connection, at most 16 requests so that the others get
    /// their turn: of the rest we are told again.
    fn serve(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let mut buffer = [0; 256];
        for _ in 0..16 {
            let answered = match connection.try_recv(&mut buffer) {
                Ok(None) => return,
                // A client that does not read its answers must not hold up the others.
                // This one has at most one request under way, so there is room.
                Ok(Some(len)) => connection.try_send(&buffer[..len]),
                Err(error) => Err(error),
            };
            match answered {
                Ok(true) => self.answered += 1,
                Ok(false) => eprintln!("connection {at} does not read its answers"),
                Err(error) => {
                    if !matches!(error, Error::Finished | Error::PeerGone) {
                        eprintln!("connection {at}: {error}");
                    }
                    self.connections[at] = None;
                    self.served += 1;
                    return;
                }
            }
        }
    }
}

fn client(name: &str, connections: usize, requests: usize) -> Result {
    let node = Node::new()?;
    let mut all = Vec::new();
    for _ in 0..connections {
        // They share one link, so a connection costs neither descriptor nor mapping.
        all.push(node.connect(name)?);
    }
    let mut buffer = [0; 256];
    for request in 0..requests {
        for (i, connection) in all.iter_mut().enumerate() {
            connection.send(format!("request {request} on {i}").as_bytes())?;
        }
        for (i, connection) in all.iter_mut().enumerate() {
            let len = connection.recv(&mut buffer)?;
            assert_eq!(
                &buffer[..len],
                format!("request {request} on {i}").as_bytes()
            );
        }
    }
    Ok(())
}
