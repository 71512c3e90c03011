//! Two processes that know nothing of us send each other messages, with the library and
//! without.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::check::Check;
use crate::run;

const NAME: &str = "trial";
const MESSAGE_BYTES: usize = 64;
/// Rounds before those that are measured: the connection is upgraded meanwhile.
const ROUNDS_BEFORE: usize = 2_000;
const ROUNDS: usize = 10_000;
/// Fewer rounds on a machine so busy that they take longer than this, of each of the two kinds.
const ROUNDS_LONGEST: Duration = Duration::from_secs(3);
/// An end that hangs, ends.
const LONGEST: Duration = Duration::from_secs(30);

/// One end of the trial: says its port, or what it measured, on a line. What became of the
/// connection the library says.
///
/// # Errors
/// Of the connection.
pub fn end(port: Option<u16>) -> io::Result<()> {
    std::thread::Builder::new().spawn(|| {
        std::thread::sleep(LONGEST);
        std::process::exit(1);
    })?;
    let Some(port) = port else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?.port());
        return echo(listener.accept()?.0);
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    rounds(&mut stream, ROUNDS_BEFORE)?;
    let mut times = rounds(&mut stream, ROUNDS)?;
    times.sort_unstable();
    println!("{}", times[times.len() / 2].as_nanos());
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

/// How long each round took: so many, or as many as there is time for.
fn rounds(stream: &mut TcpStream, count: usize) -> io::Result<Vec<Duration>> {
    let mut message = [0; MESSAGE_BYTES];
    let mut times = Vec::with_capacity(count);
    let began = Instant::now();
    while times.is_empty() || (times.len() < count && began.elapsed() < ROUNDS_LONGEST) {
        let begin = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    /// What it said of itself, on standard error, or how it ended.
    fn last_words(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut error) = self.0.stderr.take() {
            // What there is will do.
            let _ = error.read_to_string(&mut said);
        }
        match (said.trim().lines().last(), self.0.wait()) {
            (Some(line), _) => line.to_owned(),
            (None, Ok(status)) => status.to_string(),
            (None, Err(error)) => error.to_string(),
        }
    }
}

struct Measured {
    median_ns: f64,
    /// What the library said of the connection.
    said: String,
}

fn start(environment: &[(OsString, OsString)], port: Option<&str>) -> io::Result<(Ended, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("doctor-end").args(port).env_clear();
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Ended(child.spawn()?);
    let mut line = String::new();
    if let Some(stdout) = child.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    match line.trim_end() {
        "" => Err(io::Error::other(child.last_words())),
        line => Ok((child, line.to_owned())),
    }
}

fn measure(environment: &[(OsString, OsString)]) -> io::Result<Measured> {
    let (_server, port) = start(environment, None)?;
    let (mut client, median_ns) = start(environment, Some(&port))?;
    let median_ns = median_ns.parse().map_err(io::Error::other)?;
    let said = client.last_words();
    // `barewire: pid 71 fd 5 127.0.0.1:6379 - 127.0.0.1:40022: accelerated, ring ...`
    let said = said
        .strip_prefix("barewire: pid ")
        .and_then(|line| line.rsplit_once(": "));
    let said = said.map_or("the library was not loaded, or could not begin", |it| it.1);
    Ok(Measured {
        median_ns,
        said: said.to_owned(),
    })
}

/// Without what the user has set: the trial is of the machine.
fn environment() -> Vec<(OsString, OsString)> {
    let ours = |name: &OsString| {
        let name = name.to_string_lossy();
        name == "LD_PRELOAD" || (name.starts_with("BAREWIRE_") && name != "BAREWIRE_SOCKETS_LIB")
    };
    std::env::vars_os()
        .filter(|(name, _)| !ours(name))
        .collect()
}

/// The trial.
pub fn check() -> Check {
    let mut with = environment();
    with.push(("BAREWIRE_WHY".into(), "-".into()));
    if let Err(error) = run::with_library(&mut with) {
        return Check::bad(NAME, "not made", error.to_string());
    }
    let results = measure(&environment()).and_then(|plain| Ok((plain, measure(&with)?)));
    match results {
        Err(error) => Check::bad(
            NAME,
            format!("failed: {error}"),
            "what is bad above; else see that programs may be started with LD_PRELOAD here",
        ),
        Ok((plain, ours)) if ours.said.starts_with("accelerated, ring ") => {
            let ratio = plain.median_ns / ours.median_ns;
            let found = format!(
                "accelerated: {MESSAGE_BYTES} bytes there and back in {:.1} us, {:.1} us by the \
                 kernel: {ratio:.1} times as fast",
                ours.median_ns / 1e3,
                plain.median_ns / 1e3
            );
            match ratio {
                1.0.. => Check::good(NAME, found),
                _ => Check::warning(NAME, found, "try again when the machine is less busy"),
            }
        }
        Ok((_, ours)) => Check::bad(
            NAME,
            format!("not accelerated: {}", ours.said),
            "what is bad above; if nothing is, report it with this output (docs/sockets.md)",
        ),
    }
}
