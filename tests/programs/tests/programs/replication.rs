//! PostgreSQL with a standby that follows by streaming replication: `pgbench -N` on the primary, whose
//! commits wait for the standby; a standby that was away catches up.

use std::path::Path;

use barewire_programs::{Observed, Program, Running, Scenario, Stage, is_long, skip};
use rustix::process::Signal;

use crate::postgres::{programs, user};

/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;

struct Pair<'stage> {
    stage: &'stage Stage,
    bin: &'stage Path,
    primary: u16,
    standby: u16,
}

impl<'stage> Pair<'stage> {
    /// A primary and a copy of it that follows.
    fn start(stage: &'stage Stage, bin: &'stage Path) -> (Self, [Running<'stage>; 2]) {
        stage.give_to(user());
        let pair = Self {
            stage,
            bin,
            primary: stage.free_port(),
            standby: stage.free_port(),
        };
        let initdb = stage.tool(bin.join("initdb")).user(user());
        let as_all = ["-A", "trust", "-U", "tester", "--no-sync"];
        let data = stage.path("primary");
        initdb
            .args(as_all)
            .args(["--locale=C.UTF-8", "-D"])
            .arg(&data)
            .text(LIMIT_S);
        let primary = pair.server("primary", pair.primary);
        pair.wait_for("the primary", pair.primary, "SELECT 1", "1");
        let copy = pair.client("pg_basebackup", pair.primary);
        copy.args(["-R", "--no-sync", "--checkpoint=fast", "-X", "stream", "-D"])
            .arg(stage.path("standby"))
            .text(LIMIT_S);
        let standby = pair.server("standby", pair.standby);
        pair.wait_for_standby();
        (pair, [primary, standby])
    }

    fn server(&self, folder: &str, port: u16) -> Running<'stage> {
        let server = self.stage.server(self.bin.join("postgres")).user(user());
        let server = server.arg("-D").arg(self.stage.path(folder));
        let server = server.args(["-p", &port.to_string()]);
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=64MB",
            "autovacuum=off",
        ];
        settings
            .iter()
            .fold(server, |server, setting| server.args(["-c", setting]))
            .start()
    }

    fn client(&self, name: &str, port: u16) -> Program<'stage> {
        let client = self.stage.client(self.bin.join(name)).user(user());
        client.args(["-h", "127.0.0.1", "-U", "tester", "-p", &port.to_string()])
    }

    fn psql(&self, port: u16, sql: &str) -> Program<'stage> {
        let quiet = ["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1"];
        let psql = self.client("psql", port).args(quiet);
        psql.args(["-d", "postgres", "-c", sql])
    }

    #[track_caller]
    fn ask(&self, port: u16, sql: &str) -> String {
        self.psql(port, sql).text(LIMIT_S)
    }

    /// Waits until the answer to a question is this.
    #[track_caller]
    fn wait_for(&self, what: &str, port: u16, sql: &str, answer: &str) {
        self.stage.wait_until(LIMIT_S, what, || {
            let said = self.psql(port, sql).run(LIMIT_S);
            said.status.success() && said.stdout.trim() == answer
        });
    }

    fn wait_for_standby(&self) {
        let sql = "SELECT state FROM pg_stat_replication";
        self.wait_for("the standby to follow", self.primary, sql, "streaming");
    }

    /// Has each commit wait until the standby shows it, or no longer.
    fn set_synchronous(&self, is_on: bool) {
        let names = if is_on { "*" } else { "" };
        let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.ask(self.primary, &sql);
        self.ask(self.primary, "SELECT pg_reload_conf()");
        let shown = "SHOW synchronous_standby_names";
        self.wait_for("the setting", self.primary, shown, names);
    }

    /// Runs `pgbench -N`, whose rate is entered as `figure`.
    fn bench(&self, figure: &str, count: &str) -> String {
        let bench = self.client("pgbench", self.primary);
        let words = ["-N", "-n", "-c", "2", "-j", "1", "-t", count, "postgres"];
        let text = bench
            .env("PGOPTIONS", "-c synchronous_commit=remote_apply")
            .args(["--random-seed=1"])
            .args(words)
            .text(LIMIT_S);
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let rate = line("tps = ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        self.stage.figure(figure, rate.expect("a rate"));
        let done = line("number of transactions actually processed: ");
        let failed = line("number of failed transactions: ");
        format!("{done:?} done, {failed:?} failed\n")
    }

    /// What both must have alike.
    fn sums(&self, port: u16) -> String {
        let sql = "SELECT (SELECT sum(abalance) FROM pgbench_accounts),
                          (SELECT sum(delta) FROM pgbench_history),
                          (SELECT count(*) FROM pgbench_history)";
        self.ask(port, sql)
    }
}

fn play(stage: &Stage, bin: &Path) -> Observed {
    let count = if is_long() { "4000" } else { "150" };
    let (pair, [primary, standby]) = Pair::start(stage, bin);
    let fill = pair.client("pgbench", pair.primary);
    fill.args(["-i", "-q", "-s", "1", "postgres"]).text(LIMIT_S);
    let mut seen = pair.bench("transactions a second, standby behind", count);
    pair.set_synchronous(true);
    seen += &pair.bench("transactions a second, each waits for the standby", count);
    // The last commit waited for the standby, and so for all before.
    let sums = pair.sums(pair.primary);
    assert_eq!(pair.sums(pair.standby), sums);
    let write = "INSERT INTO pgbench_history (delta) VALUES (1)";
    let refused = pair.psql(pair.standby, write).run(LIMIT_S);
    assert!(!refused.status.success());
    seen += &refused.stderr;
    // The standby goes; the primary goes on; the standby comes again and catches up.
    pair.set_synchronous(false);
    let _ = standby.stop(Signal::INT, 60).success();
    seen += &pair.bench("transactions a second, without a standby", count);
    let standby = pair.server("standby", pair.standby);
    pair.wait_for_standby();
    pair.set_synchronous(true);
    pair.ask(
        pair.primary,
        &format!("SET synchronous_commit = remote_apply; {write}"),
    );
    let sums = pair.sums(pair.primary);
    assert_eq!(pair.sums(pair.standby), sums);
    seen += &sums;
    for server in [standby, primary] {
        let _ = server.stop(Signal::INT, 60).success();
    }
    check_replication(stage);
    seen
}

/// What runs between the servers is upgraded, where they have the library: they are then the only ones
/// of which both ends have it.
fn check_replication(stage: &Stage) {
    let is_server_only = stage.preload_of(true).is_some() && stage.preload_of(false).is_none();
    if is_server_only {
        let whys = stage.whys();
        assert!(whys.contains_key("accelerated"), "{whys:?}");
    }
}

#[test]
fn postgres_replication() {
    let name = "postgres-replication";
    let Some(bin) = programs() else {
        return skip(name, "package postgresql is not installed");
    };
    Scenario::new(name)
        .one_sided()
        .with_own_connections()
        .explained()
        .run_always(|stage| play(stage, &bin));
}
