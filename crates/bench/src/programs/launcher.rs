//! Where the programs run: a folder that goes away, a copy of the library in it that every
//! user may read, and what starts programs and ends them.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use barewire_sys::process::{Signal, SpawnOpts, send_signal, spawn_with};

use super::figure::Mode;
use super::load;
use crate::error::{Error, Result, What};

/// No program of a scenario takes so long.
const LONGEST: Duration = Duration::from_secs(120);

/// The setting of the library by which it writes a line at a program's end.
pub const REPORT_VARIABLE: &str = "BAREWIRE_SOCKETS_REPORT";
/// Those lines go here.
const REPORTS: &str = "reports";

/// Names of folders begin so.
const PREFIX: &str = "barewire-programs-";

/// A user and group to run as.
pub type User = Option<(u32, u32)>;

/// The folder, and the library.
pub struct Launcher {
    folder: PathBuf,
    library: PathBuf,
}

impl Launcher {
    /// Makes the folder, with a copy of the library.
    pub fn new(library: &Path) -> Result<Launcher> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the numbers matter.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        remove_folders_of_ended_processes();
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let copy = folder.join("libbarewire_sockets.so");
        let make = || -> std::io::Result<()> {
            fs::create_dir(&folder)?;
            fs::create_dir(folder.join(REPORTS))?;
            fs::set_permissions(folder.join(REPORTS), fs::Permissions::from_mode(0o777))?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
            fs::copy(library, &copy)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))
        };
        make().what(&format!("making {}", folder.display()))?;
        Ok(Launcher {
            folder,
            library: copy,
        })
    }

    /// A place in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// A place of one mode.
    pub fn path_of(&self, mode: Mode, name: &str) -> PathBuf {
        self.path(match mode {
            Mode::Plain => format!("plain-{name}"),
            Mode::Preloaded => format!("preloaded-{name}"),
        })
    }

    /// Writes a file.
    pub fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
        fs::write(path, content).what(&format!("writing {}", path.display()))
    }

    /// Makes a folder, for a user.
    pub fn make_folder(&self, path: &Path, user: User) -> Result<()> {
        fs::create_dir_all(path).what(&format!("making {}", path.display()))?;
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).what("giving a folder away")?;
        }
        Ok(())
    }

    /// A program, with the library or without, that starts in the folder and is heard and
    /// seen by nobody.
    pub fn program(&self, mode: Mode, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env_remove("LD_PRELOAD");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if mode == Mode::Preloaded {
            command.env("LD_PRELOAD", &self.library);
            command.env(REPORT_VARIABLE, self.path(REPORTS).join("%p"));
        }
        command
    }

    /// Starts a program, which dies with us; on one processor, or as another user.
    pub fn spawn(&self, command: &mut Command, cpu: Option<usize>, user: User) -> Result<Child> {
        let options = SpawnOpts {
            pdeathsig: true,
            pin: cpu,
            uid_gid: user,
        };
        let name = command.get_program().to_string_lossy().into_owned();
        spawn_with(command, options).what(&format!("starting {name}"))
    }

    /// Starts a server, and waits until it listens.
    pub fn server(&self, command: &mut Command, port: u16, user: User) -> Result<Server> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log = self.path(format!("log-{port}"));
        let file = fs::File::create(&log).what("making a log")?;
        command
            .stderr(file.try_clone().what("making a log")?)
            .stdout(file);
        let child = self.spawn(command, None, user)?;
        let mut server = Server { child };
        let begin = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = server.child.try_wait().what("looking after a server")?;
            if ended.is_some() || begin.elapsed() > LONGEST {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("nothing");
                return Err(Error::Transport(format!(
                    "{name} does not listen; its last output: {last}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Runs a program to its end; gives what it said.
    pub fn run(&self, command: &mut Command, user: User) -> Result<String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log = self.path("said");
        let file = fs::File::create(&log).what("making a log")?;
        command
            .stderr(file.try_clone().what("making a log")?)
            .stdout(file);
        let mut child = self.spawn(command, None, user)?;
        let begin = Instant::now();
        let status = loop {
            match child.try_wait().what("waiting for a program")? {
                Some(status) => break status,
                None if begin.elapsed() > LONGEST => {
                    end(&mut child, Duration::ZERO);
                    return Err(Error::Transport(format!(
                        "{name} did not end within {} s",
                        LONGEST.as_secs()
                    )));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let said = fs::read(&log).what("reading what a program said")?;
        let said = String::from_utf8_lossy(&said).into_owned();
        if status.success() {
            return Ok(said);
        }
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        Err(Error::Transport(format!(
            "{name} failed ({status}): {}",
            last.into_iter().rev().collect::<Vec<_>>().join(" | ")
        )))
    }

    /// A port that nobody listens on.
    pub fn free_port(&self) -> Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).what("looking for a port")?;
        Ok(listener.local_addr().what("looking for a port")?.port())
    }

    /// What the preloaded programs that have ended counted since the last call.
    pub fn counted(&self) -> Counted {
        let mut all = Counted::default();
        let Ok(files) = fs::read_dir(self.path(REPORTS)) else {
            return all;
        };
        for file in files.flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            text.lines().for_each(|line| all.add(line));
            let _ = fs::remove_file(file.path());
        }
        all
    }
}

/// Folders of runs that were killed: their names hold the process's id.
fn remove_folders_of_ended_processes() {
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let id = id.and_then(|id| id.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What preloaded programs counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Ends of connections that were upgraded.
    pub upgraded: u64,
    /// Bytes put into shared memory.
    pub ring_bytes: u64,
}

impl Counted {
    fn add(&mut self, line: &str) {
        let field = |name: &str| {
            let value = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix(name));
            value.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
        };
        self.upgraded += field("upgraded=");
        self.ring_bytes += field("ring_bytes_out=");
    }
}

/// A server that runs; dropping it ends it.
pub struct Server {
    child: Child,
}

impl Server {
    /// Processor time of it and its children so far.
    pub fn cpu_ns(&self) -> f64 {
        load::family_ns(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = send_signal(pid(self.child.id()), Signal::Term);
        end(&mut self.child, Duration::from_secs(10));
    }
}

fn pid(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

/// Waits for a child's end; after so long, ends it and its children by their ids.
pub fn end(child: &mut Child, grace: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < grace {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let children = load::children(child.id());
    let _ = child.kill();
    for child in children {
        let _ = send_signal(pid(child), Signal::Kill);
    }
    let _ = child.wait();
}

/// Where a program is, among the folders of the environment and those of administrators.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher() -> Launcher {
        // Any file stands for the library where nothing is preloaded.
        Launcher::new(Path::new("/proc/self/status")).unwrap()
    }

    #[test]
    fn programs_run_and_the_folder_goes_away() {
        let launcher = launcher();
        let sh = installed("sh").unwrap();
        let mut command = launcher.program(Mode::Plain, &sh);
        let said = launcher
            .run(command.args(["-c", "echo here; pwd"]), None)
            .unwrap();
        assert!(
            said.starts_with("here\n") && said.contains("barewire-programs"),
            "{said}"
        );
        let mut command = launcher.program(Mode::Plain, &sh);
        let error = launcher
            .run(command.args(["-c", "echo why; exit 3"]), None)
            .unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        let folder = launcher.folder.clone();
        drop(launcher);
        assert!(!folder.exists());
        assert_eq!(installed("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_server_that_never_listens_is_reported() {
        let launcher = launcher();
        let mut command = launcher.program(Mode::Plain, installed("sh").unwrap());
        command.args(["-c", "echo no; exit 1"]);
        let port = launcher.free_port().unwrap();
        let Err(error) = launcher.server(&mut command, port, None) else {
            panic!("it listens");
        };
        assert!(error.to_string().contains("its last output: no"), "{error}");
    }

    #[test]
    fn counts_of_programs_are_added_up() {
        let launcher = launcher();
        let line = "upgraded=3 ring_bytes_out=500 ring_bytes_in=1 stepped_back=0 refused=0 pid=1\n";
        launcher.write(&launcher.path("reports/1"), line).unwrap();
        launcher.write(&launcher.path("reports/2"), line).unwrap();
        let counted = launcher.counted();
        assert_eq!((counted.upgraded, counted.ring_bytes), (6, 1000));
        assert_eq!(launcher.counted(), Counted::default());
    }
}
