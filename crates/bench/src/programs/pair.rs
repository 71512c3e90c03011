//! Two processes of the micro-benchmarks, from the side of the one that asks them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::figure::Mode;
use super::launcher::Launcher;
use super::messages::{Answer, Ask, Done, Work};
use crate::error::{Error, Result, What};

/// The first argument of a small program of this benchmark.
pub const PROGRAM: &str = "bench-program";

/// Nothing that a process is asked takes so long.
const LONGEST: Duration = Duration::from_secs(120);

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// With the library or without.
    pub mode: Mode,
    /// On which processor; `None`: any.
    pub cpu: Option<usize>,
    /// Settings of the library; an empty value: without that setting.
    pub settings: &'a [(&'a str, &'a str)],
}

/// One process.
struct Peer {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(launcher: &Launcher, start: Start<'_>) -> Result<Peer> {
        let mut command = launcher.program(start.mode, Path::new("/proc/self/exe"));
        command.arg(PROGRAM);
        for (name, value) in start.settings {
            match value.is_empty() {
                true => command.env_remove(name),
                false => command.env(name, value),
            };
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = launcher.spawn(&mut command, start.cpu, None)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = pipes else {
            return Err(Error::Transport("a pipe is missing".into()));
        };
        Ok(Peer {
            child,
            to: Some(to),
            from: BufReader::new(from),
        })
    }

    fn ask(&mut self, ask: &Ask) -> Result<()> {
        let text = serde_json::to_string(ask)
            .map_err(|error| Error::Transport(format!("a command: {error}")))?;
        let to = self.to.as_mut();
        let to = to.ok_or_else(|| Error::Transport("a pipe is closed".into()))?;
        writeln!(to, "{text}")
            .and_then(|()| to.flush())
            .what("asking a program")
    }

    fn answer(&mut self) -> Result<Answer> {
        let timeout = Timespec {
            tv_sec: LONGEST.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&timeout)).what("waiting for a program")? == 0 {
            return Err(Error::Stuck(
                "a program of the benchmark",
                LONGEST.as_secs(),
            ));
        }
        let mut line = String::new();
        self.from
            .read_line(&mut line)
            .what("listening to a program")?;
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(why)) => Err(Error::Transport(why)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(Error::Transport(match self.child.try_wait() {
                Ok(Some(status)) => format!("a program of the benchmark died ({status})"),
                _ => "unexpected reply from a benchmark program".into(),
            })),
        }
    }

    fn done(&mut self) -> Result<Done> {
        match self.answer()? {
            Answer::Done(done) => Ok(done),
            other => Err(Error::Transport(format!("unexpected answer {other:?}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input is the end of its work; then it writes what it counted.
        self.to = None;
        super::launcher::end(&mut self.child, Duration::from_secs(3));
    }
}

/// Client and server.
pub struct Pair {
    client: Peer,
    server: Peer,
}

/// What both ends say of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// The one that connected.
    pub client: Done,
    /// The one that accepted.
    pub server: Done,
}

impl Both {
    /// Processor time of both.
    pub fn cpu_ns(&self) -> f64 {
        self.client.cpu_ns + self.server.cpu_ns
    }
}

impl Pair {
    /// Starts both.
    pub fn start(launcher: &Launcher, client: Start<'_>, server: Start<'_>) -> Result<Pair> {
        Ok(Pair {
            client: Peer::start(launcher, client)?,
            server: Peer::start(launcher, server)?,
        })
    }

    /// Has them do a piece of work over a new connection.
    pub fn play(&mut self, work: Work) -> Result<Both> {
        self.server.ask(&Ask::Listen)?;
        let port = match self.server.answer()? {
            Answer::Port(port) => port,
            other => return Err(Error::Transport(format!("unexpected answer {other:?}"))),
        };
        self.server.ask(&Ask::Serve(work))?;
        self.client.ask(&Ask::Play(port, work))?;
        let client = self.client.done()?;
        let server = self.server.done()?;
        Ok(Both { client, server })
    }

    /// Has the client alone do a piece of work.
    pub fn alone(&mut self, work: Work) -> Result<Done> {
        self.client.ask(&Ask::Play(0, work))?;
        self.client.done()
    }
}
