//! Run-time systems with event loops of their own: Node.js and Java's selectors.

use barewire_programs::{Observed, Scenario, Stage, is_long};
use rustix::process::Signal;

const NODE_SERVER: &str = r#"
const http = require('http'), crypto = require('crypto');
const server = http.createServer((request, response) => {
  const hash = crypto.createHash('sha256'), parts = [];
  request.on('data', part => { hash.update(part); parts.push(part); });
  request.on('end', () => {
    response.setHeader('x-sum', hash.digest('hex'));
    response.end(Buffer.concat(parts));
  });
});
server.keepAliveTimeout = 60000;
server.listen(+process.argv[2], '127.0.0.1');
process.on('SIGTERM', () => { server.closeAllConnections(); server.close(); });
"#;

const NODE_CLIENT: &str = r#"
const http = require('http'), crypto = require('crypto');
const [port, rounds, size] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
const sum = data => crypto.createHash('sha256').update(data).digest('hex');
function body(size, seed) {
  const key = crypto.createHash('sha256').update('' + seed).digest();
  return crypto.createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(size));
}
const ports = new Set();
function ask(data) {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host: '127.0.0.1', method: 'POST', agent }, response => {
      ports.add(request.socket.localPort);
      const parts = [];
      response.on('data', part => parts.push(part));
      response.on('end', () => {
        const back = Buffer.concat(parts);
        if (!back.equals(data) || response.headers['x-sum'] !== sum(data)) reject(new Error('other bytes'));
        resolve(sum(back));
      });
    });
    request.on('error', reject);
    request.end(data);
  });
}
(async () => {
  const all = [];
  for (let i = 0; i < rounds; i++) all.push(ask(body(1 + (i * 7919) % 50000, i)));
  console.log(sum((await Promise.all(all)).join()));
  for (let i = 0; i < 3; i++) console.log(await ask(body(size, i)));
  console.log('connections', ports.size);
  agent.destroy();
})();
"#;

#[test]
fn node() {
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port();
        let server = stage.write("server.js", NODE_SERVER);
        let client = stage.write("client.js", NODE_CLIENT);
        let mut running = stage
            .server("node")
            .arg(server)
            .arg(port.to_string())
            .start();
        running.wait_for_port("127.0.0.1", port);
        let rounds = if is_long() { "20000" } else { "400" };
        let words = [&port.to_string(), rounds, "20000000"];
        let seen = stage.client("node").arg(client).args(words).text(120);
        assert!(seen.ends_with("connections 4\n"), "{seen}");
        let _ = running.stop(Signal::TERM, 20).success();
        seen
    };
    Scenario::new("node")
        .one_sided()
        .with_own_connections()
        .run(&["node"], play);
}

const JAVA: &str = r#"
import java.net.*; import java.nio.*; import java.nio.channels.*; import java.util.*;
import java.util.zip.CRC32;

public class Echo {
    public static void main(String[] words) throws Exception {
        var at = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1]));
        if (words[0].equals("server")) serve(at, Integer.parseInt(words[2]));
        else ask(at, Integer.parseInt(words[2]), Integer.parseInt(words[3]));
    }
    // One thread and one selector; ends when so many connections have ended.
    static void serve(InetSocketAddress at, int connections) throws Exception {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open().bind(at, 64);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (connections > 0) {
            selector.select();
            var keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                var key = keys.next(); keys.remove();
                if (key.isAcceptable()) {
                    var channel = listener.accept();
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(70000));
                    continue;
                }
                var channel = (SocketChannel) key.channel();
                var buffer = (ByteBuffer) key.attachment();
                boolean over = key.isReadable() && channel.read(buffer) < 0;
                buffer.flip();
                channel.write(buffer);
                boolean left = buffer.hasRemaining();
                buffer.compact();
                if (over) { channel.close(); connections--; continue; }
                key.interestOps((buffer.hasRemaining() ? SelectionKey.OP_READ : 0) | (left ? SelectionKey.OP_WRITE : 0));
            }
        }
    }
    // All connections from one thread: each sends its bytes and compares the sum of what returns.
    static class Stream { Random out; CRC32 sent = new CRC32(), got = new CRC32(); long left, back; ByteBuffer buffer = ByteBuffer.allocate(30000).limit(0); }
    static void ask(InetSocketAddress at, int connections, int bytes) throws Exception {
        var selector = Selector.open();
        var streams = new ArrayList<Stream>();
        for (int i = 0; i < connections; i++) {
            var stream = new Stream();
            stream.out = new Random(i); stream.left = bytes; stream.back = bytes;
            streams.add(stream);
            var channel = SocketChannel.open();
            channel.configureBlocking(false);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.connect(at);
            channel.register(selector, SelectionKey.OP_CONNECT, stream);
        }
        var in = ByteBuffer.allocate(50000);
        for (int open = connections; open > 0;) {
            if (selector.select(20000) == 0) throw new Exception("nothing for 20 s");
            for (var key : selector.selectedKeys()) {
                var channel = (SocketChannel) key.channel();
                var stream = (Stream) key.attachment();
                if (key.isConnectable()) {
                    channel.finishConnect();
                    key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                    continue;
                }
                if (key.isReadable()) {
                    int size = channel.read(in.clear());
                    if (size < 0) throw new Exception("ends early");
                    stream.got.update(in.flip());
                    stream.back -= size;
                    if (stream.back == 0) { channel.close(); open--; continue; }
                }
                if (key.isWritable()) {
                    if (!stream.buffer.hasRemaining() && stream.left > 0) {
                        var part = new byte[(int) Math.min(stream.left, 1 + stream.out.nextInt(30000))];
                        stream.out.nextBytes(part);
                        stream.sent.update(part);
                        stream.buffer = ByteBuffer.wrap(part);
                        stream.left -= part.length;
                    }
                    channel.write(stream.buffer);
                    if (!stream.buffer.hasRemaining() && stream.left == 0) key.interestOps(SelectionKey.OP_READ);
                }
            }
            selector.selectedKeys().clear();
        }
        for (var stream : streams) {
            if (stream.sent.getValue() != stream.got.getValue()) throw new Exception("other bytes");
            System.out.println(Long.toHexString(stream.got.getValue()));
        }
    }
}
"#;

#[test]
fn java() {
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port();
        let (connections, bytes) = ("20", if is_long() { "50000000" } else { "1000000" });
        let source = stage.write("Echo.java", JAVA);
        stage.tool("javac").arg(source).text(120);
        let words = |role: &str| ["-cp", ".", "Echo", role].map(str::to_owned);
        let at = port.to_string();
        let small = ["-Xmx256m", "-Djava.net.preferIPv4Stack=true"];
        let server = stage.server("java").args(small).args(words("server"));
        let server = server.args([&at, connections]).start();
        server.wait_for_listener(port);
        let client = stage.client("java").args(small).args(words("client"));
        let seen = client.args([&at, connections, bytes]).text(120);
        assert_eq!(seen.lines().count(), 20, "{seen}");
        let _ = server.wait(130).success();
        seen
    };
    Scenario::new("java").run(&["java", "javac"], play);
}
