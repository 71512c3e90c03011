//! Programs that a stage starts: what is given to them, how long they may take, how they end.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::folder::Folder;
use crate::{ports, wait};

/// How often a process is asked whether it has ended.
const STEP: Duration = Duration::from_millis(4);
/// How long a server may take until it listens: a run-time system starts beside builds.
const LISTENS_S: u64 = 60;

/// A program that is about to be started.
pub struct Program<'stage> {
    folder: &'stage Folder,
    name: String,
    command: Command,
    input: Option<PathBuf>,
    reports: bool,
}

/// What a program that has ended had to say.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// The file that holds its standard output, for bytes that are no text.
    pub stdout_file: PathBuf,
    /// How long it ran.
    pub took: Duration,
    command: String,
}

impl<'stage> Program<'stage> {
    pub(crate) fn new(folder: &'stage Folder, file: &Path, preload: Option<&Path>) -> Self {
        let mut command = Command::new(file);
        command
            .current_dir(folder.path())
            .env_remove("LD_PRELOAD")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .process_group(0);
        if let Some(library) = preload {
            command
                .env("LD_PRELOAD", library)
                .env("BAREWIRE_SOCKETS_REPORT", folder.reports().join("%p"));
        }
        let name = file.file_name().unwrap_or(OsStr::new("program"));
        Self {
            folder,
            name: folder.log_name(&name.to_string_lossy()),
            command,
            input: None,
            reports: preload.is_some(),
        }
    }

    /// Adds words of the command line.
    pub fn args<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.command.args(words);
        self
    }

    /// Adds one word of the command line.
    pub fn arg(self, word: impl AsRef<OsStr>) -> Self {
        self.args([word])
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Preloads a file in front of the library; the same file alone where the library is not preloaded.
    pub fn preloaded_first(mut self, file: &Path) -> Self {
        let mut files = file.as_os_str().to_owned();
        let mut given = self.command.get_envs();
        if let Some((_, Some(library))) = given.find(|(name, _)| *name == "LD_PRELOAD") {
            files.push(" ");
            files.push(library);
        }
        self.command.env("LD_PRELOAD", files);
        self
    }

    /// Runs it as this user, to whom the stage must belong: [`Stage::give_to`](crate::Stage::give_to).
    pub fn user(mut self, user: Option<(u32, u32)>) -> Self {
        if let Some((uid, gid)) = user {
            self.command.uid(uid).gid(gid);
        }
        self
    }

    /// Gives it a file as standard input.
    pub fn input(mut self, file: impl Into<PathBuf>) -> Self {
        self.input = Some(file.into());
        self
    }

    /// No report is expected of it: it is static, or leaves by `_exit` or a signal.
    pub fn without_report(mut self) -> Self {
        self.reports = false;
        self
    }

    /// Starts it and leaves it running.
    #[must_use]
    pub fn start(mut self) -> Running<'stage> {
        let log = |ending: &str| self.folder.file(&format!("{}.{ending}", self.name));
        let (out, err) = (log("out"), log("err"));
        let input = match &self.input {
            Some(file) => File::open(file)
                .map(Stdio::from)
                .expect("the input can be opened"),
            None => Stdio::null(),
        };
        self.command
            .stdin(input)
            .stdout(File::create(&out).expect("a log can be made"))
            .stderr(File::create(&err).expect("a log can be made"));
        let shown = format!("{:?}", self.command);
        let started = Instant::now();
        let child = self
            .command
            .spawn()
            .unwrap_or_else(|e| panic!("{shown}: {e}"));
        self.folder.started(child.id());
        Running {
            folder: self.folder,
            child,
            out,
            err,
            started,
            reports: self.reports,
            is_over: false,
            command: shown,
        }
    }

    /// Runs it to its end, which must come within `limit_s` seconds.
    pub fn run(self, limit_s: u64) -> Output {
        self.start().wait(limit_s)
    }

    /// Runs it to its end, demands success, and gives its standard output.
    #[track_caller]
    pub fn text(self, limit_s: u64) -> String {
        self.run(limit_s).success().stdout
    }
}

impl Output {
    /// Demands that it ended well.
    #[track_caller]
    #[must_use]
    pub fn success(self) -> Self {
        assert!(
            self.status.success(),
            "{}\n{}\n--- stdout\n{}\n--- stderr\n{}",
            self.command,
            self.status,
            tail(&self.stdout),
            tail(&self.stderr)
        );
        self
    }
}

/// The last lines of a text, for a message.
fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(4000);
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at));
    from.map_or(text, |from| &text[from..])
}

/// A program that runs; it is killed, with its whole group, when this is dropped before its
/// end. What it leaves behind after its end is the scenario's to find.
pub struct Running<'stage> {
    folder: &'stage Folder,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    started: Instant,
    reports: bool,
    is_over: bool,
    command: String,
}

impl Running<'_> {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be asked")
            .is_none()
    }

    /// What it has written to its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.out)
    }

    /// What it has written to its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.err)
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a running program can be signalled");
    }

    /// Waits until its output holds `text`.
    #[track_caller]
    pub fn wait_for_text(&mut self, text: &str, limit_s: u64) {
        let what = format!("{text:?} from {}", self.command);
        wait::until(limit_s, &what, || {
            self.stdout().contains(text) || self.stderr().contains(text)
        });
    }

    /// Waits until something accepts TCP connections at `address:port`.
    #[track_caller]
    pub fn wait_for_port(&mut self, address: &str, port: u16) {
        let address: std::net::IpAddr = address.parse().expect("an address");
        let deadline = Instant::now() + Duration::from_secs(LISTENS_S);
        let connected = wait::poll_until(deadline, STEP, || {
            let connected = std::net::TcpStream::connect((address, port)).ok();
            let ended = self.child.try_wait().expect("a child can be asked");
            if let (None, Some(status)) = (&connected, ended) {
                panic!(
                    "{}\nended too early: {status}\n{}",
                    self.command,
                    self.stderr()
                );
            }
            connected
        });
        assert!(connected.is_some(), "{}\ndoes not accept", self.command);
    }

    /// Waits until somebody listens at a TCP port, without connecting to it: for programs that
    /// take one connection only.
    #[track_caller]
    pub fn wait_for_listener(&self, port: u16) {
        let what = format!("a listener: {}", self.command);
        wait::until(LISTENS_S, &what, || {
            ports::local().contains(&(port, ports::LISTEN))
        });
    }

    /// Waits for its end, which must come within `limit_s` seconds of its start.
    #[track_caller]
    pub fn wait(mut self, limit_s: u64) -> Output {
        let deadline = self.started + Duration::from_secs(limit_s);
        let status = self.wait_until(deadline);
        let Some(status) = status else {
            panic!(
                "{}\ntook longer than {limit_s} s\n--- stdout\n{}\n--- stderr\n{}",
                self.command,
                tail(&self.stdout()),
                tail(&self.stderr())
            );
        };
        self.ended(status)
    }

    /// Has it end by a signal, within `limit_s` seconds from now.
    #[track_caller]
    pub fn stop(mut self, signal: Signal, limit_s: u64) -> Output {
        self.signal(signal);
        let deadline = Instant::now() + Duration::from_secs(limit_s);
        let Some(status) = self.wait_until(deadline) else {
            panic!(
                "{}\nstill runs {limit_s} s after {signal:?}\n--- stderr\n{}",
                self.command,
                tail(&self.stderr())
            );
        };
        self.ended(status)
    }

    fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        wait::poll_until(deadline, STEP, || {
            self.child.try_wait().expect("a child can be asked")
        })
    }

    fn ended(mut self, status: ExitStatus) -> Output {
        self.is_over = true;
        if self.reports && status.signal().is_none() {
            let report = self.folder.reports().join(self.child.id().to_string());
            assert!(
                report.exists(),
                "{}\nwas preloaded and left no report",
                self.command
            );
        }
        Output {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            stdout_file: self.out.clone(),
            took: self.started.elapsed(),
            command: self.command.clone(),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The group outlives its first process; where nothing of it is left, all is well.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}
