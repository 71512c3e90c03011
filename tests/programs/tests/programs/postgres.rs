//! PostgreSQL with pgbench and psql: over TCP and over its Unix socket; bulk copies, a
//! cancelled query, an interrupted client, a killed backend and the recovery from it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use barewire_programs::{Observed, Output, Program, Running, Scenario, Stage, is_long, skip};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Debian keeps several versions side by side, none in the path.
pub fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    let all = ["postgres", "initdb", "psql", "pgbench"];
    folders
        .filter(|bin| all.iter().all(|name| bin.join(name).exists()))
        .max()
}

/// The user to run as: the server refuses root.
pub fn user() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |wanted: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
}

struct Postgres<'stage> {
    stage: &'stage Stage,
    bin: &'stage Path,
    /// Where clients find it: an address, or the folder of its socket.
    host: String,
    port: u16,
    running: Running<'stage>,
}

impl<'stage> Postgres<'stage> {
    fn start(stage: &'stage Stage, bin: &'stage Path, over_tcp: bool) -> Self {
        let port = stage.free_port();
        let data = stage.path("data");
        stage.give_to(user());
        stage
            .tool(bin.join("initdb"))
            .user(user())
            .args([
                "-A",
                "trust",
                "-U",
                "tester",
                "--no-sync",
                "--locale=C.UTF-8",
                "-D",
            ])
            .arg(&data)
            .text(120);
        let running = stage
            .server(bin.join("postgres"))
            .user(user())
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args([
                "-c",
                "fsync=off",
                "-c",
                "shared_buffers=64MB",
                "-c",
                "max_connections=40",
            ])
            .args([
                "-c",
                &format!("unix_socket_directories={}", stage.folder().display()),
            ])
            .start();
        let host = if over_tcp {
            "127.0.0.1".into()
        } else {
            stage.folder().display().to_string()
        };
        let postgres = Self {
            stage,
            bin,
            host,
            port,
            running,
        };
        stage.wait_until(30, "postgres", || {
            postgres.try_ask("SELECT 1").status.success()
        });
        postgres
    }

    fn client(&self, name: &str) -> Program<'stage> {
        let client = self.stage.client(self.bin.join(name)).user(user());
        let client = client.args(["-h", &self.host, "-p", &self.port.to_string()]);
        client.args(["-U", "tester"])
    }

    fn psql(&self, sql: &str) -> Program<'stage> {
        let quiet = [
            "-X",
            "-q",
            "-t",
            "-A",
            "-d",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
        ];
        self.client("psql").args(quiet).args(["-c", sql])
    }

    fn try_ask(&self, sql: &str) -> Output {
        self.psql(sql).run(120)
    }

    #[track_caller]
    fn ask(&self, sql: &str) -> String {
        self.try_ask(sql).success().stdout
    }

    fn bench(&self, options: &[&str]) -> String {
        let text = self
            .client("pgbench")
            .args(options)
            .arg("postgres")
            .text(180);
        let lines = text.lines().filter(|line| {
            line.contains("actually processed") || line.contains("failed transactions")
        });
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    /// The process of the query that holds `word`.
    fn backend_of(&self, word: &str) -> Pid {
        let mut found = None;
        let sql = format!(
            "SELECT pid FROM pg_stat_activity
             WHERE query LIKE '%{word}%' AND pid <> pg_backend_pid() AND state = 'active'"
        );
        self.stage.wait_until(20, word, || {
            found = self.ask(&sql).trim().parse().ok().and_then(Pid::from_raw);
            found.is_some()
        });
        found.unwrap()
    }

    fn stop(self) {
        let _ = self.running.stop(Signal::INT, 30).success();
    }
}

fn benches(postgres: &Postgres<'_>) -> String {
    let (scale, count) = if is_long() {
        ("10", "5000")
    } else {
        ("1", "300")
    };
    postgres.bench(&["-i", "-q", "-s", scale]);
    let mut seen = String::new();
    for options in [
        &["-S", "-c", "1"][..],
        &["-S", "-c", "8", "-j", "2", "-M", "prepared"],
        &["-c", "4", "-j", "2"],
        &["-S", "-c", "4", "-j", "2", "-C"],
    ] {
        // A connection for each transaction is dear.
        let count = if options.contains(&"-C") { "20" } else { count };
        seen += &postgres.bench(&[options, &["-n", "-t", count]].concat());
    }
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) =
                       (SELECT sum(delta) FROM pgbench_history)";
    seen + &postgres.ask(sums)
}

/// Bulk data out and in again, compared by a checksum that the server makes.
fn copies(postgres: &Postgres<'_>) -> String {
    let rows = if is_long() { 500_000 } else { 100_000 };
    // About 200 bytes a row.
    postgres.ask(&format!(
        "CREATE TABLE bulk AS SELECT i, repeat(md5(i::text), 6) AS t
         FROM generate_series(1, {rows}) AS i"
    ));
    let file = postgres.stage.path("bulk");
    let sum = |table: &str| {
        let sql = "SELECT count(*), sum(hashtextextended(i || t, 0)) FROM ";
        postgres.ask(&format!("{sql}{table}"))
    };
    postgres.ask(&format!("\\copy bulk TO '{}'", file.display()));
    let size = fs::metadata(&file).unwrap().size();
    assert!(size > rows * 190, "{size}");
    postgres.ask("CREATE TABLE again (LIKE bulk)");
    postgres.ask(&format!("\\copy again FROM '{}'", file.display()));
    assert_eq!(sum("again"), sum("bulk"));
    let text = postgres.ask("SELECT string_agg(t, '' ORDER BY i) FROM bulk WHERE i <= 20000");
    assert_eq!(text.trim().len(), 20_000 * 192);
    format!("{size} bytes: {}", sum("again"))
}

/// A query is cancelled by another client; another by the user at the terminal.
fn cancels(postgres: &Postgres<'_>) -> String {
    let waiting = postgres.psql("SELECT pg_sleep(100)").start();
    let backend = postgres.backend_of("pg_sleep(100)").as_raw_nonzero();
    let mut seen = postgres.ask(&format!("SELECT pg_cancel_backend({backend})"));
    let output = waiting.wait(30);
    assert!(!output.status.success());
    seen += &output.stderr;
    let waiting = postgres.psql("SELECT pg_sleep(101)").start();
    postgres.backend_of("pg_sleep(101)");
    waiting.signal(Signal::INT);
    seen += &waiting.wait(30).stderr;
    // A client that is killed: its backend notices when it next speaks to it.
    let waiting = postgres.psql("SELECT pg_sleep(1), 'killed'").start();
    postgres.backend_of("killed");
    let _ = waiting.stop(Signal::KILL, 10);
    let left = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(1)%'";
    postgres.stage.wait_until(20, "the backend to end", || {
        postgres.ask(left).trim() == "0"
    });
    seen
}

/// A backend is killed: the server drops all connections, recovers, and serves again.
fn crash(postgres: &Postgres<'_>) -> String {
    let before = postgres.ask("SELECT count(*) FROM pgbench_history");
    let waiting = postgres.psql("SELECT pg_sleep(100), 'victim'").start();
    let bystander = postgres.psql("SELECT pg_sleep(100), 'bystander'").start();
    let victim = postgres.backend_of("victim");
    postgres.backend_of("bystander");
    kill_process(victim, Signal::KILL).unwrap();
    let mut seen = String::new();
    for client in [waiting, bystander] {
        let output = client.wait(30);
        assert!(!output.status.success());
        let is_lost = output
            .stderr
            .contains("server closed the connection unexpectedly");
        seen += if is_lost {
            "the connection is lost\n"
        } else {
            &output.stderr
        };
    }
    postgres.stage.wait_until(30, "the recovery", || {
        postgres.try_ask("SELECT 1").status.success()
    });
    assert_eq!(postgres.ask("SELECT count(*) FROM pgbench_history"), before);
    seen + &postgres.bench(&["-n", "-c", "2", "-t", "100"])
}

fn postgres(name: &'static str, over_tcp: bool) {
    let Some(bin) = programs() else {
        return skip(name, "postgres is not installed");
    };
    let play = |stage: &Stage| -> Observed {
        let postgres = Postgres::start(stage, &bin, over_tcp);
        let mut seen = benches(&postgres);
        seen += &copies(&postgres);
        seen += &cancels(&postgres);
        seen += &crash(&postgres);
        postgres.stop();
        seen
    };
    let scenario = Scenario::new(name);
    let scenario = if over_tcp {
        scenario
    } else {
        scenario.with_unix()
    };
    scenario.run_always(play);
}

#[test]
fn postgres_tcp() {
    postgres("postgres-tcp", true);
}

#[test]
fn postgres_unix() {
    postgres("postgres-unix", false);
}
