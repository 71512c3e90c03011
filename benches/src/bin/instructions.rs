//! Calls of the message path, to be counted by callgrind: `scripts/instructions.sh`.
//!
//! `instructions messages|waiting|one-way|events SIZE TURNS`: two nodes in one thread. Each of the calls that are counted is in a
//! function of its own, which callgrind knows by name.

#![forbid(unsafe_code)]

use barewire::{Connection, Event, Node, Result};

/// Messages that a sender is ahead of its receiver, one way.
const AHEAD: usize = 8;

#[inline(never)]
fn send(connection: &mut Connection, message: &[u8]) {
    assert!(is_ok(connection.try_send(message)));
}

#[inline(never)]
fn receive(connection: &mut Connection, buffer: &mut [u8]) {
    assert!(is_some(connection.try_recv(buffer)));
}

#[inline(never)]
fn receive_nothing(connection: &mut Connection, buffer: &mut [u8]) {
    assert!(!is_some(connection.try_recv(buffer)));
}

#[inline(never)]
fn send_waiting(connection: &mut Connection, message: &[u8]) {
    assert!(connection.send(message).is_ok());
}

#[inline(never)]
fn receive_waiting(connection: &mut Connection, buffer: &mut [u8]) {
    assert!(connection.recv(buffer).is_ok());
}

#[inline(never)]
fn poll(node: &Node, events: &mut Vec<Event>) {
    events.clear();
    assert!(matches!(node.poll(events, 16), Ok(1..)), "no event");
}

fn is_ok(sent: Result<bool>) -> bool {
    matches!(sent, Ok(true))
}

fn is_some(received: Result<Option<usize>>) -> bool {
    match received {
        Ok(received) => received.is_some(),
        Err(error) => panic!("{error}"),
    }
}

/// Two nodes with a connection, and what they send and receive.
struct Pair {
    nodes: [Node; 2],
    client: Connection,
    server: Connection,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl Pair {
    fn open(size: usize) -> Result<Pair> {
        let name = format!("instructions-{}", std::process::id());
        let nodes = [Node::new()?, Node::new()?];
        let _listener = nodes[1].listen(&name)?;
        let (client, server) = std::thread::scope(|scope| {
            let server = scope.spawn(|| nodes[1].next_request(None)?.accept());
            (nodes[0].connect(&name), server.join().expect("no panic"))
        });
        Ok(Pair {
            nodes,
            client: client?,
            server: server?,
            message: vec![1; size],
            buffer: vec![0; size],
        })
    }

    /// A request and its answer; each end looks once more before it sends.
    fn exchange(&mut self) {
        send(&mut self.client, &self.message);
        receive(&mut self.server, &mut self.buffer);
        receive_nothing(&mut self.server, &mut self.buffer);
        send(&mut self.server, &self.message);
        receive(&mut self.client, &mut self.buffer);
        receive_nothing(&mut self.client, &mut self.buffer);
    }

    /// With calls that would wait, but need not.
    fn exchange_waiting(&mut self) {
        send_waiting(&mut self.client, &self.message);
        receive_waiting(&mut self.server, &mut self.buffer);
        send_waiting(&mut self.server, &self.message);
        receive_waiting(&mut self.client, &mut self.buffer);
    }

    fn send_one_way(&mut self) {
        for _ in 0..AHEAD {
            send(&mut self.client, &self.message);
        }
        for _ in 0..AHEAD {
            receive(&mut self.server, &mut self.buffer);
        }
    }

    /// An exchange of which the server hears by an event.
    fn exchange_with_event(&mut self, events: &mut Vec<Event>) {
        send(&mut self.client, &self.message);
        poll(&self.nodes[1], events);
        receive(&mut self.server, &mut self.buffer);
        receive_nothing(&mut self.server, &mut self.buffer);
        send(&mut self.server, &self.message);
        receive(&mut self.client, &mut self.buffer);
    }
}

fn run(what: &str, size: usize, turns: usize) -> Result<bool> {
    let mut pair = Pair::open(size)?;
    let mut events = Vec::new();
    // The events of the beginning.
    while pair.nodes[1].poll(&mut events, 16)? > 0 {
        events.clear();
    }
    for _ in 0..turns {
        match what {
            "messages" => pair.exchange(),
            "waiting" => pair.exchange_waiting(),
            "one-way" => pair.send_one_way(),
            "events" => pair.exchange_with_event(&mut events),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let done = match (arguments.first(), number(1), number(2)) {
        (Some(what), Some(size), Some(turns)) => run(what, size, turns),
        _ => Ok(false),
    };
    match done {
        Ok(true) => {}
        Ok(false) => {
            eprintln!("usage: instructions messages|waiting|one-way|events SIZE TURNS");
            std::process::exit(2);
        }
        Err(error) => {
            eprintln!("instructions: {error}");
            std::process::exit(1);
        }
    }
}
