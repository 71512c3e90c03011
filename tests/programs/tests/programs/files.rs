//! Files and data sets of other programs: NFS version 3 from nfs-ganesha to the clients of libnfs; and SQLite,
//! which has no server, behind the server for XML-RPC of Python's own library.

use std::fs;
use std::process::Command;

use barewire_programs::{
    Need, Observed, Program, Running, Scenario, Stage, is_long, missing, skip,
};
use rustix::process::Signal;

/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;

const NFS_NEEDS: &[Need] = &[
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("rpcbind", "rpcbind"),
    ("ganesha.nfsd", "nfs-ganesha"),
    (VFS, "nfs-ganesha-vfs"),
    ("nfs-cp", "libnfs-utils"),
];

/// The part of nfs-ganesha that gives out a local file system.
const VFS: &str = if cfg!(target_arch = "x86_64") {
    "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so"
} else {
    "/usr/lib/aarch64-linux-gnu/ganesha/libfsalvfs.so"
};

/// What the namespaces of a test need, and the port mapper, which stays in front. The server and the port
/// mapper have places of their own below `/run` and `/var`, and the files are on a file system of their own.
const NAMESPACE: &str = r#"
set -e
ip link set lo up
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/rpcbind /run/ganesha /var/lib/nfs
mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/ganesha
mount -t tmpfs none "$1"
exec rpcbind -f
"#;

/// A port mapper in network and mount namespaces of its own, and what runs in them.
struct Namespace<'stage> {
    stage: &'stage Stage,
    holder: Running<'stage>,
}

impl<'stage> Namespace<'stage> {
    fn start(stage: &'stage Stage) -> Self {
        let export = stage.path("export");
        fs::create_dir(&export).unwrap();
        let words = ["-n", "-m", "sh", "-c", NAMESPACE, "sh"];
        let holder = stage.tool("unshare").args(words).arg(export).start();
        let namespace = Self { stage, holder };
        // It answers when it is there.
        stage.wait_until(60, "the port mapper", || {
            let socket = namespace.enter(stage.tool("nsenter"), "test");
            socket
                .args(["-S", "/run/rpcbind.sock"])
                .run(60)
                .status
                .success()
        });
        namespace
    }

    /// `nsenter` with the words that lead into the namespaces, and a program.
    fn enter(&self, nsenter: Program<'stage>, program: &str) -> Program<'stage> {
        let pid = self.holder.pid().as_raw_nonzero().to_string();
        nsenter.args(["-n", "-m", "-t", &pid, program])
    }

    fn client(&self, program: &str) -> Program<'stage> {
        self.enter(self.stage.client("nsenter"), program)
    }

    fn server(&self, program: &str) -> Program<'stage> {
        self.enter(self.stage.server("nsenter"), program)
    }

    fn end(self) {
        let _ = self.holder.stop(Signal::TERM, 60);
    }
}

fn ganesha_config(stage: &Stage) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; }}
         NFS_KRB5 {{ Active_krb5 = false; }}
         EXPORT {{
             Export_Id = 1; Path = {0}/export; Pseudo = /export; Protocols = 3; Transports = TCP;
             Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
             FSAL {{ Name = VFS; }}
         }}
         LOG {{ Default_Log_Level = EVENT; }}",
        stage.folder().display()
    )
}

fn nfs_play(stage: &Stage) -> Observed {
    let namespace = Namespace::start(stage);
    let config = stage.write("ganesha.conf", ganesha_config(stage));
    let log = stage.path("ganesha.log");
    let server = namespace
        .server("ganesha.nfsd")
        .arg("-F")
        .arg("-f")
        .arg(config);
    let server = server
        .arg("-L")
        .arg(&log)
        .arg("-p")
        .arg(stage.path("ganesha.pid"));
    let server = server.start();
    let export = format!("nfs://127.0.0.1{}/export", stage.folder().display());
    let list = || namespace.client("nfs-ls").arg(&export).run(LIMIT_S);
    stage.wait_until(LIMIT_S, "nfs-ganesha", || list().status.success());
    let size = if is_long() { 200_000_000 } else { 20_000_000 };
    let mut seen = String::new();
    for (name, size) in [("small", 100), ("large", size)] {
        let content: Vec<u8> = (0..size as u32 / 4)
            .flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect();
        let file = stage.write(name, &content);
        let url = format!("{export}/{name}");
        let copied = namespace
            .client("nfs-cp")
            .arg(&file)
            .arg(&url)
            .run(LIMIT_S)
            .success();
        let came = namespace.client("nfs-cat").arg(&url).run(LIMIT_S).success();
        assert!(
            fs::read(&came.stdout_file).unwrap() == content,
            "other bytes of {name}"
        );
        if name == "large" {
            let rate = |seconds: f64| f64::from(size) / 1e6 / seconds;
            stage.figure("MB a second, nfs-cp", rate(copied.took.as_secs_f64()));
            stage.figure("MB a second, nfs-cat", rate(came.took.as_secs_f64()));
        }
        seen += &format!("{name}: {} bytes\n", content.len());
    }
    // Mode, links, owner, group, size, name: the date is not the same each time.
    let mut names: Vec<_> = list().success().stdout.lines().map(str::to_owned).collect();
    names.sort();
    seen += &names.join("\n");
    let missing = namespace.client("nfs-cat").arg(format!("{export}/missing"));
    assert!(!missing.run(LIMIT_S).status.success());
    let _ = server.stop(Signal::TERM, LIMIT_S).success();
    namespace.end();
    seen
}

#[test]
fn nfs() {
    let name = "nfs";
    if let Some(reason) = missing(NFS_NEEDS) {
        return skip(name, &reason);
    }
    let apart = Command::new("unshare").args(["-n", "-m", "true"]).output();
    if !apart.is_ok_and(|output| output.status.success()) {
        return skip(
            name,
            "no network and mount namespaces can be made here: it needs root",
        );
    }
    Scenario::new(name)
        .one_sided()
        .explained()
        .run_always(nfs_play);
}

const SQLITE_SERVER: &str = r#"
import signal, sqlite3, sys
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
database = sqlite3.connect("data", isolation_level=None)
class Handler(SimpleXMLRPCRequestHandler):
    # One connection for many calls.
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
def ask(sql, values):
    return database.execute(sql, values).fetchall()
def ask_many(sql, rows):
    database.execute("BEGIN")
    done = database.executemany(sql, rows).rowcount
    database.execute("COMMIT")
    return done
with SimpleXMLRPCServer(("127.0.0.1", int(sys.argv[1])), Handler, logRequests=False) as server:
    server.register_function(ask)
    server.register_function(ask_many)
    server.serve_forever()
"#;

const SQLITE_CLIENT: &str = r#"
import hashlib, sys, time, xmlrpc.client
port, rounds = sys.argv[1], int(sys.argv[2])
with xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/") as server:
    server.ask("CREATE TABLE t (i INTEGER PRIMARY KEY, v TEXT)", [])
    rows = [(i, hashlib.sha256(b"%d" % i).hexdigest() * 4) for i in range(2000)]
    print(server.ask_many("INSERT INTO t VALUES (?, ?)", rows))
    for i in range(100):
        assert server.ask("SELECT v FROM t WHERE i = ?", [i]) == [[rows[i][1]]], i
        server.ask("UPDATE t SET v = v || ? WHERE i = ?", ["x", i])
    print(server.ask("SELECT count(*), sum(length(v)) FROM t", []))
    assert server.ask("SELECT * FROM t WHERE i >= 100", []) == [list(row) for row in rows[100:]]
    try: server.ask("SELECT nothing FROM nowhere", [])
    except xmlrpc.client.Fault as fault: print(fault.faultString)
    since = time.monotonic()
    for i in range(rounds): server.ask("SELECT v FROM t WHERE i = ?", [i % 2000])
    print(f"figure: queries a second: {rounds / (time.monotonic() - since)}", file=sys.stderr)
"#;

#[test]
fn sqlite_behind_a_server() {
    let python = "/usr/bin/python3";
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port().to_string();
        let server = stage.write("server.py", SQLITE_SERVER);
        let client = stage.write("client.py", SQLITE_CLIENT);
        let server = stage.server(python).arg(server).arg(&port).start();
        server.wait_for_listener(port.parse().unwrap());
        let client = stage.client(python).arg(client);
        let rounds = if is_long() { "4000" } else { "200" };
        let output = client.args([&port, rounds]).run(LIMIT_S).success();
        stage.figures_of(&output);
        let _ = server.stop(Signal::TERM, 60).success();
        output.stdout
    };
    Scenario::new("sqlite")
        .one_sided()
        .explained()
        .run_with(&[(python, "python3")], play);
}
