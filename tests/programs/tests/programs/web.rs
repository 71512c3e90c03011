//! nginx with wrk and curl, alone and behind haproxy: keep-alive, sendfile, large files,
//! ranges, a reload under load.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use barewire_programs::{Observed, Running, Scenario, Stage, is_long};
use rustix::process::{Signal, geteuid};

const MB: usize = 1 << 20;

/// Bytes that are not alike anywhere.
fn content(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

struct Nginx<'stage> {
    stage: &'stage Stage,
    port: u16,
    running: Running<'stage>,
    large: Vec<u8>,
}

impl<'stage> Nginx<'stage> {
    fn start(stage: &'stage Stage) -> Self {
        let port = stage.free_port();
        fs::create_dir_all(stage.path("www")).unwrap();
        fs::create_dir_all(stage.path("temporary")).unwrap();
        let large = content(if is_long() { 500 * MB } else { 50 * MB });
        stage.write("www/small", content(600));
        stage.write("www/middle", &large[..300_000]);
        stage.write("www/large", &large);
        // Else root's workers become a user who may not look into the folder.
        let user = if geteuid().is_root() {
            "user root root;"
        } else {
            ""
        };
        let folder = stage.folder().display();
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = kinds.map(|kind| format!("{kind}_temp_path {folder}/temporary/{kind};"));
        let config = stage.write(
            "nginx.conf",
            format!(
                "{user} worker_processes 2; daemon off; pid {folder}/nginx.pid;
                error_log {folder}/nginx.log warn;
                events {{ worker_connections 512; }}
                http {{
                    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
                    {}
                    server {{
                        listen 127.0.0.1:{port} backlog=512; listen [::1]:{port};
                        root {folder}/www;
                        location /copied/ {{ sendfile off; alias {folder}/www/; }}
                    }}
                }}",
                temporary.join("\n")
            ),
        );
        let prefix = stage.folder().to_owned();
        let mut running = stage
            .server("nginx")
            .arg("-p")
            .arg(prefix)
            .arg("-c")
            .arg(config)
            .start();
        running.wait_for_port("127.0.0.1", port);
        Self {
            stage,
            port,
            running,
            large,
        }
    }

    fn stop(self) {
        let _ = self.running.stop(Signal::QUIT, 20).success();
    }
}

/// Fetches with curl; gives what came, and what curl says of it.
fn fetch(stage: &Stage, options: &[&str], url: &str) -> (Vec<u8>, String) {
    let file: PathBuf = stage.path("fetched");
    let said = stage
        .client("curl")
        .args([
            "-sS",
            "--fail",
            "-w",
            "%{http_code} %{size_download} %{num_connects}\n",
            "-o",
        ])
        .arg(&file)
        .args(options)
        .arg(url)
        .text(120);
    (fs::read(file).unwrap(), said)
}

/// Loads with wrk, all of whose answers must be good; `None` where some may be missing.
fn load(stage: &Stage, url: &str, connections: u32, seconds: u32, all_good: bool) {
    let said = wrk(stage, url, connections, seconds)
        .wait(u64::from(seconds) + 30)
        .success();
    check_load(&said.stdout, all_good);
}

fn wrk<'stage>(stage: &'stage Stage, url: &str, connections: u32, seconds: u32) -> Running<'stage> {
    let threads = connections.min(2).to_string();
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    let options = [
        "-t",
        &threads,
        "-c",
        &connections,
        "-d",
        &seconds,
        "--timeout",
        "10s",
        url,
    ];
    stage.client("wrk").args(options).start()
}

fn check_load(said: &str, all_good: bool) {
    let requests = said
        .lines()
        .find(|line| line.contains("requests in"))
        .unwrap_or_default();
    let count = requests
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok());
    assert!(count.unwrap_or(0_u64) > 50, "{said}");
    assert!(!said.contains("Non-2xx"), "{said}");
    assert!(!all_good || !said.contains("Socket errors"), "{said}");
}

fn seconds() -> u32 {
    if is_long() { 20 } else { 1 }
}

/// What every server of these files must give.
fn check_files(nginx: &Nginx<'_>, at: &str) -> String {
    let stage = nginx.stage;
    let mut seen = String::new();
    for (path, size) in [
        ("small", 600),
        ("middle", 300_000),
        ("large", nginx.large.len()),
    ] {
        let (bytes, said) = fetch(stage, &[], &format!("{at}/{path}"));
        let expected = if path == "small" {
            content(600)
        } else {
            nginx.large[..size].to_vec()
        };
        assert!(
            bytes == expected,
            "{at}/{path}: {} other bytes: {said}",
            bytes.len()
        );
        seen += &said;
    }
    let (bytes, said) = fetch(stage, &["-r", "1000000-2999999"], &format!("{at}/large"));
    assert!(
        bytes == nginx.large[1_000_000..3_000_000],
        "{at}: the range is wrong"
    );
    seen += &said;
    // Slow readers fill the buffers of all who stand between.
    let slow = ["--limit-rate", "8m", "-r", "0-7999999"];
    let (bytes, _) = fetch(stage, &slow, &format!("{at}/large"));
    assert!(
        bytes == nginx.large[..8_000_000],
        "{at}: slowly read, it is wrong"
    );
    seen
}

/// Many requests on one connection.
fn check_keep_alive(stage: &Stage, at: &str) -> String {
    let url = format!("{at}/small?[1-200]");
    let said = stage
        .client("curl")
        .args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{num_connects}\n",
            &url,
        ])
        .text(60);
    let connects = said.lines().filter(|line| line.ends_with(" 1")).count();
    let good = said.lines().filter(|line| line.starts_with("200 ")).count();
    assert_eq!((connects, good), (1, 200), "{said}");
    format!("{good} answers over {connects} connection\n")
}

#[test]
fn nginx() {
    let play = |stage: &Stage| -> Observed {
        let nginx = Nginx::start(stage);
        let at = format!("http://127.0.0.1:{}", nginx.port);
        let mut seen = check_files(&nginx, &at);
        seen += &check_files(&nginx, &format!("{at}/copied"));
        seen += &check_files(&nginx, &format!("http://[::1]:{}", nginx.port));
        seen += &check_keep_alive(stage, &at);
        load(stage, &format!("{at}/small"), 1, seconds(), true);
        load(stage, &format!("{at}/small"), 64, seconds(), true);
        load(stage, &format!("{at}/middle"), 8, seconds(), true);
        nginx.stop();
        seen
    };
    Scenario::new("nginx").run(&["nginx", "wrk", "curl"], play);
}

#[test]
fn nginx_one_sided() {
    let play = |stage: &Stage| -> Observed {
        let nginx = Nginx::start(stage);
        let at = format!("http://127.0.0.1:{}", nginx.port);
        let seen = check_files(&nginx, &at) + &check_keep_alive(stage, &at);
        load(stage, &format!("{at}/small"), 8, seconds(), true);
        nginx.stop();
        seen
    };
    let scenario = Scenario::new("nginx-one-sided")
        .one_sided()
        .with_own_connections();
    scenario.run(&["nginx", "wrk", "curl"], play);
}

/// New workers take over while requests come in.
#[test]
fn nginx_reload() {
    let play = |stage: &Stage| -> Observed {
        let nginx = Nginx::start(stage);
        let at = format!("http://127.0.0.1:{}", nginx.port);
        let load = wrk(stage, &format!("{at}/small"), 16, 3);
        let mut seen = String::new();
        for reload in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(600));
            nginx.running.signal(Signal::HUP);
            let (bytes, _) = fetch(stage, &[], &format!("{at}/middle"));
            assert!(bytes == nginx.large[..300_000]);
            writeln!(seen, "after reload {reload}: good").unwrap();
        }
        // A connection that its worker closes while a request is on its way is an error that
        // wrk counts; without the library, too.
        check_load(&load.wait(60).success().stdout, false);
        seen += &check_keep_alive(stage, &at);
        nginx.stop();
        seen
    };
    Scenario::new("nginx-reload").run(&["nginx", "wrk", "curl"], play);
}

#[test]
fn haproxy() {
    let play = |stage: &Stage| -> Observed {
        let nginx = Nginx::start(stage);
        let (http, tcp) = (stage.free_port(), stage.free_port());
        let behind = nginx.port;
        let config = stage.write(
            "haproxy.cfg",
            format!(
                "global
    maxconn 500
defaults
    timeout connect 10s
    timeout client 30s
    timeout server 30s
frontend http
    mode http
    bind 127.0.0.1:{http}
    default_backend web
backend web
    mode http
    http-reuse always
    server nginx 127.0.0.1:{behind}
listen tcp
    mode tcp
    option splice-auto
    bind 127.0.0.1:{tcp}
    server nginx 127.0.0.1:{behind}
"
            ),
        );
        let mut running = stage
            .server("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(config)
            .start();
        running.wait_for_port("127.0.0.1", http);
        running.wait_for_port("127.0.0.1", tcp);
        let mut seen = String::new();
        for port in [http, tcp] {
            let at = format!("http://127.0.0.1:{port}");
            seen += &check_files(&nginx, &at);
            seen += &check_keep_alive(stage, &at);
            load(stage, &format!("{at}/small"), 16, seconds(), true);
        }
        let _ = running.stop(Signal::TERM, 20);
        nginx.stop();
        seen
    };
    Scenario::new("haproxy").run(&["nginx", "wrk", "curl", "haproxy"], play);
}
