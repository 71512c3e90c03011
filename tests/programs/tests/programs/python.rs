//! Servers and clients of Python's own library: http.server, asyncio, multiprocessing,
//! socketserver with processes and with threads.

use barewire_programs::{Observed, Scenario, Stage, is_long};
use rustix::process::Signal;

const PYTHON: &str = "/usr/bin/python3";

/// What all scripts begin with: a body is a function of its number.
const COMMON: &str = r#"
import hashlib, random, signal, sys, threading
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
port, rounds = int(sys.argv[1]), int(sys.argv[2])

def body(i, most=200_000):
    r = random.Random(i)
    return r.randbytes(r.choice((1, 50, 3000, most)))
def digest(data):
    return hashlib.sha256(data).hexdigest()
def in_threads(count, work):
    results = [None] * count
    def one(i): results[i] = work(i)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads: t.start()
    for t in threads: t.join()
    for i, result in enumerate(results): print(i, result)
"#;

/// Lines of a number of bytes and the bytes, sent back the other way round.
const ECHO_CLIENT: &str = r#"
import socket
def client(n):
    sums = hashlib.sha256()
    with socket.create_connection(("127.0.0.1", port)) as s, s.makefile("rb") as f:
        for i in range(rounds):
            data = body(n * 1000 + i)
            s.sendall(b"%d\n" % len(data) + data)
            size = int(f.readline())
            back = f.read(size)
            assert back == data[::-1], (n, i, len(back), len(data))
            sums.update(back)
        s.shutdown(socket.SHUT_WR)
        assert f.read() == b""
    return sums.hexdigest()
in_threads(6, client)
"#;

const SOCKETSERVER: &str = r#"
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            data = self.rfile.read(int(line))
            self.wfile.write(b"%d\n" % len(data) + data[::-1])
class Server(getattr(socketserver, sys.argv[3])):
    allow_reuse_address = True
    request_queue_size = 32
with Server(("127.0.0.1", port), Handler) as server:
    server.serve_forever()
"#;

const ASYNCIO_SERVER: &str = r#"
import asyncio
async def handle(reader, writer):
    while line := await reader.readline():
        data = await reader.readexactly(int(line))
        writer.write(b"%d\n" % len(data) + data[::-1])
        await writer.drain()
    writer.close()
    await writer.wait_closed()
async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", port)
    await server.serve_forever()
asyncio.run(main())
"#;

const ASYNCIO_CLIENT: &str = r#"
import asyncio
async def client(n):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sums = hashlib.sha256()
    async def send():
        for i in range(rounds):
            data = body(n * 1000 + i)
            writer.write(b"%d\n" % len(data) + data)
            await writer.drain()
        writer.write_eof()
    sender = asyncio.create_task(send())
    for i in range(rounds):
        back = await reader.readexactly(int(await reader.readline()))
        assert back == body(n * 1000 + i)[::-1]
        sums.update(back)
    assert await reader.read() == b""
    await sender
    writer.close()
    await writer.wait_closed()
    return sums.hexdigest()
async def main():
    for i, result in enumerate(await asyncio.gather(*map(client, range(10)))): print(i, result)
asyncio.run(main())
"#;

const MULTIPROCESSING_SERVER: &str = r#"
from multiprocessing.managers import BaseManager
from queue import Queue
class Book:
    def __init__(self): self.kept = {}
    def put(self, key, value): self.kept[key] = value; return digest(value)
    def get(self, key): return self.kept[key]
    def fail(self): raise ValueError("as asked")
questions, book = Queue(), Book()
BaseManager.register("questions", lambda: questions)
BaseManager.register("book", lambda: book)
manager = BaseManager(("127.0.0.1", port), b"key")
manager.get_server().serve_forever()
"#;

const MULTIPROCESSING_CLIENT: &str = r#"
import multiprocessing
from multiprocessing.connection import Client, Listener, wait
from multiprocessing.managers import BaseManager
BaseManager.register("questions")
BaseManager.register("book")
def connect():
    manager = BaseManager(("127.0.0.1", port), b"key")
    manager.connect()
    return manager
def child(n):
    book, questions = connect().book(), connect().questions()
    for i in range(rounds):
        data = body(n * 1000 + i)
        assert book.put((n, i), data) == digest(data)
        assert book.get((n, i)) == data
    try: book.fail()
    except ValueError as e: questions.put((n, str(e)))
def sender(address, n):
    with Client(address, authkey=b"own") as c:
        for i in range(rounds): c.send((n, i, body(i)))
        assert c.recv() == "thanks"
if __name__ == "__main__":
    children = [multiprocessing.Process(target=child, args=(n,)) for n in range(3)]
    for c in children: c.start()
    questions = connect().questions()
    print(sorted(questions.get(timeout=60) for _ in children))
    for c in children: c.join()
    print([c.exitcode for c in children])
    with Listener(("127.0.0.1", 0), authkey=b"own") as listener:
        senders = [multiprocessing.Process(target=sender, args=(listener.address, n)) for n in range(3)]
        for s in senders: s.start()
        open_ones, count = [listener.accept() for _ in senders], [0] * 3
        while open_ones:
            for c in wait(open_ones, 60):
                n, i, data = c.recv()
                assert (i, data) == (count[n], body(i))
                count[n] += 1
                if count[n] == rounds: c.send("thanks"); open_ones.remove(c)
        for s in senders: s.join()
        print(count, [s.exitcode for s in senders])
"#;

const HTTP_CLIENT: &str = r#"
import http.client, urllib.request
def client(n):
    sums = hashlib.sha256()
    for i in range(rounds):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/small-{i % 5}") as answer:
            data = answer.read()
            assert data == body(i % 5, 9000)
            sums.update(data)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/large") as answer:
        sums.update(answer.read())
    missing = http.client.HTTPConnection("127.0.0.1", port)
    missing.request("HEAD", "/missing")
    return sums.hexdigest(), missing.getresponse().status
in_threads(4, client)
"#;

fn rounds() -> &'static str {
    if is_long() { "1000" } else { "40" }
}

/// A server and a client, each a script.
fn pair(scenario: Scenario, server: &str, more: &[&str], client: &str, lines: usize) {
    scenario.run(&[PYTHON], |stage: &Stage| -> Observed {
        let port = stage.free_port();
        let words = [&port.to_string(), rounds()];
        let server = stage.write("server.py", format!("{COMMON}{server}"));
        let client = stage.write("client.py", format!("{COMMON}{client}"));
        let mut running = stage
            .server(PYTHON)
            .arg(server)
            .args(words)
            .args(more)
            .start();
        running.wait_for_port("127.0.0.1", port);
        let seen = stage.client(PYTHON).arg(client).args(words).text(120);
        assert_eq!(seen.lines().count(), lines, "{seen}");
        let _ = running.stop(Signal::TERM, 20);
        seen
    });
}

#[test]
fn python_socketserver_fork() {
    let scenario = Scenario::new("python-socketserver-fork");
    pair(
        scenario,
        SOCKETSERVER,
        &["ForkingTCPServer"],
        ECHO_CLIENT,
        6,
    );
}

#[test]
fn python_socketserver_thread() {
    let scenario = Scenario::new("python-socketserver-thread").one_sided();
    pair(
        scenario,
        SOCKETSERVER,
        &["ThreadingTCPServer"],
        ECHO_CLIENT,
        6,
    );
}

#[test]
fn python_asyncio() {
    let scenario = Scenario::new("python-asyncio")
        .one_sided()
        .with_own_connections();
    pair(scenario, ASYNCIO_SERVER, &[], ASYNCIO_CLIENT, 10);
}

#[test]
fn python_multiprocessing() {
    let scenario = Scenario::new("python-multiprocessing");
    pair(
        scenario,
        MULTIPROCESSING_SERVER,
        &[],
        MULTIPROCESSING_CLIENT,
        3,
    );
}

#[test]
fn python_http() {
    Scenario::new("python-http").run(&[PYTHON], |stage: &Stage| -> Observed {
        let port = stage.free_port().to_string();
        // The files are the client's bodies, so that it knows them.
        let make = "
for i in range(5): open(f'www/small-{i}', 'wb').write(body(i, 9000))
open('www/large', 'wb').write(random.Random(9).randbytes(20_000_000))
";
        std::fs::create_dir(stage.path("www")).unwrap();
        let make = stage.write("make.py", format!("{COMMON}{make}"));
        stage
            .tool(PYTHON)
            .arg(make)
            .args([&port, rounds()])
            .text(60);
        let mut server = stage
            .server(PYTHON)
            .args([
                "-m",
                "http.server",
                "--bind",
                "127.0.0.1",
                "--directory",
                "www",
                &port,
            ])
            .start();
        server.wait_for_port("127.0.0.1", port.parse().unwrap());
        let client = stage.write("client.py", format!("{COMMON}{HTTP_CLIENT}"));
        let seen = stage
            .client(PYTHON)
            .arg(client)
            .args([&port, rounds()])
            .text(120);
        assert_eq!(
            seen.lines().filter(|line| line.ends_with("404)")).count(),
            4,
            "{seen}"
        );
        let _ = server.stop(Signal::INT, 20);
        seen
    });
}
