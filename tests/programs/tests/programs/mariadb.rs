//! MariaDB with sysbench and with its own client: reads by many, transactions by one, large values.

use barewire_programs::{Need, Observed, Program, Running, Scenario, Stage, is_long};
use rustix::process::{Signal, geteuid};

const NEEDS: &[Need] = &[
    ("mariadbd", "mariadb-server"),
    ("mariadb-install-db", "mariadb-server"),
    ("mariadb", "mariadb-client"),
    ("sysbench", "sysbench"),
];
/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;
/// Tables of sysbench, and rows of each.
const TABLES: u32 = 2;
const ROWS: u32 = 2000;
/// Of both kinds of programs: the server refuses root unless it is told.
const ROOT: &[&str] = &["--user=root"];

struct MariaDb<'stage> {
    stage: &'stage Stage,
    port: u16,
}

impl<'stage> MariaDb<'stage> {
    fn start(stage: &'stage Stage) -> (Self, Running<'stage>) {
        let data = format!("--datadir={}", stage.path("data").display());
        let user = if geteuid().is_root() { ROOT } else { &[] };
        stage
            .tool("mariadb-install-db")
            .args(["--no-defaults", &data, "--skip-test-db"])
            .args(["--auth-root-authentication-method=normal"])
            .args(user)
            .text(LIMIT_S);
        let port = stage.free_port();
        let socket = format!("--socket={}", stage.path("socket").display());
        let pid = format!("--pid-file={}", stage.path("pid").display());
        let mut running = stage
            .server("mariadbd")
            .args(["--no-defaults", &data, &socket, &pid])
            .args(["--bind-address=127.0.0.1", &format!("--port={port}")])
            .args(["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"])
            .args(["--max-allowed-packet=64M"])
            .args(user)
            .start();
        running.wait_for_text("ready for connections", LIMIT_S);
        (Self { stage, port }, running)
    }

    fn ask(&self, sql: &str) -> String {
        let client = self.stage.client("mariadb");
        let client = client.args(["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1"]);
        client
            .args(["-u", "root", "-P", &self.port.to_string()])
            .args(["--max-allowed-packet=64M", "-N", "-B", "-e", sql])
            .text(LIMIT_S)
    }

    fn sysbench(&self, test: &str) -> Program<'stage> {
        let sysbench = self.stage.client("sysbench").arg(test);
        let at = format!("--mysql-port={}", self.port);
        sysbench
            .args(["--db-driver=mysql", "--mysql-host=127.0.0.1", &at])
            .args(["--mysql-user=root", "--mysql-db=bench", "--rand-seed=7"])
            .args([format!("--tables={TABLES}"), format!("--table-size={ROWS}")])
    }

    /// Makes the tables of sysbench. Its own `prepare` takes random numbers that no option seeds, so their content
    /// differs from one run to the next.
    fn make_tables(&self) {
        for table in 1..=TABLES {
            self.ask(&format!(
                "USE bench;
                 CREATE TABLE sbtest{table} (
                    id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY,
                    k INTEGER NOT NULL DEFAULT 0,
                    c CHAR(120) NOT NULL DEFAULT '',
                    pad CHAR(60) NOT NULL DEFAULT '',
                    KEY k_{table} (k)
                 ) ENGINE = InnoDB;
                 INSERT INTO sbtest{table} (k, c, pad)
                 SELECT 1 + CRC32(CONCAT(seq, 'k{table}')) MOD {ROWS},
                    CONCAT(MD5(seq), '-', SHA1(seq), '-', MD5(seq + {table})), SHA1(seq * {table})
                 FROM seq_1_to_{ROWS}"
            ));
        }
    }

    /// Runs a test of sysbench, whose rate is entered, and gives what it counted.
    fn bench(&self, test: &str, threads: u32, events: u32) -> String {
        let text = self
            .sysbench(test)
            .args([format!("--threads={threads}"), format!("--events={events}")])
            .args(["--time=0", "run"])
            .text(LIMIT_S);
        let line = |start: &str| {
            let lines = text.lines().map(str::trim);
            let rest = lines.filter_map(|line| line.strip_prefix(start)).next();
            rest.unwrap_or_else(|| panic!("no {start} in {text}"))
                .trim()
        };
        // `transactions:      300    (1234.56 per sec.)`
        let (count, rate) = line("transactions:").split_once('(').unwrap();
        let rate = rate.split(' ').next().and_then(|rate| rate.parse().ok());
        let name = format!("{test}, {threads} threads, transactions a second");
        self.stage.figure(&name, rate.unwrap());
        let errors = line("ignored errors:").split_once('(').unwrap().0;
        format!("{test}: {} done, {} errors\n", count.trim(), errors.trim())
    }
}

fn play(stage: &Stage) -> Observed {
    let (mariadb, running) = MariaDb::start(stage);
    mariadb.ask("CREATE DATABASE bench");
    mariadb.make_tables();
    let sums = "CHECKSUM TABLE bench.sbtest1, bench.sbtest2";
    let mut seen = mariadb.ask(sums);
    let times = if is_long() { 20 } else { 1 };
    seen += &mariadb.bench("oltp_point_select", 1, 1000 * times);
    seen += &mariadb.bench("oltp_point_select", 8, 2000 * times);
    seen += &mariadb.bench("oltp_read_only", 4, 60 * times);
    // By one thread: of several, the server now and then undoes one that holds up another.
    seen += &mariadb.bench("oltp_read_write", 1, 50 * times);
    seen += &mariadb.ask(sums);
    mariadb.ask(
        "CREATE TABLE bench.large (t LONGTEXT);
         INSERT INTO bench.large VALUES (REPEAT('0123456789abcdef', 1000000))",
    );
    let large = mariadb.ask("SELECT t FROM bench.large");
    assert_eq!(large.trim_end(), "0123456789abcdef".repeat(1_000_000));
    seen += &mariadb.ask("SELECT MD5(t), LENGTH(t) FROM bench.large");
    let _ = running.stop(Signal::TERM, 60).success();
    seen
}

#[test]
fn mariadb() {
    Scenario::new("mariadb")
        .one_sided()
        .explained()
        .run_with(NEEDS, play);
}
