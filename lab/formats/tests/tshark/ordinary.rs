//! Wireshark's programs, run as an ordinary user in a folder that such a user can reach:
//! started by root, Wireshark 4.4 loads no script. Also for the tests of other crates.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The user `nobody`, by whom the programs are run if we are root.
const NOBODY: u32 = 65_534;

/// The script under test, and its name in the folder.
const SCRIPT: &str = include_str!("../../../../docs/wireshark/barewire.lua");
const SCRIPT_NAME: &str = "barewire.lua";

/// The argument that has the script loaded.
pub const SCRIPT_ARGUMENTS: [&str; 2] = ["-X", "lua_script:barewire.lua"];

/// The user to become: none if we are an ordinary user already, or can not become another.
fn other_user() -> Option<u32> {
    static USER: OnceLock<Option<u32>> = OnceLock::new();
    *USER.get_or_init(|| {
        let is_root = fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
        let mut trial = Command::new("true");
        trial.uid(NOBODY).gid(NOBODY).stdout(Stdio::null());
        (is_root && trial.status().is_ok_and(|it| it.success())).then_some(NOBODY)
    })
}

/// A folder for the programs' files, with the script in it; removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it, in the folder for temporary files: the one for builds may be private.
    pub fn new(name: &str) -> Self {
        let name = format!("barewire-tshark-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).unwrap();
        fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
        if let Some(user) = other_user() {
            chown(&folder.0, Some(user), Some(user)).unwrap();
        }
        folder.write(SCRIPT_NAME, SCRIPT.as_bytes());
        folder
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that the programs can read.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o644)).unwrap();
    }

    /// One of the programs, in this folder. Neither the settings of the user nor those of
    /// the system are read.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env("WIRESHARK_CONFIG_DIR", &self.0)
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        if let Some(user) = other_user() {
            command.uid(user).gid(user);
        }
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Kept if the test fails.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
