//! The two processes: the measuring one starts the server, which is the same program
//! with a hidden sub-command, watches over it, and has it serve sample after sample.

mod probe;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command as Program, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire_sys::process::{
    SpawnOpts, cpu_time_self, let_process_trace, may_read_process, pidfd_open, pin_to_cpu,
    raise_nofile_limit, set_parent_death_signal_kill, spawn_with,
};
use rustix::event::{PollFd, PollFlags};

use crate::case::{ChannelSpec, Waiting, Work};
use crate::channel::control::{Command, Control, Reply, Served};
use crate::channel::ends::{ClientEnd, Context, Measured, ServerEnd};
use crate::channel::shared_memory::{share, take_share};
use crate::error::{Error, Result, What};
use crate::measure::clock::Clock;
use crate::measure::spin::{set_shared_processor, shared_processor};
use crate::measure::stats::Scratch;
use crate::placement::Placement;
use crate::transport::{open_client, open_server};
use probe::Probe;

/// The first argument of the process that serves samples.
pub const SERVER: &str = "bench-server";

/// Bytes of the memory that the probe uses.
const PROBE_BYTES: usize = 4096;

/// No step of a benchmark takes so long, whatever the machine does.
const LONGEST_STEP: Duration = Duration::from_secs(60);

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
fn watch_over(pidfd: &OwnedFd, watch: &Watch) {
    let timeout = rustix::event::Timespec {
        tv_sec: 2,
        tv_nsec: 0,
    };
    loop {
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        let dead = matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..));
        // Acquire pairs with the Release of `Session::drop`.
        if watch.finished.load(Ordering::Acquire) {
            return;
        }
        // Relaxed: see `Watch::step`.
        let last = Duration::from_millis(watch.last_step_ms.load(Ordering::Relaxed));
        let stuck = watch.started.elapsed().saturating_sub(last) > LONGEST_STEP;
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
                LONGEST_STEP.as_secs(),
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
    child: Child,
    probe: Probe,
    probe_ns: u64,
    context: Context,
    channels: HashMap<usize, Box<dyn ClientEnd>>,
    watch: Arc<Watch>,
    descriptors: u64,
}

/// A sample with all that is known about it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Nanoseconds per operation: the median where each was timed, else the mean.
    pub per_operation_ns: f64,
    /// The probes before and after.
    pub probes_ns: (f64, f64),
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
    /// Starts the server and takes up the places.
    pub fn start(placement: Placement, probe_ns: u64) -> Result<Session> {
        let descriptors = raise_nofile_limit();
        let clock = Clock::calibrate();
        let (control, far) = Control::pair()?;
        let mut program = Program::new("/proc/self/exe");
        program.arg(SERVER).stdin(Stdio::from(far));
        let options = SpawnOpts {
            pdeathsig: true,
            ..SpawnOpts::default()
        };
        let child = spawn_with(&mut program, options).what("starting the server process")?;
        // The command holds the server's end of the socket; it must not stay open here.
        drop(program);
        let watch = Arc::new(Watch {
            started: Instant::now(),
            finished: AtomicBool::new(false),
            last_step_ms: AtomicU64::new(0),
            doing: Mutex::new("starting".to_owned()),
        });
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        if let Ok(pidfd) = pidfd_open(pid) {
            let watch = Arc::clone(&watch);
            std::thread::spawn(move || watch_over(&pidfd, &watch));
        }
        let shared_processor = placement == Placement::OneProcessor;
        set_shared_processor(shared_processor);
        let mut cpu = None;
        if let Placement::Pinned(client, server) = placement {
            pin_to_cpu(client).map_err(|error| Error::Transport(error.to_string()))?;
            cpu = Some(server);
        }
        control.send(&Command::Hello {
            cpu,
            shared_processor,
        })?;
        let region = share("barewire-bench-probe", PROBE_BYTES, &control)?;
        control.expect_ready()?;
        Ok(Session {
            control,
            child,
            probe: Probe::new(&region)?,
            probe_ns,
            context: Context {
                clock,
                scratch: Scratch::default(),
            },
            channels: HashMap::new(),
            watch,
            descriptors,
        })
    }

    /// How many descriptors this process may have.
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Has both processes read each other's memory, if the kernel allows it.
    pub fn allow_kernel_copy(&self) -> Result<()> {
        let server = i32::try_from(self.child.id()).unwrap_or(i32::MAX);
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
        let end = self
            .channels
            .get_mut(&id)
            .ok_or_else(|| Error::Transport(format!("{doing}: its channel is not open")))?;
        self.control.send(&Command::Sample { id, work: *work })?;
        let clock = self.context.clock;
        let before = self.probe.measure(&clock, self.probe_ns)?;
        let (cpu, wall) = (cpu_time_self(), Instant::now());
        let measured = end.measure(work, &mut self.context)?;
        let (cpu, wall) = (cpu_time_self().saturating_sub(cpu), wall.elapsed());
        let after = self.probe.measure(&clock, self.probe_ns)?;
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
            probes_ns: (before, after),
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
        let clock = self.context.clock;
        let probe = self.probe.measure(&clock, self.probe_ns)?;
        self.control.expect_ready()?;
        self.watch.step(doing);
        Ok(probe)
    }

    /// Adds to an error what became of the server.
    pub fn explain(&mut self, error: Error) -> Error {
        let doing = self.watch.doing();
        // A server that is just dying may need a moment to be dead.
        std::thread::sleep(Duration::from_millis(50));
        match self.child.try_wait() {
            Ok(Some(status)) => Error::Peer(format!("it died ({status}) during: {doing}")),
            _ => Error::Transport(format!("{doing}: {error}")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `watch_over`.
        self.watch.finished.store(true, Ordering::Release);
        // The child that we started, by its own handle.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole * 100.0).min(100.0)
    } else {
        0.0
    }
}

/// The server process: what `barewire bench-server` does.
pub fn serve() -> Result<()> {
    set_parent_death_signal_kill().map_err(|error| Error::Transport(error.to_string()))?;
    let is_socket = rustix::net::sockopt::socket_type(std::io::stdin().as_fd());
    if is_socket.is_err() {
        return Err(Error::Usage(
            "bench-server is started by `barewire bench`, not by hand".into(),
        ));
    }
    let control = Control::inherited()?;
    // It was started by way of /proc/self/exe; `ps` and `barewire ls` shall say more.
    let _ = rustix::thread::set_name(c"bench-server");
    match serve_commands(&control) {
        Ok(()) => Ok(()),
        Err(error) => {
            let _ = control.send(&Reply::Failed(error.to_string()));
            Err(error)
        }
    }
}

fn serve_commands(control: &Control) -> Result<()> {
    raise_nofile_limit();
    let Some((
        Command::Hello {
            cpu,
            shared_processor,
        },
        _,
    )) = control.recv()?
    else {
        return Err(Error::Usage(
            "bench-server is started by `barewire bench`, not by hand".into(),
        ));
    };
    set_shared_processor(shared_processor);
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu).map_err(|error| Error::Transport(error.to_string()))?;
    }
    let mut context = Context {
        clock: Clock::calibrate(),
        scratch: Scratch::default(),
    };
    let mut probe = Probe::new(&take_share(PROBE_BYTES, control)?)?;
    control.send(&Reply::Ready)?;
    let mut channels: HashMap<usize, Box<dyn ServerEnd>> = HashMap::new();
    while let Some((command, _)) = control.recv()? {
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
                probe.serve()?;
                Reply::Ready
            }
            Command::Sample { id, work } => {
                let end = channels
                    .get_mut(&id)
                    .ok_or_else(|| Error::Transport("no such channel".into()))?;
                probe.serve()?;
                let (cpu, wall) = (cpu_time_self(), Instant::now());
                let served = end.serve(&work, &mut context)?;
                let (cpu, wall) = (cpu_time_self().saturating_sub(cpu), wall.elapsed());
                probe.serve()?;
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
