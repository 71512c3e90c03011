//! Processes that a scenario has left behind.
//!
//! A program may leave its group, its session and its parent, and overwrite its environment;
//! so a process is one of ours if any of these still points to the stage: its environment,
//! its working directory, its program, one of its open files or maps, or its group.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// What is left of a stage in `folder` whose processes were of the groups `groups`: the ids,
/// each with its command line.
fn find(folder: &Path, groups: &[u32]) -> Vec<(u32, String)> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != own && is_running(pid) && is_ours(pid, folder, groups))
        .map(|pid| (pid, command_of(pid)))
        .collect()
}

/// The fields of `/proc/PID/stat` behind the name, which may hold any character.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.rsplit_once(')')?.1;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}

/// Not so for a zombie, which waits for its parent only.
fn is_running(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

fn is_ours(pid: u32, folder: &Path, groups: &[u32]) -> bool {
    let group = stat_fields(pid).and_then(|fields| fields.get(2)?.parse().ok());
    if group.is_some_and(|group| groups.contains(&group)) {
        return true;
    }
    let proc = Path::new("/proc").join(pid.to_string());
    let points_here = |link: &Path| fs::read_link(link).is_ok_and(|to| to.starts_with(folder));
    let holds_name = |file: &str| {
        let name = folder.as_os_str().as_encoded_bytes();
        fs::read(proc.join(file)).is_ok_and(|text| text.windows(name.len()).any(|w| w == name))
    };
    let opened = fs::read_dir(proc.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    points_here(&proc.join("cwd"))
        || points_here(&proc.join("exe"))
        || opened.into_iter().any(|entry| points_here(&entry.path()))
        || holds_name("environ")
        || holds_name("maps")
}

fn command_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line)
        .replace('\0', " ")
        .trim()
        .to_owned()
}

/// Waits a while for the last ones to end; those that do not are ended and named.
pub(crate) fn end(folder: &Path, groups: &[u32], patience: Duration) -> Vec<String> {
    let deadline = Instant::now() + patience;
    let mut left = Vec::new();
    wait::poll_until(deadline, Duration::from_millis(20), || {
        left = find(folder, groups);
        left.is_empty().then_some(())
    });
    for &(pid, _) in &left {
        // One that has ended meanwhile needs no signal.
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    left.into_iter()
        .map(|(pid, command)| format!("{pid}: {command}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_is_left_is_found_and_ended() {
        let folder = std::env::temp_dir().join(format!("barewire-left-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut one = Command::new("sleep")
            .arg("100")
            .current_dir(&folder)
            .spawn()
            .unwrap();
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let left = end(&folder, &[], Duration::ZERO);
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].contains("sleep 100"), "{left:?}");
        assert!(!one.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(end(&folder, &[], Duration::ZERO).is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
