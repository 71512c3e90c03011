//! Servers by which others coordinate: ZooKeeper (Java), and etcd, whose two ends are Go programs: they make
//! their system calls past the C library, so the library does nothing in them, and harms nothing.

use barewire_programs::{Need, Observed, Scenario, Stage, is_long};
use rustix::process::Signal;

/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;

/// Debian's package has links to all that it needs.
const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar";

const KEEPER: &str = r#"
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.CRC32;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.Stat;

public class Keeper {
    static byte[] data(int i, int size) { var data = new byte[size]; new Random(i).nextBytes(data); return data; }

    public static void main(String[] words) throws Exception {
        int nodes = Integer.parseInt(words[1]), rounds = Integer.parseInt(words[2]);
        var connected = new CountDownLatch(1);
        var keeper = new ZooKeeper(words[0], 60000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        if (!connected.await(60, TimeUnit.SECONDS)) throw new Exception("no server");
        var sum = new CRC32();
        keeper.create("/k", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        for (int i = 0; i < nodes; i++)
            keeper.create("/k/" + i, data(i, i % 9 * 400), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        keeper.create("/k/large", data(7, 900000), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        // Others are told of a change.
        var changed = new ArrayBlockingQueue<String>(10);
        keeper.exists("/k/0", event -> changed.add(event.getType() + " " + event.getPath()));
        keeper.setData("/k/0", data(99, 10), -1);
        System.out.println(changed.poll(60, TimeUnit.SECONDS));
        for (int i = 1; i < nodes; i++) {
            var came = keeper.getData("/k/" + i, false, new Stat());
            if (!Arrays.equals(came, data(i, i % 9 * 400))) throw new Exception("other bytes");
            sum.update(came);
        }
        sum.update(keeper.getData("/k/large", false, new Stat()));
        System.out.println(keeper.getChildren("/k", false).size() + " " + Long.toHexString(sum.getValue()));
        // Many questions before the first answer is read.
        var answers = new CountDownLatch(rounds);
        long since = System.nanoTime();
        for (int i = 0; i < rounds; i++)
            keeper.getData("/k/1", false, (code, path, context, came, stat) -> { if (code == 0) answers.countDown(); }, null);
        if (!answers.await(60, TimeUnit.SECONDS)) throw new Exception("answers are missing");
        System.err.println("figure: reads a second, many at once: " + rounds * 1e9 / (System.nanoTime() - since));
        since = System.nanoTime();
        for (int i = 0; i < rounds; i++) keeper.getData("/k/1", false, new Stat());
        System.err.println("figure: reads a second: " + rounds * 1e9 / (System.nanoTime() - since));
        since = System.nanoTime();
        for (int i = 0; i < rounds / 4; i++) keeper.setData("/k/2", data(i, 100), -1);
        System.err.println("figure: writes a second: " + rounds / 4 * 1e9 / (System.nanoTime() - since));
        keeper.close();
    }
}
"#;

#[test]
fn zookeeper() {
    let needs: [Need; 3] = [
        ("java", "default-jre-headless"),
        ("javac", "default-jdk-headless"),
        (ZOOKEEPER, "libzookeeper-java"),
    ];
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port();
        let data = stage.path("data");
        let config = format!(
            "tickTime=2000\ndataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\n\
             admin.enableServer=false\nforceSync=no\n",
            data.display()
        );
        let config = stage.write("zoo.cfg", config);
        let source = stage.write("Keeper.java", KEEPER);
        let path = ["-cp", &format!("{ZOOKEEPER}:.")].map(str::to_owned);
        stage.tool("javac").args(&path).arg(source).text(LIMIT_S);
        let small = [
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-Djava.net.preferIPv4Stack=true",
        ];
        let server = stage.server("java").args(small).args(&path);
        let mut server = server
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(config)
            .start();
        server.wait_for_port("127.0.0.1", port);
        let client = stage.client("java").args(small).args(&path).arg("Keeper");
        let (nodes, rounds) = if is_long() {
            (300, "8000")
        } else {
            (300, "500")
        };
        let words = [&format!("127.0.0.1:{port}"), &nodes.to_string(), rounds];
        let output = client.args(words).run(LIMIT_S).success();
        stage.figures_of(&output);
        let seen = output.stdout;
        assert!(seen.contains("NodeDataChanged /k/0\n"), "{seen}");
        // Java ends with 143 by this signal, after its hooks.
        let status = server.stop(Signal::TERM, 60).status;
        assert_eq!(status.code(), Some(143));
        seen
    };
    Scenario::new("zookeeper")
        .one_sided()
        .explained()
        .run_with(&needs, play);
}

#[test]
fn etcd() {
    let needs = [("etcd", "etcd-server"), ("etcdctl", "etcd-client")];
    let play = |stage: &Stage| -> Observed {
        let [clients, peers] = [stage.free_port(), stage.free_port()];
        let [clients, peers] = [clients, peers].map(|port| format!("http://127.0.0.1:{port}"));
        let mut server = stage
            .server("etcd")
            .arg("--data-dir")
            .arg(stage.path("data"))
            .args([
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
            ])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &format!("default={peers}")])
            .without_report()
            .start();
        server.wait_for_text("ready to serve client requests", 60);
        let ask = |words: &[&str]| {
            let client = stage.client("etcdctl").env("ETCDCTL_API", "3");
            let client = client.args(["--endpoints", &clients]).args(words);
            client.without_report().text(LIMIT_S)
        };
        let mut seen = String::new();
        for i in 0..5 {
            let (key, value) = (format!("key-{i}"), "v".repeat(1 + i * 20_000));
            assert_eq!(ask(&["put", &key, &value]), "OK\n");
            assert_eq!(ask(&["get", "--print-value-only", &key]), value + "\n");
        }
        seen += &ask(&["get", "--keys-only", "--prefix", "key-"]);
        seen += &ask(&["del", "key-0"]);
        seen += &ask(&["get", "key-0"]);
        let _ = server.stop(Signal::TERM, 60);
        seen
    };
    Scenario::new("etcd")
        .one_sided()
        .explained()
        .never_upgraded()
        .run_with(&needs, play);
}
