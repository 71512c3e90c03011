//! Redis: the whole benchmark, pipelining, messages to subscribers, and forks that save the
//! data set while it is in use.

use std::fmt::Write;

use barewire_programs::{Observed, Running, Scenario, Stage, is_long};
use rustix::process::Signal;

const NEEDS: &[&str] = &["redis-server", "redis-cli", "redis-benchmark"];

struct Redis<'stage> {
    stage: &'stage Stage,
    port: u16,
    running: Running<'stage>,
}

impl<'stage> Redis<'stage> {
    fn start(stage: &'stage Stage, more: &[&str]) -> Self {
        let port = stage.free_port();
        let mut running = stage
            .server("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "::1"])
            .args(["--save", "", "--dir"])
            .arg(stage.folder())
            .args(more)
            .start();
        running.wait_for_port("127.0.0.1", port);
        let redis = Self {
            stage,
            port,
            running,
        };
        stage.wait_until(20, "redis to load its data", || {
            redis.ask(&["PING"]) == "PONG\n"
        });
        redis
    }

    fn ask(&self, command: &[&str]) -> String {
        let port = self.port.to_string();
        self.stage
            .client("redis-cli")
            .args(["-p", &port])
            .args(command)
            .text(20)
    }

    /// Runs the benchmark and gives the names of its tests.
    fn benchmark(&self, host: &str, options: &[&str]) -> String {
        let port = self.port.to_string();
        let text = self
            .stage
            .client("redis-benchmark")
            .args(["-h", host, "-p", &port, "-q"])
            .args(options)
            .text(120);
        let ends = |line: &&str| line.contains("requests per second");
        // Progress is written over itself; the last of it is the result.
        let lines = text.split(['\n', '\r']).filter(ends);
        lines
            .map(|line| line.split(':').next().unwrap_or(line).to_owned() + "\n")
            .collect()
    }

    fn stop(self) {
        let output = self.running.stop(Signal::TERM, 20).success();
        assert!(output.stdout.contains("ready to exit"), "{}", output.stdout);
    }
}

#[test]
fn redis_benchmark() {
    let play = |stage: &Stage| -> Observed {
        let redis = Redis::start(stage, &[]);
        let n = if is_long() { "100000" } else { "2000" };
        let mut tests = redis.benchmark("127.0.0.1", &["-n", n, "-c", "50"]);
        assert!(tests.lines().count() >= 17, "{tests}");
        let some = ["-t", "get,set,lpush,lrange_100,mset"];
        for more in [
            &["-n", n, "-c", "1"][..],
            &["-n", n, "-c", "50", "-P", "16"],
            &["-n", n, "-c", "8", "-P", "16", "-d", "4000"],
            &["-n", n, "-c", "8", "--threads", "2"],
        ] {
            tests += &redis.benchmark("127.0.0.1", &[more, &some].concat());
        }
        tests += &redis.benchmark("::1", &["-n", n, "-c", "4", "-t", "get,set"]);
        redis.stop();
        tests
    };
    Scenario::new("redis-benchmark").run(NEEDS, play);
}

#[test]
fn redis_one_sided() {
    let play = |stage: &Stage| -> Observed {
        let redis = Redis::start(stage, &[]);
        let options = ["-n", "2000", "-c", "8", "-t", "get,set,lrange_300"];
        let tests = redis.benchmark("127.0.0.1", &options);
        redis.stop();
        tests
    };
    Scenario::new("redis-one-sided")
        .one_sided()
        .run(NEEDS, play);
}

/// What is published comes to all subscribers, in order; the server knows its clients.
#[test]
fn redis_messages() {
    const MESSAGES: usize = 500;
    let play = |stage: &Stage| -> Observed {
        let redis = Redis::start(stage, &[]);
        let port = redis.port.to_string();
        let subscribers: Vec<_> = (0..2)
            .map(|i| {
                let name = format!("subscriber-{i}");
                let client = stage
                    .client("redis-cli")
                    .args(["-p", &port, "subscribe", "news"]);
                let mut running = client.env("NAME", name).without_report().start();
                running.wait_for_text("subscribe", 10);
                running
            })
            .collect();
        let clients = redis.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        let address = "addr=127.0.0.1:";
        let known = clients
            .lines()
            .filter(|line| line.contains(address))
            .count();
        let mut seen = format!("subscribers in CLIENT LIST: {known}\n");
        let published: String = (0..MESSAGES)
            .map(|i| format!("PUBLISH news message-{i}\n"))
            .collect();
        let input = stage.write("published", published);
        let answers = stage
            .client("redis-cli")
            .args(["-p", &port])
            .input(input)
            .text(30);
        writeln!(
            seen,
            "answers of 2: {}",
            answers.lines().filter(|a| *a == "2").count()
        )
        .unwrap();
        for subscriber in subscribers {
            let last = format!("message-{}", MESSAGES - 1);
            stage.wait_until(20, &last, || subscriber.stdout().contains(&last));
            let text = subscriber.stop(Signal::INT, 10).stdout;
            let got = text.lines().filter(|line| line.starts_with("message-"));
            let expected: Vec<_> = (0..MESSAGES).map(|i| format!("message-{i}")).collect();
            assert_eq!(got.collect::<Vec<_>>(), expected);
        }
        redis.stop();
        seen
    };
    Scenario::new("redis-messages").run(NEEDS, play);
}

/// Forks that write the log anew and save the data, while clients go on; then the data are
/// as they were after a restart from each of them.
#[test]
fn redis_saving() {
    let play = |stage: &Stage| -> Observed {
        let redis = Redis::start(stage, &["--appendonly", "yes"]);
        let port = redis.port.to_string();
        let lines: String = (0..5000)
            .map(|i| format!("SET key-{i} value-{}\n", i * 7))
            .collect();
        let input = stage.write("data", lines);
        let answers = stage
            .client("redis-cli")
            .args(["-p", &port])
            .input(&input)
            .text(60);
        assert_eq!(answers.lines().filter(|a| *a == "OK").count(), 5000);
        let n = if is_long() { "500000" } else { "30000" };
        let load = stage
            .client("redis-benchmark")
            .args([
                "-p", &port, "-q", "-n", n, "-c", "10", "-P", "4", "-t", "set,get",
            ])
            .start();
        for command in ["BGREWRITEAOF", "BGSAVE", "BGREWRITEAOF"] {
            redis.ask(&[command]);
            stage.wait_until(60, command, || {
                let state = redis.ask(&["INFO", "persistence"]);
                state.contains("rdb_bgsave_in_progress:0")
                    && state.contains("aof_rewrite_in_progress:0")
                    && state.contains("aof_rewrite_scheduled:0")
            });
        }
        let state = redis.ask(&["INFO", "persistence"]);
        assert!(state.contains("rdb_last_bgsave_status:ok"), "{state}");
        assert!(state.contains("aof_last_bgrewrite_status:ok"), "{state}");
        let _ = load.wait(120).success();
        redis.ask(&["DEL", "key:__rand_int__"]);
        let mut seen = checksum(&redis);
        redis.stop();
        let again = Redis::start(stage, &["--appendonly", "yes"]);
        let after = checksum(&again);
        assert_eq!(after, seen);
        writeln!(seen, "value: {}", again.ask(&["GET", "key-4999"])).unwrap();
        again.stop();
        seen
    };
    Scenario::new("redis-saving").run(NEEDS, play);
}

/// Redis' own checksum over all that it holds.
fn checksum(redis: &Redis<'_>) -> String {
    redis.ask(&["DEBUG", "DIGEST"])
}
