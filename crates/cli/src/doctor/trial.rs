//! Two processes that know nothing of us send each other messages, with the library and
//! without.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use super::Check;
use crate::{onboard, run};

/// One end of the trial.
#[derive(Clone, Debug, Args)]
pub struct EndArgs {
    /// Connect to this port; listen if there is none
    pub port: Option<u16>,
}

const NAME: &str = "trial";
const MESSAGE_BYTES: usize = 64;
/// Rounds before those that are measured: the connection comes on board meanwhile.
const ROUNDS_BEFORE: usize = 2_000;
const ROUNDS: usize = 10_000;
/// An end that hangs, ends.
const LONGEST: Duration = Duration::from_secs(30);

/// One end of the trial: says its port, or what it measured, on a line.
///
/// # Errors
/// Of the connection.
pub fn end(args: &EndArgs) -> io::Result<()> {
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        std::process::exit(1);
    });
    let Some(port) = args.port else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?.port());
        return echo(listener.accept()?.0);
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    rounds(&mut stream, ROUNDS_BEFORE)?;
    let mut times = rounds(&mut stream, ROUNDS)?;
    times.sort_unstable();
    let own = onboard::of_process(barewire_sys::process::getpid());
    let socket = own.and_then(|own| {
        own.sockets
            .into_iter()
            .find(|socket| socket.remote.is_some())
    });
    let (state, why) = socket.map_or_else(
        || {
            (
                "not on board".to_owned(),
                "the library was not loaded".to_owned(),
            )
        },
        |socket| (socket.state, socket.why),
    );
    println!("{}\t{state}\t{why}", times[times.len() / 2].as_nanos());
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

fn rounds(stream: &mut TcpStream, count: usize) -> io::Result<Vec<Duration>> {
    let mut message = [0; MESSAGE_BYTES];
    let mut round = || {
        let begin = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        Ok(begin.elapsed())
    };
    (0..count).map(|_| round()).collect()
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Measured {
    median_ns: f64,
    state: String,
    why: String,
}

fn start(environment: &[(OsString, OsString)], port: Option<&str>) -> io::Result<(Ended, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("doctor-end").args(port).env_clear();
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Ended(child.spawn()?);
    let mut line = String::new();
    if let Some(stdout) = child.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    Ok((child, line.trim_end().to_owned()))
}

fn measure(environment: &[(OsString, OsString)]) -> io::Result<Measured> {
    let (_server, port) = start(environment, None)?;
    let (_client, line) = start(environment, Some(&port))?;
    let mut fields = line.split('\t');
    let mut next = || fields.next().unwrap_or_default().to_owned();
    let median_ns = next().parse();
    let median_ns = median_ns.map_err(|_| io::Error::other("an end of the trial failed"))?;
    Ok(Measured {
        median_ns,
        state: next(),
        why: next(),
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
    if let Err(error) = run::with_library(&mut with) {
        return Check::bad(NAME, "not made", error.to_string());
    }
    let results = measure(&environment()).and_then(|plain| Ok((plain, measure(&with)?)));
    match results {
        Err(error) => Check::bad(
            NAME,
            format!("failed: {error}"),
            "see that programs may be started with LD_PRELOAD here, and that loopback works",
        ),
        Ok((plain, ours)) if ours.state == "accelerated" => {
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
            format!("not accelerated: {}: {}", ours.state, ours.why),
            "what is bad above; if nothing is, report it with this output (docs/sockets.md)",
        ),
    }
}
