//! The folder of a scenario in one mode, with the logs and reports of its programs, and their
//! process groups.

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::mode::Mode;

/// The folder, and what was started in it.
pub(crate) struct Folder {
    path: PathBuf,
    groups: RefCell<Vec<u32>>,
    logs: Cell<u32>,
}

impl Folder {
    /// A fresh one.
    pub(crate) fn new(name: &str, mode: Mode) -> Self {
        // Not in the target folder: the path of a Unix socket is short, and a folder of root's
        // is closed to servers that refuse to be root. Of the same length in every mode: there
        // are programs that do other things where a path is too long.
        let name = format!("barewire-{}-{name}-{}", std::process::id(), mode.letter());
        let path = std::env::temp_dir().join(name);
        let folder = Self {
            path,
            groups: RefCell::default(),
            logs: Cell::new(0),
        };
        fs::create_dir_all(&folder.path).expect("a folder can be made");
        open(&folder.path, 0o755);
        for shared in [folder.reports(), folder.whys()] {
            fs::create_dir_all(&shared).expect("a folder can be made");
            open(&shared, 0o1777);
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Copies a file into it, so that other users can read and run it.
    pub(crate) fn copy_for_all(&self, file: &Path, name: &str) -> PathBuf {
        let copy = self.file(name);
        fs::copy(file, &copy).expect("a file can be copied");
        open(&copy, 0o755);
        copy
    }

    /// Where the library writes its reports.
    pub(crate) fn reports(&self) -> PathBuf {
        self.path.join("reports")
    }

    /// Where the library says of each connection why it is not upgraded.
    pub(crate) fn whys(&self) -> PathBuf {
        self.path.join("whys")
    }

    /// The process groups that were started here.
    pub(crate) fn groups(&self) -> Vec<u32> {
        self.groups.borrow().clone()
    }

    pub(crate) fn started(&self, group: u32) {
        self.groups.borrow_mut().push(group);
    }

    /// A name for the logs of one process.
    pub(crate) fn log_name(&self, program: &str) -> String {
        self.logs.set(self.logs.get() + 1);
        format!("{:02}-{program}", self.logs.get())
    }
}

fn open(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("ours");
}
