//! Figures of programs that others wrote, as Debian packages them: Redis, nginx, iperf3.

use std::path::{Path, PathBuf};

use barewire_report::number::bytes;

use super::figure::{Figure, Mode, Sample, Target, Unit};
use super::launcher::{Launcher, Server, User, installed};
use super::load::{self, Watch};
use super::micro::How;
use crate::error::{Error, Result};

/// Programs that a scenario needs, or which of them is missing.
pub fn need<const N: usize>(
    names: [&str; N],
    package: &str,
) -> std::result::Result<[PathBuf; N], String> {
    let found = names.map(|name| installed(name).ok_or(name));
    if let Some(Err(name)) = found.iter().find(|it| it.is_err()) {
        return Err(format!(
            "{name} is not installed (apt-get install {package})"
        ));
    }
    Ok(found.map(|it| it.unwrap_or_default()))
}

/// A server of each mode.
pub struct Servers {
    plain: (Server, u16),
    preloaded: (Server, u16),
}

impl Servers {
    /// Starts both, each at a port of its own.
    pub fn start(
        launcher: &Launcher,
        one: impl Fn(Mode, u16) -> Result<Server>,
    ) -> Result<Servers> {
        let start = |mode| -> Result<(Server, u16)> {
            let port = launcher.free_port()?;
            Ok((one(mode, port)?, port))
        };
        Ok(Servers {
            plain: start(Mode::Plain)?,
            preloaded: start(Mode::Preloaded)?,
        })
    }

    fn of(&self, mode: Mode) -> &(Server, u16) {
        match mode {
            Mode::Plain => &self.plain,
            Mode::Preloaded => &self.preloaded,
        }
    }

    /// Runs a client to its end; gives what it said, and the sample without its value.
    pub fn client(
        &self,
        launcher: &Launcher,
        mode: Mode,
        program: &Path,
        arguments: &str,
        user: User,
    ) -> Result<(String, Sample)> {
        let (server, port) = self.of(mode);
        let mut command = launcher.program(mode, program);
        let port = port.to_string();
        command.args(
            arguments
                .split_whitespace()
                .map(|word| word.replace("{port}", &port)),
        );
        let before = server.cpu_ns() + load::waited_for_ns();
        let watch = Watch::start();
        let said = launcher.run(&mut command, user)?;
        let cost = watch.stop(server.cpu_ns() + load::waited_for_ns() - before);
        let sample = Sample {
            value: 0.0,
            operations: 0.0,
            cost,
        };
        Ok((said, sample))
    }

    /// Ends both; whether preloaded programs were accelerated.
    pub fn end(self, launcher: &Launcher, figures: &mut [Figure]) {
        drop(self);
        let counted = launcher.counted();
        for figure in figures {
            figure.is_upgraded = Some(counted.upgraded > 0 && counted.ring_bytes > 0);
        }
    }
}

/// The number after a word.
pub fn number_after(text: &str, word: &str) -> Option<f64> {
    let after = &text[text.find(word)? + word.len()..];
    let value = after
        .split_whitespace()
        .next()?
        .trim_end_matches(',')
        .parse::<f64>()
        .ok()?;
    (value.is_finite() && value > 0.0).then_some(value)
}

/// A program's output is not what it should be.
pub fn unexpected_output(program: &str, said: &str) -> Error {
    let end: Vec<&str> = said.lines().rev().take(3).collect();
    Error::Transport(format!(
        "unexpected output of {program}: {}",
        end.join(" | ")
    ))
}

// ------------------------------------------------------------------------------------ Redis

/// Requests per second in the comma-separated values of `redis-benchmark`.
fn redis_rate(said: &str) -> Option<f64> {
    let line = said
        .lines()
        .rev()
        .find(|line| line.starts_with("\"GET\"") || line.starts_with("\"SET\""))?;
    let value = line
        .split(',')
        .nth(1)?
        .trim_matches('"')
        .parse::<f64>()
        .ok()?;
    (value > 0.0).then_some(value)
}

/// `redis-benchmark`: SET and GET, by one client, by 50, and by 50 with 16 requests at once.
pub fn redis(launcher: &Launcher, how: How, programs: &[PathBuf; 2]) -> Result<Vec<Figure>> {
    let [server, benchmark] = programs;
    let servers = Servers::start(launcher, |mode, port| {
        let mut command = launcher.program(mode, server);
        let port_text = port.to_string();
        let dir = launcher.path_of(mode, "redis");
        launcher.make_folder(&dir, None)?;
        command.args([
            "--port",
            &port_text,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(dir);
        launcher.server(&mut command, port, None)
    })?;
    let mut figures = Vec::new();
    let cases = [
        ("-c 1", "1 client", 4.0),
        ("-c 50", "50 clients", 1.5),
        ("-c 50 -P 16", "50 clients, 16 at once", 1.2),
    ];
    for (options, words, least) in cases {
        for test in ["SET", "GET"] {
            let name = format!("redis {test}, {words}");
            let mut figure =
                Figure::new("redis", name, Unit::PerSecond).with_target(Target::Gain(least));
            let run = |mode, requests: f64| -> Result<Sample> {
                let requests = requests.clamp(1000.0, 1e7) as u64;
                let arguments = format!(
                    "-p {{port}} --csv -t {} -n {requests} {options}",
                    test.to_lowercase()
                );
                let (said, sample) = servers.client(launcher, mode, benchmark, &arguments, None)?;
                let value =
                    redis_rate(&said).ok_or_else(|| unexpected_output("redis-benchmark", &said))?;
                Ok(Sample {
                    value,
                    operations: requests as f64,
                    ..sample
                })
            };
            let requests = |rate: f64| rate * how.ms as f64 / 1000.0;
            let rate = |mode| run(mode, 2000.0).map(|sample| sample.value);
            let (plain, preloaded) = (rate(Mode::Plain)?, rate(Mode::Preloaded)?);
            for round in 0..how.rounds {
                for mode in How::modes(round) {
                    let rate = if mode == Mode::Plain {
                        plain
                    } else {
                        preloaded
                    };
                    figure.enter(mode, &run(mode, requests(rate))?);
                }
            }
            figures.push(figure);
        }
    }
    servers.end(launcher, &mut figures);
    Ok(figures)
}

// ------------------------------------------------------------------------------------ nginx

/// The sizes of the two pages.
const PAGE_BYTES: usize = 600;
const LARGE_PAGE_BYTES: usize = 300 << 10;

/// What `wrk` does in a figure.
struct Requests {
    connections: u32,
    page_bytes: usize,
    /// Each request has a connection of its own.
    closes: bool,
    /// The target.
    least: f64,
}

const NGINX: [Requests; 4] = [
    Requests {
        connections: 1,
        page_bytes: PAGE_BYTES,
        closes: false,
        least: 3.0,
    },
    Requests {
        connections: 64,
        page_bytes: PAGE_BYTES,
        closes: false,
        least: 1.3,
    },
    Requests {
        connections: 8,
        page_bytes: PAGE_BYTES,
        closes: true,
        least: 1.0,
    },
    Requests {
        connections: 8,
        page_bytes: LARGE_PAGE_BYTES,
        closes: true,
        least: 1.0,
    },
];

/// A script for `wrk`, in the folder where the programs start: each request has a connection of its own.
const CLOSING_SCRIPT: &str = "close.lua";

impl Requests {
    fn name(&self) -> String {
        let size = bytes(self.page_bytes as u64);
        let each = if self.closes { ", a request each" } else { "" };
        format!(
            "nginx + wrk, {size}, {} connections{each}",
            self.connections
        )
    }

    fn arguments(&self, seconds: u64) -> String {
        let close = match self.closes {
            true => format!("-s {CLOSING_SCRIPT} "),
            false => String::new(),
        };
        format!(
            "-t 1 -c {} -d {seconds}s --timeout 10s {close}http://127.0.0.1:{{port}}/{}",
            self.connections, self.page_bytes
        )
    }
}

fn nginx_config(folder: &str, port: u16) -> String {
    // Root's workers would else become a user who may not look into the folder.
    let user = match barewire_sys::process::own_credentials().uid {
        0 => "user root root;",
        _ => "",
    };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};"))
        .join(" ");
    format!(
        "{user} worker_processes 1; daemon off; pid {folder}/pid; error_log stderr warn;
         events {{ worker_connections 512; }}
         http {{ access_log off; keepalive_requests 100000000; {temporary}
           server {{ listen 127.0.0.1:{port} backlog=512; root {folder}; }} }}\n"
    )
}

/// `wrk` against nginx: a small file over connections that are kept, and a connection for each file.
pub fn nginx(launcher: &Launcher, how: How, programs: &[PathBuf; 2]) -> Result<Vec<Figure>> {
    let [server, wrk] = programs;
    let servers = Servers::start(launcher, |mode, port| {
        let folder = launcher.path_of(mode, "nginx");
        launcher.make_folder(&folder, None)?;
        for size in [PAGE_BYTES, LARGE_PAGE_BYTES] {
            launcher.write(&folder.join(size.to_string()), vec![b'x'; size])?;
        }
        let config = folder.join("nginx.conf");
        launcher.write(&config, nginx_config(&folder.display().to_string(), port))?;
        let mut command = launcher.program(mode, server);
        command
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(&config)
            .args(["-e", "stderr"]);
        launcher.server(&mut command, port, None)
    })?;
    let script = "wrk.headers[\"Connection\"] = \"close\"\n";
    launcher.write(&launcher.path(CLOSING_SCRIPT), script)?;
    let seconds = how.ms.div_ceil(1000);
    let mut figures = Vec::new();
    for requests in &NGINX {
        let mut figure = Figure::new("nginx", requests.name(), Unit::PerSecond)
            .with_target(Target::Gain(requests.least));
        let arguments = requests.arguments(seconds);
        for round in 0..how.rounds {
            for mode in How::modes(round) {
                let (said, sample) = servers.client(launcher, mode, wrk, &arguments, None)?;
                let rate = number_after(&said, "Requests/sec:");
                let faulty = said.contains("Non-2xx") || said.contains("Socket errors");
                let (false, Some(value)) = (faulty, rate) else {
                    return Err(unexpected_output("wrk", &said));
                };
                let operations = value * sample.cost.wall_ns / 1e9;
                figure.enter(
                    mode,
                    &Sample {
                        value,
                        operations,
                        ..sample
                    },
                );
            }
        }
        figures.push(figure);
    }
    servers.end(launcher, &mut figures);
    Ok(figures)
}

// ----------------------------------------------------------------------------------- iperf3

/// The receiver's rate in what `iperf3 --json` says.
fn iperf_rate(said: &str) -> Option<f64> {
    let value: serde_json::Value = serde_json::from_str(said).ok()?;
    let bits = value["end"]["sum_received"]["bits_per_second"].as_f64()?;
    (bits > 0.0).then_some(bits / 8.0)
}

/// `iperf3`: one stream with its own defaults.
pub fn iperf(launcher: &Launcher, how: How, programs: &[PathBuf; 1]) -> Result<Vec<Figure>> {
    let [program] = programs;
    let servers = Servers::start(launcher, |mode, port| {
        let mut command = launcher.program(mode, program);
        command.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
        launcher.server(&mut command, port, None)
    })?;
    let seconds = how.ms.div_ceil(1000);
    let mut figure = Figure::new("iperf3", "iperf3, 1 stream", Unit::BytesPerSecond);
    figure.target = Some(Target::Gain(1.5));
    let arguments = format!("-c 127.0.0.1 -p {{port}} -t {seconds} -J");
    for round in 0..how.rounds {
        for mode in How::modes(round) {
            let (said, sample) = servers.client(launcher, mode, program, &arguments, None)?;
            let value = iperf_rate(&said).ok_or_else(|| unexpected_output("iperf3", &said))?;
            figure.enter(mode, &Sample { value, ..sample });
        }
    }
    let mut figures = vec![figure];
    servers.end(launcher, &mut figures);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_understood() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"12345.60\",\"0.040\"\n";
        assert_eq!(redis_rate(csv), Some(12_345.6));
        assert_eq!(redis_rate("Could not connect"), None);
        assert_eq!(
            number_after("x\nRequests/sec:  21876.43\nT", "Requests/sec:"),
            Some(21_876.43)
        );
        assert_eq!(number_after("nothing", "Requests/sec:"), None);
        let json = r#"{"end": {"sum_received": {"bits_per_second": 8e9}}}"#;
        assert_eq!(iperf_rate(json), Some(1e9));
        assert_eq!(iperf_rate("iperf3: error"), None);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert!(need(["sh"], "dash").is_ok());
        let why = need(["sh", "no-such-program"], "some-package").unwrap_err();
        assert!(
            why.contains("no-such-program") && why.contains("some-package"),
            "{why}"
        );
    }
}
