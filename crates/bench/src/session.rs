//! The two processes: the measuring one starts the server, which is the same program
//! with a hidden sub-command, watches over it, and has it serve sample after sample.
//!
//! They are on this host, or in two network namespaces of it, or the server is on another host.

mod probe;
mod server;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command as Program, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire_sys::lan::Lan;
use barewire_sys::process::{
    SpawnOpts, cpu_time_self, let_process_trace, may_read_process, pidfd_open, pin_to_cpu,
    raise_nofile_limit, spawn_with,
};
use rustix::event::{PollFd, PollFlags};

use crate::case::{ChannelSpec, Waiting, Work};
use crate::channel::control::{Command, Control, LONGEST_SILENCE, Reply};
use crate::channel::ends::{ClientEnd, Context, Measured};
use crate::channel::shared_memory::share;
use crate::error::{Error, Result, What};
use crate::measure::clock::Clock;
use crate::measure::spin::{set_shared_processor, shared_processor};
use crate::measure::stats::Scratch;
use crate::placement::Placement;
use crate::transport::open_client;
use probe::{PROBE_BYTES, Probe};

pub use server::{VERSION, serve, serve_peers};

/// The first argument of the process that serves samples.
pub const SERVER: &str = "bench-server";

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the network of the client.
    Here,
    /// Both are in a network namespace of their own, with a cable between them.
    Namespaces,
    /// Where `bench serve` listens at this `HOST:PORT`.
    Peer(String),
}

impl Place {
    /// In words, for the environment record; nothing if it is here.
    pub fn describe(&self) -> String {
        match self {
            Place::Here => String::new(),
            Place::Namespaces => "two network namespaces with a veth pair".to_owned(),
            Place::Peer(address) => format!("the server at {address}"),
        }
    }
}

/// What the watching thread and the measuring one tell each other.
#[derive(Debug)]
struct Watch {
    started: Instant,
    finished: AtomicBool,
    /// Milliseconds after `started` of the last step.
    last_step_ms: AtomicU64,
    doing: Mutex<String>,
}

impl Watch {
    fn step(&self, doing: &str) {
        // Relaxed: only this number is told, to a thread that looks every few seconds.
        self.last_step_ms
            .store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
        if let Ok(mut now) = self.doing.lock() {
            doing.clone_into(&mut now);
        }
    }

    fn doing(&self) -> String {
        self.doing
            .lock()
            .map_or_else(|_| String::new(), |doing| doing.clone())
    }
}

/// Ends this process with a clear message when the server dies, or when nothing moves:
/// the measuring thread may be spinning or asleep in a place that nothing else reaches.
fn watch_over(pidfd: Option<&OwnedFd>, watch: &Watch) {
    let timeout = rustix::event::Timespec {
        tv_sec: 2,
        tv_nsec: 0,
    };
    loop {
        let mut fds: Vec<PollFd<'_>> = pidfd
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let dead = matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..));
        // Acquire pairs with the Release of `Session::drop`.
        if watch.finished.load(Ordering::Acquire) {
            return;
        }
        // Relaxed: see `Watch::step`.
        let last = Duration::from_millis(watch.last_step_ms.load(Ordering::Relaxed));
        let stuck = watch.started.elapsed().saturating_sub(last) > LONGEST_SILENCE;
        if dead {
            // Its own message, if it has one, should come first; and the measuring
            // thread may be about to report the same.
            std::thread::sleep(Duration::from_millis(200));
            if watch.finished.load(Ordering::Acquire) {
                return;
            }
            eprintln!(
                "barewire: the server process died during: {}",
                watch.doing()
            );
            std::process::exit(1);
        }
        if stuck {
            eprintln!(
                "barewire: no progress for {} seconds during: {}",
                LONGEST_SILENCE.as_secs(),
                watch.doing()
            );
            // The server goes with this process: its death signal is set.
            std::process::exit(1);
        }
    }
}

/// The measuring process with its server.
pub struct Session {
    control: Control,
    /// The server, unless it is on another host.
    child: Option<Child>,
    /// Unless the server is on another host.
    probe: Option<Probe>,
    probe_ns: u64,
    context: Context,
    channels: HashMap<usize, Box<dyn ClientEnd>>,
    watch: Arc<Watch>,
    descriptors: u64,
    /// Holds the namespaces.
    _lan: Option<Lan>,
}

/// A sample with all that is known about it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Nanoseconds per operation: the median where each was timed, else the mean.
    pub per_operation_ns: f64,
    /// The probes before and after; `None` if the server is on another host, which shares no cache line.
    pub probes_ns: Option<(f64, f64)>,
    /// Picoseconds per operation of short stretches, where the server measured.
    pub stretches_ps: Option<Vec<u64>>,
    /// Processor time as a percentage of the sample: client, server.
    pub cpu_percent: (f64, f64),
    /// Another program had one of the processors for a while, though both ends spun.
    pub disturbed: bool,
}

/// Two ends that spin use so much of their processors, if they have them to themselves.
const UNDISTURBED_PERCENT: f64 = 90.0;

impl Session {
    /// Starts the server on this host and takes up the places.
    pub fn start(placement: Placement, probe_ns: u64) -> Result<Session> {
        Session::start_at(&Place::Here, placement, probe_ns)
    }

    /// Starts or reaches the server and takes up the places. With namespaces, the calling thread stays in one.
    pub fn start_at(place: &Place, placement: Placement, probe_ns: u64) -> Result<Session> {
        let descriptors = raise_nofile_limit();
        let clock = Clock::calibrate();
        let lan = match place {
            Place::Namespaces => Some(Lan::pair().map_err(no_namespaces)?),
            Place::Here | Place::Peer(_) => None,
        };
        let (control, child) = match place {
            Place::Peer(address) => (reach_server(address)?, None),
            Place::Here | Place::Namespaces => {
                let (control, child) = start_server(lan.as_ref())?;
                (control, Some(child))
            }
        };
        let watch = start_watch(child.as_ref());
        let shared_processor = placement == Placement::OneProcessor;
        set_shared_processor(shared_processor && child.is_some());
        let mut cpu = None;
        if let Placement::Pinned(client, server) = placement {
            pin_to_cpu(client).map_err(|error| Error::Transport(error.to_string()))?;
            cpu = Some(server);
        }
        control.send(&Command::Hello {
            version: VERSION.to_owned(),
            cpu,
            shared_processor,
            listens_at: control.server_address(),
        })?;
        let probe = match control.is_here() {
            true => Some(Probe::new(&share(
                "barewire-bench-probe",
                PROBE_BYTES,
                &control,
            )?)?),
            false => None,
        };
        control.expect_ready()?;
        Ok(Session {
            control,
            child,
            probe,
            probe_ns,
            context: Context {
                clock,
                scratch: Scratch::default(),
            },
            channels: HashMap::new(),
            watch,
            descriptors,
            _lan: lan,
        })
    }

    /// How many descriptors this process may have.
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Has both processes read each other's memory, if the kernel allows it.
    pub fn allow_kernel_copy(&self) -> Result<()> {
        let id = self.child.as_ref().map_or(u32::MAX, Child::id);
        let server = i32::try_from(id).unwrap_or(i32::MAX);
        let_process_trace(server);
        may_read_process(server).map_err(|error| Error::Transport(error.to_string()))
    }

    /// The clock, and the histogram of the last sample.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Opens a channel under a number.
    pub fn open(&mut self, id: usize, spec: &ChannelSpec) -> Result<()> {
        self.watch.step(&format!(
            "opening {} connections of {}",
            spec.connections(),
            spec.transport.name()
        ));
        let command = Command::Open {
            id,
            spec: spec.clone(),
        };
        self.control.send(&command)?;
        let end = open_client(spec, &self.control)?;
        self.control.expect_ready()?;
        self.channels.insert(id, end);
        Ok(())
    }

    /// Closes a channel.
    pub fn close(&mut self, id: usize) -> Result<()> {
        self.watch.step("closing a channel");
        if let Some(end) = self.channels.remove(&id) {
            drop(end);
            self.control.send(&Command::Close { id })?;
            self.control.expect_ready()?;
        }
        Ok(())
    }

    /// Probe, sample, probe.
    pub fn sample(&mut self, id: usize, work: &Work, doing: &str) -> Result<Sample> {
        self.watch.step(doing);
        self.control.send(&Command::Sample { id, work: *work })?;
        let clock = self.context.clock;
        let before = self.measure_probe()?;
        let (cpu, wall) = (cpu_time_self(), Instant::now());
        let end = self
            .channels
            .get_mut(&id)
            .ok_or_else(|| Error::Transport(format!("{doing}: its channel is not open")))?;
        let measured = end.measure(work, &mut self.context)?;
        let (cpu, wall) = (cpu_time_self().saturating_sub(cpu), wall.elapsed());
        let after = self.measure_probe()?;
        let served = match self.control.reply()? {
            (Reply::Served(served), _) => served,
            (other, _) => return Err(Error::Peer(format!("unexpected reply {other:?}"))),
        };
        let per_operation_ns = match measured {
            _ if !work.test.is_rate() => {
                let scratch = &self.context.scratch;
                clock.fractional_nanoseconds(scratch.median_cycles(clock.granularity()))
            }
            Measured::Client {
                operations,
                elapsed_ns,
            } => elapsed_ns / operations.max(1) as f64,
            Measured::Server => served.elapsed_ns / served.operations.max(1) as f64,
        };
        let stretches_ps = matches!(measured, Measured::Server).then_some(served.stretches_ps);
        let cpu_percent = (
            percent(cpu.as_nanos() as f64, wall.as_nanos() as f64),
            percent(served.cpu_ns as f64, served.wall_ns as f64),
        );
        let least = cpu_percent.0.min(cpu_percent.1);
        Ok(Sample {
            per_operation_ns,
            probes_ns: before.zip(after),
            stretches_ps,
            cpu_percent,
            disturbed: work.waiting == Waiting::Polling
                && !shared_processor()
                && least < UNDISTURBED_PERCENT,
        })
    }

    /// A probe alone, around something that other programs do.
    pub fn probe_alone(&mut self, doing: &str) -> Result<f64> {
        self.watch.step(doing);
        self.control.send(&Command::Probe)?;
        let probe = self.measure_probe()?;
        self.control.expect_ready()?;
        self.watch.step(doing);
        probe.ok_or_else(|| Error::Transport("a probe of another host".into()))
    }

    /// One probe, if the server shares this host's memory.
    fn measure_probe(&mut self) -> Result<Option<f64>> {
        let clock = self.context.clock;
        let probe = self.probe.as_mut();
        probe
            .map(|probe| probe.measure(&clock, self.probe_ns))
            .transpose()
    }

    /// Adds to an error what became of the server.
    pub fn explain(&mut self, error: Error) -> Error {
        let doing = self.watch.doing();
        // A server that is just dying may need a moment to be dead.
        std::thread::sleep(Duration::from_millis(50));
        match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Error::Peer(format!("it died ({status}) during: {doing}")),
            _ => Error::Transport(format!("{doing}: {error}")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `watch_over`.
        self.watch.finished.store(true, Ordering::Release);
        // The child that we started, by its own handle.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts the server process, in the second host of a LAN where there is one; the calling thread moves to the first.
fn start_server(lan: Option<&Lan>) -> Result<(Control, Child)> {
    let (mut control, far) = Control::pair()?;
    let mut program = Program::new("/proc/self/exe");
    program.arg(SERVER).stdin(Stdio::from(far));
    let options = SpawnOpts {
        pdeathsig: true,
        ..SpawnOpts::default()
    };
    let mut address = IpAddr::from(Ipv4Addr::LOCALHOST);
    let child = match lan.map(|lan| lan.hosts.as_slice()) {
        Some([first, second]) => {
            address = second.address.into();
            let spawned = second.net.visit(|| spawn_with(&mut program, options));
            first.net.enter().what("entering a network namespace")?;
            spawned.what("entering a network namespace")?
        }
        _ => spawn_with(&mut program, options),
    };
    control.set_server_address(address);
    Ok((control, child.what("starting the server process")?))
}

/// Connects to a `bench serve`.
fn reach_server(address: &str) -> Result<Control> {
    let stream = TcpStream::connect(address).what(&format!("connecting to {address}"))?;
    let server_address = stream.peer_addr().what("asking for the server's address")?;
    Control::over(stream, server_address.ip())
}

/// Has a thread end this process when the server dies or nothing moves.
fn start_watch(child: Option<&Child>) -> Arc<Watch> {
    let watch = Arc::new(Watch {
        started: Instant::now(),
        finished: AtomicBool::new(false),
        last_step_ms: AtomicU64::new(0),
        doing: Mutex::new("starting".to_owned()),
    });
    let pid = child.map(|child| i32::try_from(child.id()).unwrap_or(i32::MAX));
    let pidfd = pid.and_then(|pid| pidfd_open(pid).ok());
    // Without a descriptor of a server on this host there is nothing to wait on.
    if pidfd.is_some() || child.is_none() {
        let watch = Arc::clone(&watch);
        std::thread::spawn(move || watch_over(pidfd.as_ref(), &watch));
    }
    watch
}

fn no_namespaces(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Usage(
            "--namespaces makes two network namespaces and a cable between them, for which it needs root \
             (CAP_SYS_ADMIN and CAP_NET_ADMIN); without it both ends use the loopback interface"
                .into(),
        ),
        _ => Error::Os {
            what: "making two network namespaces and a cable between them (veth)".into(),
            source: error,
        },
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole * 100.0).min(100.0)
    } else {
        0.0
    }
}
