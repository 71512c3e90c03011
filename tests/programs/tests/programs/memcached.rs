//! Memcached, spoken to by a script: single and many keys at once, large values, counters,
//! both protocols of text, several clients.

use barewire_programs::{Observed, Scenario, Stage, is_long};
use rustix::process::Signal;

const CLIENT: &str = r#"
import hashlib, socket, sys, threading
port, rounds = int(sys.argv[1]), int(sys.argv[2])

class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
    def say(self, line, data=None):
        self.socket.sendall(line.encode() + b"\r\n" + (data + b"\r\n" if data is not None else b""))
    def line(self):
        return self.input.readline().decode().rstrip("\r\n")
    def set(self, key, data):
        self.say(f"set {key} 0 0 {len(data)}", data)
        assert self.line() == "STORED"
    def get(self, *keys):
        self.say("get " + " ".join(keys))
        found = {}
        while (line := self.line()) != "END":
            _, key, _, size = line.split()
            found[key] = self.input.read(int(size))
            assert self.input.read(2) == b"\r\n"
        return found

def value(client, i):
    return hashlib.sha256(f"{client}-{i}".encode()).digest() * (1 + i % 50)

def one(name, results):
    client = Client()
    digest = hashlib.sha256()
    for i in range(rounds):
        client.set(f"{name}-{i}", value(name, i))
    for i in range(0, rounds, 50):
        keys = [f"{name}-{j}" for j in range(i, min(i + 50, rounds))]
        found = client.get(*keys)
        assert list(found) == keys
        for j, key in enumerate(keys):
            assert found[key] == value(name, i + j)
            digest.update(found[key])
    for size in (100_000, 500_000, 1_000_000):
        data = value(name, 1) * (size // 64)
        client.set(f"{name}-large", data)
        assert client.get(f"{name}-large")[f"{name}-large"] == data
    # Many questions before the first answer is read.
    for i in range(200):
        client.say(f"get {name}-{i}")
    for i in range(200):
        assert client.line().split()[1] == f"{name}-{i}"
        assert client.input.read(len(value(name, i)) + 2)[:-2] == value(name, i)
        assert client.line() == "END"
    client.set(f"{name}-count", b"0")
    for i in range(200):
        client.say(f"incr {name}-count 3")
        assert client.line() == str(3 * (i + 1))
    client.say(f"mg {name}-count v"); assert client.line() == "VA 3"; assert client.line() == "600"
    client.say("nonsense"); assert client.line() == "ERROR"
    client.say(f"set {name}-too 0 0 3000000", b"x" * 3000000)
    assert "too large" in client.line()
    client.say(f"delete {name}-count"); assert client.line() == "DELETED"
    client.say("quit"); assert client.input.read() == b""
    results[name] = digest.hexdigest()

results = {}
threads = [threading.Thread(target=one, args=(f"client{i}", results)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for name in sorted(results): print(name, results[name])
"#;

#[test]
fn memcached() {
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port();
        let mut server = stage
            .server("memcached")
            .args(["-l", "127.0.0.1", "-t", "2", "-m", "128", "-u", "nobody"])
            .args(["-p", &port.to_string()])
            .start();
        server.wait_for_port("127.0.0.1", port);
        let script = stage.write("client.py", CLIENT);
        let rounds = if is_long() { "20000" } else { "600" };
        let seen = stage
            .client("/usr/bin/python3")
            .arg(script)
            .args([&port.to_string(), rounds])
            .text(120);
        assert_eq!(seen.lines().count(), 4, "{seen}");
        let _ = server.stop(Signal::INT, 10);
        seen
    };
    Scenario::new("memcached")
        .one_sided()
        .run(&["memcached", "/usr/bin/python3"], play);
}
