//! `barewire enable` and `disable`: on the files of a system in a folder, which `systemd-analyze` reads where it is there.

#[path = "common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const DROPIN: &str = "etc/systemd/system/demo.service.d/50-barewire.conf";
const LIBRARY: &str = "/usr/lib/barewire/libbarewire_sockets.so";

/// The files of a system, removed afterwards.
struct System(PathBuf);

impl System {
    /// With a service `demo` whose section `[Service]` has these lines as well.
    fn new(of: &str, lines: &str) -> System {
        let name = format!("barewire-cli-service-{}-{of}", std::process::id());
        let system = System(std::env::temp_dir().join(name));
        system.write(
            "usr/lib/systemd/system/demo.service",
            &format!("[Unit]\nDescription=Demo\n[Service]\nExecStart=/usr/bin/demo\n{lines}"),
        );
        system.write(LIBRARY, "");
        system
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.join(path)).unwrap()
    }

    /// All files, in order.
    fn files(&self) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.clone());
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(arguments)
            .arg("--root")
            .arg(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("barewire starts")
    }

    fn enable(&self, more: &[&str]) -> Output {
        self.run(&[&["enable", "demo", "--library", LIBRARY], more].concat())
    }
}

impl Drop for System {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn said(output: &Output) -> (bool, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

#[test]
fn what_is_enabled_can_be_disabled() {
    let system = System::new("both", "");
    let before = system.files();
    let enabled = system.enable(&["--profile", "throughput", "--set", "spin_us=50"]);
    assert_eq!(said(&enabled), (true, String::new()));
    let text = system.read(DROPIN);
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "[Service]",
            &format!("Environment=\"LD_PRELOAD={LIBRARY}\""),
            "Environment=\"BAREWIRE_PROFILE=throughput\"",
            "Environment=\"BAREWIRE_SPIN_US=50\"",
        ]
    );
    // Once more, with other settings: they are in the place of those before.
    assert_eq!(said(&system.enable(&[])), (true, String::new()));
    assert!(!system.read(DROPIN).contains("PROFILE"));
    let disabled = system.run(&["disable", "demo.service"]);
    assert_eq!(said(&disabled), (true, String::new()));
    let left: Vec<_> = system.files();
    let new: Vec<_> = left.iter().filter(|path| !before.contains(path)).collect();
    let folders = ["etc", "etc/systemd", "etc/systemd/system"].map(|folder| system.0.join(folder));
    assert_eq!(
        new,
        folders.iter().collect::<Vec<_>>(),
        "only empty folders are left"
    );
    let again = system.run(&["disable", "demo"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("is not enabled"));
    assert!(again.status.success());
}

#[test]
fn what_the_service_preloads_already_stays_first() {
    let system = System::new(
        "earlier",
        "Environment=\"LD_PRELOAD=/usr/lib/libjemalloc.so.2\"\n",
    );
    assert_eq!(said(&system.enable(&[])), (true, String::new()));
    let expected = format!("LD_PRELOAD=/usr/lib/libjemalloc.so.2:{LIBRARY}\"");
    assert!(
        system.read(DROPIN).contains(&expected),
        "{}",
        system.read(DROPIN)
    );
    // What it wrote itself does not count.
    assert_eq!(said(&system.enable(&[])), (true, String::new()));
    assert!(system.read(DROPIN).contains(&expected));
}

#[test]
fn what_is_in_the_way_is_told() {
    for (lines, told) in [
        ("PrivateNetwork=yes\n", "PrivateNetwork=yes"),
        (
            "RestrictAddressFamilies=AF_INET\n",
            "AF_UNIX and AF_NETLINK",
        ),
        ("LimitFSIZE=4096\n", "LimitFSIZE=4096"),
    ] {
        let (is_done, text) = said(&System::new("told", lines).enable(&[]));
        assert!(is_done && text.contains(told), "{lines}: {text}");
    }
    for (lines, told) in [
        ("RootDirectory=/srv/demo\n", "RootDirectory=/srv/demo"),
        (
            "EnvironmentFile=-/etc/default/demo\n",
            "etc/default/demo sets LD_PRELOAD",
        ),
    ] {
        let system = System::new("refused", lines);
        system.write("etc/default/demo", "A=1\nLD_PRELOAD=/lib/x.so\n");
        let (is_done, text) = said(&system.enable(&[]));
        assert!(!is_done && text.contains(told), "{lines}: {text}");
        assert!(!system.0.join(DROPIN).exists());
    }
    let system = System::new("else", "");
    let (is_done, text) = said(&system.run(&["enable", "nothing", "--library", LIBRARY]));
    assert!(
        !is_done && text.contains("there is no nothing.service"),
        "{text}"
    );
    let (is_done, text) = said(&system.run(&["enable", "demo.socket", "--library", LIBRARY]));
    assert!(
        !is_done && text.contains("not the name of a service"),
        "{text}"
    );
    let (is_done, text) = said(&system.run(&["enable", "demo", "--library", "/nowhere.so"]));
    assert!(!is_done && text.contains("/nowhere.so is not in"), "{text}");
    let (is_done, text) = said(&system.enable(&["--set", "spin_us=fast"]));
    assert!(!is_done && text.contains("spin_us"), "{text}");
    system.write(DROPIN, "[Service]\nNice=5\n");
    for output in [system.enable(&[]), system.run(&["disable", "demo"])] {
        let (is_done, text) = said(&output);
        assert!(
            !is_done && text.contains("not from `barewire enable`"),
            "{text}"
        );
    }
    assert_eq!(system.read(DROPIN), "[Service]\nNice=5\n");
}

#[test]
fn systemd_takes_what_is_written() {
    let name = "systemd_takes_what_is_written";
    let system = System::new("verify", "");
    system.write("usr/bin/demo", "#!/bin/sh\n");
    let demo = system.0.join("usr/bin/demo");
    std::fs::set_permissions(demo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(
        said(&system.enable(&["--profile", "quiet"])),
        (true, String::new())
    );
    let verify = |of: &Path| {
        let unit = of.join("usr/lib/systemd/system/demo.service");
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no", "--recursive-errors=no"]);
        command.arg(format!("--root={}", of.display())).arg(unit);
        command.output()
    };
    let output = match verify(&system.0) {
        Ok(output) => output,
        Err(error) => return skip::skip(name, &format!("systemd-analyze: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("50-barewire.conf"), "{text}");
    // It does read the file: a fault in it is found.
    let broken = system.read(DROPIN).replace("Environment=", "Environmont=");
    system.write(DROPIN, &broken);
    let text = String::from_utf8_lossy(&verify(&system.0).unwrap().stderr).into_owned();
    assert!(text.contains("50-barewire.conf"), "{text}");
}
