//! The serving end: a process that a client on this machine has started, or `bench serve` for clients of other hosts.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use barewire_sys::process::{
    cpu_time_self, pin_to_cpu, raise_nofile_limit, set_parent_death_signal_kill,
};

use super::probe::{PROBE_BYTES, Probe};
use crate::channel::control::{Command, Control, Reply, Served};
use crate::channel::ends::{Context, ServerEnd};
use crate::channel::shared_memory::take_share;
use crate::error::{Error, Result, What};
use crate::measure::clock::Clock;
use crate::measure::spin::set_shared_processor;
use crate::measure::stats::Scratch;
use crate::transport::open_server;

/// Both ends have to be of one version: what they say to each other may change with any.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The server process: what `barewire bench-server` does.
pub fn serve() -> Result<()> {
    set_parent_death_signal_kill().map_err(|error| Error::Transport(error.to_string()))?;
    let is_socket = rustix::net::sockopt::socket_type(std::io::stdin().as_fd());
    if is_socket.is_err() {
        return Err(not_by_hand());
    }
    // It was started by way of /proc/self/exe; `ps` and `barewire ls` shall say more.
    let _ = rustix::thread::set_name(c"bench-server");
    serve_client(Control::inherited()?)
}

/// Serves clients of other hosts, one after the other, until it is stopped: what `barewire bench serve` does.
pub fn serve_peers(address: &str, quiet: bool) -> Result<()> {
    let listener = TcpListener::bind(address).what(&format!("listening at {address}"))?;
    let bound = listener.local_addr().what("asking for the port")?;
    println!("barewire: serving benchmarks at {bound}");
    loop {
        let (stream, peer) = listener.accept().what("accepting a client")?;
        let say = |what: &str| {
            if !quiet {
                eprintln!("barewire: {peer}: {what}");
            }
        };
        say("begins");
        match serve_peer(stream) {
            Ok(()) => say("has ended"),
            Err(error) => say(&error.to_string()),
        }
    }
}

fn serve_peer(stream: TcpStream) -> Result<()> {
    let own = stream.local_addr().what("asking for our address")?;
    serve_client(Control::over(stream, own.ip())?)
}

fn serve_client(mut control: Control) -> Result<()> {
    let served = greet(&mut control).and_then(|probe| serve_commands(&control, probe));
    if let Err(error) = &served {
        let _ = control.send(&Reply::Failed(error.to_string()));
    }
    served
}

fn not_by_hand() -> Error {
    Error::Usage("bench-server is started by `barewire bench`, not by hand".into())
}

/// Hears the client's first words and takes up the place.
fn greet(control: &mut Control) -> Result<Option<Probe>> {
    raise_nofile_limit();
    let Some((
        Command::Hello {
            version,
            cpu,
            shared_processor,
            listens_at,
        },
        _,
    )) = control.recv()?
    else {
        return Err(not_by_hand());
    };
    if version != VERSION {
        return Err(Error::Transport(format!(
            "the client has barewire {version}, and the server {VERSION}"
        )));
    }
    let mut probe = None;
    if control.is_here() {
        control.set_server_address(listens_at);
        set_shared_processor(shared_processor);
        if let Some(cpu) = cpu {
            pin_to_cpu(cpu).map_err(|error| Error::Transport(error.to_string()))?;
        }
        probe = Some(Probe::new(&take_share(PROBE_BYTES, control)?)?);
    }
    control.send(&Reply::Ready)?;
    Ok(probe)
}

fn serve_commands(control: &Control, mut probe: Option<Probe>) -> Result<()> {
    let mut context = Context {
        clock: Clock::calibrate(),
        scratch: Scratch::default(),
    };
    let mut serve_probe = || probe.as_mut().map_or(Ok(()), Probe::serve);
    let mut channels: HashMap<usize, Box<dyn ServerEnd>> = HashMap::new();
    while let Some((command, _)) = control.recv()? {
        check(control, &command)?;
        let reply = match command {
            Command::Open { id, spec } => {
                channels.insert(id, open_server(&spec, control)?);
                Reply::Ready
            }
            Command::Close { id } => {
                channels.remove(&id);
                Reply::Ready
            }
            Command::Probe => {
                serve_probe()?;
                Reply::Ready
            }
            Command::Sample { id, work } => {
                let end = channels
                    .get_mut(&id)
                    .ok_or_else(|| Error::Transport("no such channel".into()))?;
                serve_probe()?;
                let (cpu, wall) = (cpu_time_self(), Instant::now());
                let served = end.serve(&work, &mut context)?;
                let (cpu, wall) = (cpu_time_self().saturating_sub(cpu), wall.elapsed());
                serve_probe()?;
                Reply::Served(Served {
                    cpu_ns: cpu.as_nanos() as u64,
                    wall_ns: wall.as_nanos() as u64,
                    ..served
                })
            }
            Command::Hello { .. } | Command::Descriptors => {
                return Err(Error::Transport("a command out of order".into()));
            }
        };
        control.send(&reply)?;
    }
    Ok(())
}

/// Whoever reaches our port may ask for anything: refuses what would use up this host.
fn check(control: &Control, command: &Command) -> Result<()> {
    let is_harmless = match command {
        Command::Open { id, spec } => *id <= CHANNELS_MAX && spec.is_harmless(),
        Command::Sample { work, .. } => work.is_harmless(),
        _ => true,
    };
    match control.is_here() || is_harmless {
        true => Ok(()),
        false => Err(Error::Usage(
            "the server does not do this for other hosts".into(),
        )),
    }
}

/// Highest number of a channel that a client of another host may open.
const CHANNELS_MAX: usize = 1024;
