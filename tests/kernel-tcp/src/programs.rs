//! Unmodified programs over a path that loses packets: on the kernel's TCP, and under `barewire run --edge`, in turn.
//!
//! ```text
//! iperf3, curl, nginx ── kernel ───────┐
//!                                      TAP device ── modelled path ── TAP device ── kernel ── iperf3, nginx, curl
//! the same ── gateway ── bridge ───────┘
//! ```
//!
//! Both go over the same devices and the same path. Each round has new hosts, and its chances come from its number.

use crate::{CannotRun, KERNEL, KernelHost, OTHER, join_hosts};
use barewire_sys::netns::NetNamespace;
use barewire_tcp::path::{CHANCE_ONE, PathConfig};
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The address of the bridge, beside that of its host's kernel.
const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);
/// The port of the web servers.
const WEB: u16 = 8080;
/// Servers are there after so long at most.
const START_MAX: Duration = Duration::from_secs(20);

/// What all rounds have in common.
#[derive(Debug, Clone)]
pub struct ProgramSetup {
    /// One direction of the path; what is lost is set for each row.
    pub path: PathConfig,
    /// How long each iperf3 sends. What curl gets takes as long on an idle path without losses.
    pub seconds: u64,
    /// How often each is measured.
    pub rounds: u64,
    /// The congestion control of the kernels' senders.
    pub control: String,
}

/// One program at one loss. It is shown as a row of a table.
#[derive(Debug)]
pub struct Row {
    /// What is measured.
    pub name: &'static str,
    /// How many of [`CHANCE_ONE`] packets are lost in each direction.
    pub lost: u64,
    /// Mbit/s of each round on the kernel's TCP.
    pub kernel: Vec<f64>,
    /// Mbit/s of each round through the bridge.
    pub edge: Vec<f64>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratios = self.edge.iter().zip(&self.kernel);
        let ratios: Vec<f64> = ratios.map(|(edge, kernel)| edge / kernel).collect();
        write!(
            f,
            "| {} | {} | {} | {} | {} |",
            self.name,
            self.lost as f64 / CHANCE_ONE as f64,
            median(&self.kernel, 1),
            median(&self.edge, 1),
            median(&ratios, 2)
        )
    }
}

/// The median and the range.
fn median(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(least), Some(middle), Some(most)) => {
            format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
        }
        _ => "none".to_owned(),
    }
}

/// Which TCP a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    Kernel,
    Edge,
}

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that goes with this: a file to get, and what nginx writes.
struct Folder(PathBuf);

impl Folder {
    fn new(bytes: u64) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("barewire-programs-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        let file = std::fs::File::create(path.join("file"))?;
        file.set_len(bytes)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures all programs at one loss.
///
/// # Errors
///
/// Not root, a program is missing or fails, or no TAP devices here.
pub fn compare(setup: &ProgramSetup, lost: u64) -> Result<Vec<Row>, CannotRun> {
    let names = [
        "iperf3, sends",
        "iperf3 -R, receives",
        "curl, from nginx of a kernel",
        "nginx, to curl on a kernel",
    ];
    let mut rows = names.map(|name| Row {
        name,
        lost,
        kernel: Vec::new(),
        edge: Vec::new(),
    });
    for round in 0..setup.rounds {
        let path = PathConfig { lost, ..setup.path };
        let hosts = [KernelHost::new(OTHER)?, KernelHost::new(KERNEL)?];
        for (host, own) in hosts.iter().zip([OTHER, KERNEL]) {
            // By the route, since a namespace may not have another default than the machine.
            let route = format!("10.9.0.0/24 dev bw0 proto kernel scope link src {own} congctl");
            let mut ip = Command::new("ip");
            ip.args(["route", "change"])
                .args(route.split(' '))
                .arg(&setup.control);
            output(&host.net, &mut ip)?;
        }
        let is_over = AtomicBool::new(false);
        let measured = std::thread::scope(|scope| {
            // Relaxed, both: the path may go on for a moment, and hands nothing else over.
            let path = || {
                let ends = [&hosts[0], &hosts[1]];
                join_hosts(ends, (path, path), round, || {
                    is_over.load(Ordering::Relaxed)
                });
            };
            let joined = scope.spawn(path);
            let measured = measure([&hosts[0].net, &hosts[1].net], setup);
            is_over.store(true, Ordering::Relaxed);
            joined
                .join()
                .map_err(|_| CannotRun("the path broke".to_owned()))?;
            measured
        })?;
        for (row, (kernel, edge)) in rows.iter_mut().zip(measured) {
            row.kernel.push(kernel);
            row.edge.push(edge);
        }
    }
    Ok(rows.into())
}

/// One round: Mbit/s of each program, by the kernel and through the bridge.
fn measure(
    [home, peer]: [&NetNamespace; 2],
    setup: &ProgramSetup,
) -> Result<[(f64, f64); 4], CannotRun> {
    let rate = setup.path.rate.map_or(1e9, |rate| rate.as_bps() as f64);
    let folder = Folder::new((rate / 8.0 * setup.seconds as f64 * 0.9) as u64)?;
    let bridge = [
        "bridge",
        "--interface",
        "bw0",
        "--address",
        &format!("{BRIDGE}/24"),
    ];
    let _bridge = start(
        home,
        command(Stack::Kernel, "barewire")?.args(bridge),
        "10.9.0.9",
    )?;
    let _web = nginx(peer, &folder.0.join("peer"), Command::new("nginx"))?;
    let both = |rate: &dyn Fn(Stack) -> Result<f64, CannotRun>| {
        Ok::<_, CannotRun>((rate(Stack::Kernel)?, rate(Stack::Edge)?))
    };
    let seconds = setup.seconds.to_string();
    let iperf3 = |stack, ways: &[&str]| {
        // A server each: one that has served listens anew, and resets whoever has connected before.
        let mut server = Command::new("iperf3");
        server.args(["-s", "-1", "-B", &KERNEL.to_string(), "--forceflush"]);
        let _server = start(peer, &mut server, "listening")?;
        let mut client = command(stack, "iperf3")?;
        client
            .args(["-c", &KERNEL.to_string(), "-t", &seconds, "-J"])
            .args(ways);
        let report: serde_json::Value = serde_json::from_str(&output(home, &mut client)?)
            .map_err(|error| CannotRun(format!("iperf3 says no JSON: {error}")))?;
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
        rate.map(|rate| rate / 1e6)
            .ok_or_else(|| CannotRun(format!("iperf3 tells no rate: {report}")))
    };
    Ok([
        both(&|stack| iperf3(stack, &[]))?,
        both(&|stack| iperf3(stack, &["-R"]))?,
        both(&|stack| get(home, command(stack, "curl")?, KERNEL))?,
        both(&|stack| {
            let at = if stack == Stack::Edge { BRIDGE } else { OTHER };
            let _web = nginx(home, &folder.0.join("home"), command(stack, "nginx")?)?;
            get(peer, Command::new("curl"), at)
        })?,
    ])
}

/// The command of a program, or `barewire`, of the same build as this.
fn command(stack: Stack, program: &str) -> Result<Command, CannotRun> {
    let own = std::env::current_exe()?;
    let built = own.ancestors().nth(2).unwrap_or(Path::new("."));
    let barewire = built.join("barewire");
    for file in [&barewire, &built.join("libbarewire_sockets.so")] {
        if let Some(what) = fault_of(file)? {
            return Err(CannotRun(format!(
                "{what}: `cargo build -p barewire-cli -p barewire-sockets`, with `--release` if this has it"
            )));
        }
    }
    Ok(match (stack, program) {
        (Stack::Kernel, "barewire") => Command::new(barewire),
        (Stack::Kernel, _) => Command::new(program),
        (Stack::Edge, _) => {
            let mut command = Command::new(barewire);
            command.args(["run", "--edge", "--", program]);
            command
        }
    })
}

/// Why what cargo has built at `file` is not of the present sources, if it is not: cargo lists those beside it.
fn fault_of(file: &Path) -> io::Result<Option<String>> {
    if !file.exists() {
        return Ok(Some("there is no command of this build".to_owned()));
    }
    let built = file.metadata()?.modified()?;
    let list = fs::read_to_string(file.with_extension("d"))?;
    // `built: source source`, and a space in a name behind a backslash.
    let list = list.replace("\\ ", "\0");
    for source in list.split_whitespace().skip(1) {
        let source = PathBuf::from(source.replace('\0', " "));
        let modified = source.metadata().and_then(|it| it.modified());
        if modified.map_or(true, |modified| modified > built) {
            let (file, source) = (file.display(), source.display());
            return Ok(Some(format!("{file} is older than {source}")));
        }
    }
    Ok(None)
}

/// Starts a server, and waits for a line of it with `word`.
fn start(host: &NetNamespace, command: &mut Command, word: &str) -> Result<Running, CannotRun> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let what = format!("{command:?}");
    let mut child = host
        .run(|| command.stderr(Stdio::piped()).spawn())
        .map_err(|error| CannotRun(format!("{what}: {error}")))?;
    let (tell, ready) = std::sync::mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out: [Option<Box<dyn io::Read + Send>>; 2] = [
        out.map(|it| Box::new(it) as _),
        err.map(|it| Box::new(it) as _),
    ];
    // What it says later is read as well, so that it never waits for that. The threads end with the process.
    for stream in out.into_iter().flatten() {
        let tell = tell.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
    }
    drop(tell);
    let running = Running(child);
    let end = Instant::now() + START_MAX;
    let mut said = Vec::new();
    while let Ok(line) = ready.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if line.contains(word) {
            return Ok(running);
        }
        said.push(line);
    }
    Err(CannotRun(format!(
        "{what} does not start: {}",
        said.join("; ")
    )))
}

/// What a program has said at its end.
fn output(host: &NetNamespace, command: &mut Command) -> Result<String, CannotRun> {
    let what = format!("{command:?}");
    command.stdin(Stdio::null());
    let output = host
        .run(|| command.output())
        .map_err(|error| CannotRun(format!("{what}: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(CannotRun(format!(
        "{what}: {}: {text}{error}",
        output.status
    )))
}

/// Gets the file with curl: Mbit/s.
fn get(host: &NetNamespace, mut curl: Command, from: Ipv4Addr) -> Result<f64, CannotRun> {
    let url = format!("http://{from}:{WEB}/file");
    curl.args([
        "-sS",
        "--fail",
        "--retry",
        "20",
        "--retry-connrefused",
        "--retry-delay",
        "1",
    ]);
    curl.args(["-o", "/dev/null", "-w", "%{speed_download}", &url]);
    let rate = output(host, &mut curl)?;
    let bytes: f64 = rate
        .trim()
        .parse()
        .map_err(|_| CannotRun(format!("curl tells no rate: {rate}")))?;
    Ok(bytes * 8.0 / 1e6)
}

/// nginx, which has the file.
fn nginx(host: &NetNamespace, folder: &Path, mut command: Command) -> Result<Running, CannotRun> {
    std::fs::create_dir_all(folder)?;
    let root = folder.parent().unwrap_or(folder).display();
    let settings = format!(
        "daemon off; master_process off; error_log stderr notice; pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 0.0.0.0:{WEB}; root {root}; }}
}}
",
        folder = folder.display()
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, settings)?;
    command.arg("-c").arg(&file).arg("-p").arg(folder);
    // It says this once it listens. Its port of the bridge is there a moment later, and curl tries again until then.
    start(host, &mut command, "RLIMIT_NOFILE")
}
