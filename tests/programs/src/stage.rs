//! Where a scenario plays once: a folder, ports, processes.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::folder::Folder;
use crate::installed::find;
use crate::mode::Mode;
use crate::process::{Output, Program};
use crate::why::{self, Whys};
use crate::{figures, ports, wait};

/// A fresh folder and what runs in it.
pub struct Stage {
    folder: Folder,
    mode: Mode,
    library: Option<PathBuf>,
    unix: bool,
    explains: bool,
    figures: RefCell<Vec<(String, f64)>>,
}

/// Below the ports that the kernel gives to clients.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

impl Stage {
    /// A stage for one mode. The library is copied into it, so that other users can load it.
    pub(crate) fn new(name: &str, mode: Mode, library: Option<&Path>, unix: bool) -> Self {
        let folder = Folder::new(name, mode);
        let library = library.map(|library| folder.copy_for_all(library, "preload.so"));
        Self {
            folder,
            mode,
            library,
            unix,
            explains: false,
            figures: RefCell::default(),
        }
    }

    /// Has the library say of each connection why it is not upgraded: [`whys`](Self::whys).
    pub(crate) fn explained(mut self) -> Self {
        self.explains = true;
        self
    }

    /// What is preloaded here.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The folder, which goes when the scenario passes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Writes a file in the folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("a file of ours can be written");
        path
    }

    /// Gives the folder to another user.
    pub fn give_to(&self, user: Option<(u32, u32)>) {
        if let Some((uid, gid)) = user {
            chown(self.folder(), Some(uid), Some(gid)).expect("root may give");
        }
    }

    /// The library that servers, or clients, are to preload here.
    #[must_use]
    pub fn preload_of(&self, is_server: bool) -> Option<&Path> {
        let is_on = match self.mode {
            Mode::Plain => false,
            Mode::Preloaded => true,
            Mode::ServerOnly => is_server,
            Mode::ClientOnly => !is_server,
        };
        self.library.as_deref().filter(|_| is_on)
    }

    /// A program that serves.
    #[must_use]
    pub fn server(&self, program: impl AsRef<Path>) -> Program<'_> {
        self.program(program.as_ref(), self.preload_of(true))
    }

    /// A program that connects to servers.
    #[must_use]
    pub fn client(&self, program: impl AsRef<Path>) -> Program<'_> {
        self.program(program.as_ref(), self.preload_of(false))
    }

    /// A program that is not looked at: never preloaded.
    #[must_use]
    pub fn tool(&self, program: impl AsRef<Path>) -> Program<'_> {
        self.program(program.as_ref(), None)
    }

    fn program(&self, program: &Path, preload: Option<&Path>) -> Program<'_> {
        let program = Program::new(&self.folder, &file_of(program), preload);
        match preload {
            Some(_) => self.settings(program),
            None => program,
        }
    }

    /// The settings of the library.
    fn settings<'stage>(&self, program: Program<'stage>) -> Program<'stage> {
        let program = program.env("BAREWIRE_UNIX", if self.unix { "1" } else { "0" });
        if self.explains {
            return program.env("BAREWIRE_WHY", self.folder.whys().join("%p"));
        }
        program
    }

    /// What the library has said of the connections of all processes that have ended.
    #[must_use]
    pub fn whys(&self) -> Whys {
        why::of_folder(&self.folder.whys())
    }

    /// Enters a figure: a rate, so that more is better.
    pub fn figure(&self, name: &str, value: f64) {
        self.figures.borrow_mut().push((name.to_owned(), value));
    }

    /// Enters the figures that a program has told on its standard error, as `figure: NAME: VALUE`.
    pub fn figures_of(&self, output: &Output) {
        let told = figures::in_text(&output.stderr);
        self.figures.borrow_mut().extend(told);
    }

    /// What was measured.
    pub(crate) fn figures(&self) -> Vec<(String, f64)> {
        self.figures.borrow().clone()
    }

    /// A port that nobody uses, on IPv4 and IPv6; nor does a connection of the past, which
    /// would keep a server out that does not ask for the reuse of addresses.
    #[must_use]
    pub fn free_port(&self) -> u16 {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let count = PORTS.end - PORTS.start;
        // Other test programs on this machine begin elsewhere.
        let first = (u64::from(std::process::id()) * 61 % u64::from(count)) as u16;
        let used = ports::local();
        for _ in 0..count {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % count;
            let port = PORTS.start + (first + step) % count;
            if used.iter().all(|&(taken, _)| taken != port) {
                return port;
            }
        }
        panic!("no port is free");
    }

    /// The first of so many ports in a row that nobody uses.
    #[must_use]
    pub fn free_ports(&self, count: u16) -> u16 {
        loop {
            let first = self.free_port();
            if (1..count).all(|more| self.free_port() == first + more) {
                return first;
            }
        }
    }

    /// Waits until something is so; `what` is for the message.
    #[track_caller]
    pub fn wait_until(&self, limit_s: u64, what: &str, is_so: impl FnMut() -> bool) {
        wait::until(limit_s, what, is_so);
    }

    pub(crate) fn reports(&self) -> PathBuf {
        self.folder.reports()
    }

    pub(crate) fn groups(&self) -> Vec<u32> {
        self.folder.groups()
    }
}

/// A path is taken as it is; a name is looked for.
fn file_of(program: &Path) -> PathBuf {
    if program.components().count() > 1 {
        return program.to_owned();
    }
    let name = program.to_string_lossy();
    find(&name).unwrap_or_else(|| panic!("{name} is not installed"))
}
