//! Processes for real: identity, processors, children and their ends.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use barewire_sys::SysError;
use barewire_sys::process::{
    Capability, Signal, SpawnOpts, allowed_cpus, cpu_time_self, drop_privileges, exe_path,
    fork_child, getpid, keep_capabilities, own_credentials, pidfd_open, pin_to_cpu, random_bytes,
    send_signal, set_parent_death_signal_kill, spawn_with,
};
use barewire_sys::socket::{Received, Socket};
use barewire_sys::wake::{Epoll, Interest};
use common::{LONG, eventually, fork_sleeper, holds_soon, sleep_long};

fn is_root() -> bool {
    own_credentials().uid == 0
}

/// The rest of a line of /proc/PID/status.
fn status(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_default()
        .trim_start_matches(':')
        .trim()
        .to_owned()
}

/// The state of a process or thread, by its file /proc/*/status.
fn state_in(file: &str) -> Option<char> {
    let text = fs::read_to_string(file).unwrap();
    status(&text, "State").chars().next()
}

#[test]
fn this_process_knows_itself() {
    let own = own_credentials();
    assert_eq!(own.pid, getpid());
    assert_eq!(own.pid as u32, std::process::id());
    let text = fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(
        status(&text, "Uid").split_whitespace().nth(1),
        Some(&*own.uid.to_string())
    );
    assert_eq!(exe_path().unwrap(), std::env::current_exe().unwrap());
    let (mut a, mut b) = ([0; 600], [0; 600]);
    random_bytes(&mut a).unwrap();
    random_bytes(&mut b).unwrap();
    random_bytes(&mut []).unwrap();
    assert_ne!(a, b);
}

#[test]
fn threads_can_be_pinned_to_allowed_processors() {
    std::thread::spawn(|| {
        let allowed = allowed_cpus();
        let last = *allowed.last().unwrap();
        pin_to_cpu(last).unwrap();
        assert_eq!(allowed_cpus(), [last]);
    })
    .join()
    .unwrap();
    for cpu in [1023, 1024, usize::MAX] {
        let refused = pin_to_cpu(cpu);
        assert!(
            matches!(refused, Err(SysError::InvalidArgument { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn processor_time_counts_work_and_not_sleep() {
    let before = cpu_time_self();
    let start = Instant::now();
    while cpu_time_self() - before < Duration::from_millis(5) {
        assert!(start.elapsed() < LONG);
        std::hint::spin_loop();
    }
}

#[test]
fn forked_children_run_end_and_can_be_killed() {
    let child = fork_child(|| 42).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
    assert_eq!(child.wait().unwrap().code(), Some(42));
    child.kill().unwrap();
    let panicking = fork_child(|| panic!("on purpose, in a child")).unwrap();
    assert_eq!(panicking.wait().unwrap().code(), Some(101));

    let sleeper = fork_sleeper();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let thread = fs::read_link("/proc/thread-self").unwrap();
            tell.send(format!("/proc/{}/status", thread.display()))
                .unwrap();
            sleeper.wait().unwrap()
        });
        let waiter_status = told.recv().unwrap();
        eventually("the thread waits", || state_in(&waiter_status) == Some('S'));
        sleeper.kill().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(waiter.join().unwrap().signal(), Some(9));
    });
    let by_child = fork_child(|| i32::from(child.wait().is_ok() && sleeper.kill().is_err()));
    assert_eq!(by_child.unwrap().wait().unwrap().code(), Some(1));

    let dropped = fork_sleeper();
    let pid = dropped.pid;
    drop(dropped);
    assert!(matches!(
        send_signal(pid, Signal::Cont),
        Err(SysError::NoSuchProcess { .. })
    ));
}

#[test]
fn processes_can_be_halted_and_go_on() {
    let child = fork_sleeper();
    let state = || state_in(&format!("/proc/{}/status", child.pid));
    send_signal(child.pid, Signal::Stop).unwrap();
    eventually("it is halted", || state() == Some('T'));
    send_signal(child.pid, Signal::Cont).unwrap();
    eventually("it goes on", || state() == Some('S'));
    send_signal(child.pid, Signal::Term).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn no_signal_goes_to_groups_or_nobody() {
    for pid in [0, -1, i32::MIN, i32::MAX] {
        let sent = send_signal(pid, Signal::Cont);
        assert!(
            matches!(sent, Err(SysError::NoSuchProcess { .. })),
            "{pid} {sent:?}"
        );
        let opened = pidfd_open(pid);
        assert!(opened.is_err(), "{pid}");
    }
}

#[test]
fn programs_start_with_user_and_processor() {
    let cpu = *allowed_cpus().last().unwrap();
    let uid_gid = is_root().then_some((65_534, 65_533));
    let opts = SpawnOpts {
        uid_gid,
        pdeathsig: true,
        pin: Some(cpu),
    };
    let mut command = Command::new("cat");
    command.arg("/proc/self/status").stdout(Stdio::piped());
    let output = spawn_with(&mut command, opts)
        .unwrap()
        .wait_with_output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(status(&text, "Cpus_allowed_list"), cpu.to_string());
    if is_root() {
        assert_eq!(status(&text, "Uid"), "65534\t65534\t65534\t65534");
        assert_eq!(status(&text, "Gid"), "65533\t65533\t65533\t65533");
        assert_eq!(status(&text, "Groups"), "");
    }
    for pin in [1023, 9999] {
        let opts = SpawnOpts {
            pin: Some(pin),
            ..SpawnOpts::default()
        };
        assert!(spawn_with(&mut Command::new("true"), opts).is_err());
    }
}

/// Has a child start a process by `start` and tell its pid, then end.
fn orphan_of(start: impl FnOnce() -> Option<i32>) -> i32 {
    let (ours, theirs) = Socket::pair().unwrap();
    let child = fork_child(|| match start() {
        Some(pid) => i32::from(theirs.send(&pid.to_ne_bytes(), &[]).is_err()),
        None => 2,
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
    let mut pid = [0; 4];
    assert_eq!(
        ours.recv(&mut pid, &mut Vec::new()).unwrap(),
        Received::Message(4)
    );
    i32::from_ne_bytes(pid)
}

fn ends(pid: i32) -> bool {
    let Ok(pidfd) = pidfd_open(pid) else {
        return true;
    };
    let epoll = Epoll::new().unwrap();
    epoll.add(&pidfd, 0, Interest::READ).unwrap();
    epoll.wait(&mut Vec::new(), Some(LONG)).unwrap() == 1
}

#[test]
fn children_die_with_their_parents_if_asked_to() {
    let pid = orphan_of(|| {
        let uid_gid = is_root().then_some((65_534, 65_533));
        let opts = SpawnOpts {
            pdeathsig: true,
            uid_gid,
            pin: None,
        };
        let child = spawn_with(Command::new("sleep").arg("60"), opts).ok()?;
        i32::try_from(child.id()).ok()
    });
    assert!(ends(pid));
    let pid = orphan_of(|| {
        let (ready, told) = Socket::pair().ok()?;
        let child = fork_child(|| {
            let set = set_parent_death_signal_kill().is_ok();
            let _ = told.send(&[u8::from(set)], &[]);
            sleep_long()
        });
        let child = std::mem::ManuallyDrop::new(child.ok()?);
        let mut set = [0];
        let came = holds_soon(|| ready.recv(&mut set, &mut Vec::new()) == Ok(Received::Message(1)));
        (came && set == [1]).then_some(child.pid)
    });
    assert!(ends(pid));
}

#[test]
fn privileges_are_dropped_for_good() {
    let child = fork_child(|| {
        let root = is_root();
        let dropped = drop_privileges(65_534, 65_533);
        let own = own_credentials();
        let as_told = (own.uid, own.gid) == (65_534, 65_533);
        let denied = |r| matches!(r, Err(SysError::PermissionDenied { .. }));
        i32::from(if root {
            dropped.is_ok() && as_told && denied(drop_privileges(0, 0))
        } else {
            denied(dropped)
        })
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(1));
}

#[test]
fn capabilities_are_dropped_for_good() {
    let shown = |keys: [&str; 5]| {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        keys.map(|key| u64::from_str_radix(&status(&text, key), 16).unwrap())
    };
    let keys = ["CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"];
    // They belong to a thread: this one ends with the test.
    let of_thread = std::thread::spawn(move || {
        let before = shown(keys);
        keep_capabilities(&[Capability::NetAdmin, Capability::NetRaw]).unwrap();
        let first = shown(keys);
        keep_capabilities(&[]).unwrap();
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        (before, first, shown(keys), status(&text, "NoNewPrivs"))
    });
    let (before, first, second, no_new) = of_thread.join().unwrap();
    // CAP_NET_ADMIN is number 12, CAP_NET_RAW 13.
    let kept = before[1] & (1 << 12 | 1 << 13);
    assert_eq!(first[..4], [kept, kept, 0, 0]);
    assert_eq!(second[..4], [0; 4]);
    assert_eq!(no_new, "1");
    if is_root() && before[0] & (1 << 8) != 0 {
        assert_eq!(first[4], 0, "{:x}", first[4]);
    }
}
