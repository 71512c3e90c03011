//! `barewire run` where the caller, or who wrote the settings, has other rights.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::common::{barewire, library};
use super::{BAREWIRE, Folder, run, skip, text};

/// A user that nobody is.
const NOBODY: u32 = 12_345;

#[test]
fn settings_of_another_user_are_not_read() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give a file to another user");
    }
    let folder = Folder::new("settings-of-another");
    std::fs::create_dir_all(folder.0.join("barewire")).unwrap();
    let file = folder.file("barewire/sockets.toml", "spin = 1", 0o644);
    let begun = || {
        let mut command = barewire(&["run", "true"]);
        command.env("XDG_CONFIG_HOME", &folder.0).output().unwrap()
    };
    assert_eq!(begun().status.code(), Some(125), "one's own are read");
    std::os::unix::fs::chown(&file, Some(NOBODY), None).unwrap();
    assert_eq!(begun().status.code(), Some(0));
    // One that is named is read, whoever's it is.
    let named = run(&["--config", &file, "true"]);
    assert_eq!(named.status.code(), Some(125));
    // Nor is one waited for.
    std::fs::remove_file(&file).unwrap();
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::chown(&file, Some(NOBODY), None).unwrap();
    assert_eq!(begun().status.code(), Some(0));
}

#[test]
fn a_command_with_more_rights_than_its_caller_runs_nothing() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make a program with other rights");
    }
    let folder = Folder::new("rights");
    let copy = folder.path("barewire");
    std::fs::copy(BAREWIRE, &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).unwrap();
    let mut command = Command::new(&copy);
    command.args(["run", "sh", "-c", "id -u"]).env_clear();
    let output = command
        .env("BAREWIRE_SOCKETS_LIB", library())
        .env("PATH", "/usr/bin:/bin")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    if text(&output.stdout).trim() == NOBODY.to_string() {
        return skip("the folder for temporary files honours no set-user-id bit");
    }
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("has more rights"));
}
