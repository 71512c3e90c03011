//! The torture pair: every case, and the system calls, over IPv4, IPv6 and Unix sockets.
//!
//! What the two ends of a case say is compared line by line with a run without the library.
//! `torture list` prints the cases; its header says how to run one by hand.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use barewire_programs::{Observed, Scenario, Stage, is_long, skip};

/// How many cases run at once: most of them wait most of the time.
const AT_ONCE: usize = 3;

/// Cases whose answers differ with the library, each for a reason that is stated in
/// `docs/sockets.md`. By name in `BAREWIRE_PROGRAMS_CASES` they run all the same.
const KNOWN: [(&str, &str); 2] = [
    (
        "options",
        "the kernel's segments grow with what it carries, which is little",
    ),
    (
        "vfork-exec",
        "on a busy machine the other end may answer too late: then the relay waits for the parent",
    ),
];

const AS_CANCELLED: &str = "as cancelled-sending";

/// The same, of Unix sockets only.
const KNOWN_UNIX: [(&str, &str); 7] = [
    (
        "kill-full",
        "whether a sender that waits for a full socket is told EPIPE or ECONNRESET when its reader is \
         killed depends on how full it was when the call began",
    ),
    (
        "kill-behind-bytes",
        "an end that is killed before it has read a token leaves a reset behind",
    ),
    (
        "cancelled-sending",
        "nobody knows what was sent in the middle of a call: the connection ends",
    ),
    ("killed-sending", AS_CANCELLED),
    ("killed-putting", AS_CANCELLED),
    ("killed-reading", AS_CANCELLED),
    ("cancelled-reading", AS_CANCELLED),
];

/// The program, whether it could be linked statically as well, and whether it has liburing.
struct Built {
    program: PathBuf,
    is_static: bool,
    has_liburing: bool,
}

fn compile(sources: &[PathBuf], program: &Path, more: &[&str]) -> Result<(), String> {
    // In place of a program that may be running, by its name only.
    let fresh = program.with_extension("new");
    let output = Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-D_FORTIFY_SOURCE=2", "-pthread"])
        .arg("-o")
        .arg(&fresh)
        .args(sources)
        .args(more)
        .output()
        .map_err(|e| format!("cc: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::rename(fresh, program).map_err(|e| e.to_string())
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/torture");
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_source = |file: &PathBuf| file.extension() == Some(OsStr::new("c"));
        let sources: Vec<_> = files.filter(is_source).collect();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("torture");
        let has_liburing = compile(&sources, &program, &["-DWITH_LIBURING", "-luring"]).is_ok();
        if !has_liburing {
            compile(&sources, &program, &[]).unwrap_or_else(|e| panic!("{e}"));
        }
        let beside = program.with_file_name("torture-static");
        let is_static = compile(&sources, &beside, &["-static"]).is_ok();
        let plugin = Path::new(folder).join("plugin/ring.c");
        let beside = program.with_file_name("torture-plugin.so");
        compile(&[plugin], &beside, &["-shared", "-fPIC"]).unwrap_or_else(|e| panic!("{e}"));
        let names = Path::new(folder).join("plugin/names.c");
        let beside = program.with_file_name("torture-names");
        compile(&[names], &beside, &["-rdynamic", "-ldl"]).unwrap_or_else(|e| panic!("{e}"));
        println!("the torture pair: {}", program.display());
        Built {
            program,
            is_static,
            has_liburing,
        }
    })
}

/// The cases for one family of addresses.
fn cases(family: &str) -> Vec<String> {
    let built = built();
    let list = Command::new(&built.program).arg("list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let wanted = std::env::var("BAREWIRE_PROGRAMS_CASES").ok();
    let is_wanted = |name: &str| match &wanted {
        Some(names) => names.split(',').any(|wanted| wanted == name),
        None => !KNOWN.iter().any(|(known, _)| *known == name),
    };
    let mut cases = Vec::new();
    for line in list.lines() {
        let (name, needs) = line.split_once(' ').unwrap_or((line, ""));
        let fits = match needs {
            "internet" => family != "unix",
            "unix" => family == "unix",
            _ => true,
        };
        let links = built.is_static || !name.contains("static");
        let is_known = wanted.is_none() && KNOWN_UNIX.iter().any(|(known, _)| *known == name);
        let is_known = is_known && family == "unix";
        if fits && links && !is_known && is_wanted(name) {
            cases.push(name.to_owned());
        }
    }
    cases
}

/// What is the same for all cases of a run.
struct Setting {
    folder: PathBuf,
    server_preload: OsString,
    client_preload: OsString,
    family: &'static str,
    is_cold: bool,
}

impl Setting {
    fn new(stage: &Stage, family: &'static str, is_cold: bool) -> Self {
        let preload = |is_server| stage.preload_of(is_server).map(OsString::from);
        Self {
            folder: stage.folder().to_owned(),
            server_preload: preload(true).unwrap_or_default(),
            client_preload: preload(false).unwrap_or_default(),
            family,
            is_cold,
        }
    }

    /// A case that is about to be run.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&built().program);
        command
            .arg(name)
            .current_dir(&self.folder)
            .env_remove("LD_PRELOAD")
            .env("TORTURE_FAMILY", self.family)
            .env("TORTURE_SCALE", if is_long() { "20" } else { "1" })
            .env("TORTURE_SERVER_PRELOAD", &self.server_preload)
            .env("TORTURE_CLIENT_PRELOAD", &self.client_preload)
            .env(
                "BAREWIRE_UNIX",
                if self.family == "unix" { "1" } else { "0" },
            )
            .env("BAREWIRE_SOCKETS_REPORT", self.folder.join("reports/%p"));
        if self.is_cold {
            command.env("TORTURE_COLD", "1");
        }
        command
    }

    /// Runs one case; before each line that it says stands its name.
    fn run(&self, name: &str) -> String {
        let output = self.command(name).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let lines = said.lines().map(|line| format!("{name}: {line}\n"));
        lines.collect::<String>() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// All cases, several at once.
fn run_all(stage: &Stage, family: &'static str, is_cold: bool) -> Observed {
    let cases = cases(family);
    assert!(!cases.is_empty(), "no case is wanted");
    let setting = Setting::new(stage, family, is_cold);
    let next = AtomicUsize::new(0);
    let said = Mutex::new(vec![String::new(); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = setting.run(name);
                    let at = cases.iter().position(|case| case == name).unwrap();
                    said.lock().unwrap()[at] = text;
                }
            });
        }
    });
    let said = said.into_inner().unwrap().concat();
    let is_bad = |line: &&str| line.contains(": FAILED") || line.ends_with(": BAD");
    let bad: Vec<_> = said.lines().filter(is_bad).collect();
    assert!(bad.is_empty(), "{family}:\n{}", bad.join("\n"));
    said
}

fn torture(scenario: Scenario, family: &'static str, is_cold: bool) {
    scenario.run(&["cc"], |stage| run_all(stage, family, is_cold));
}

#[test]
fn torture_inet() {
    torture(
        Scenario::new("torture-inet")
            .one_sided()
            .with_own_connections(),
        "inet",
        false,
    );
}

#[test]
fn torture_inet6() {
    torture(Scenario::new("torture-inet6"), "inet6", false);
}

#[test]
fn torture_unix() {
    torture(Scenario::new("torture-unix"), "unix", false);
}

/// Without the exchange before each case that has a connection upgraded when it begins.
#[test]
fn torture_cold() {
    torture(Scenario::new("torture-cold"), "inet", true);
}

/// Those that are not run are named and counted.
#[test]
fn torture_known_differences() {
    let known = KNOWN.iter().chain(&KNOWN_UNIX);
    let reasons: Vec<_> = known
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect();
    skip("torture-known-differences", &reasons.join("; "));
}

/// A machine without a C library to link statically has two cases of three.
#[test]
fn torture_static() {
    if !built().is_static {
        skip("torture-static", "no static C library");
    }
}

/// A program with a ring of the kernel's has its connections accelerated, but for those that it uses by
/// the ring. Of each case: how many ends say that they were accelerated, and how many that a ring was used.
const RING_CASES: [(&str, usize, usize); 4] = [
    ("io-uring-beside", 2, 0),
    ("io-uring-epoll", 2, 0),
    ("io-uring-of-two", 3, 1),
    ("io-uring-registered", 1, 1),
];

#[test]
fn torture_rings_beside_connections() {
    if !has("ring") {
        return skip("torture-rings-beside-connections", "no io_uring here");
    }
    let mut cases = RING_CASES.to_vec();
    if built().has_liburing {
        cases.push(("io-uring-library-beside", 2, 0));
    }
    told_of("torture-rings", &cases, "by io_uring");
}

/// Who listens with Multipath TCP has connections to ends that use TCP alone accelerated.
const MULTIPATH_CASES: [(&str, usize, usize); 3] = [
    ("multipath-server", 2, 0),
    ("multipath-client", 0, 1),
    ("multipath-both", 0, 2),
];

#[test]
fn torture_multipath() {
    if !has("multipath") {
        return skip("torture-multipath", "no Multipath TCP here");
    }
    told_of("torture-multipath", &MULTIPATH_CASES, "of Multipath TCP");
}

/// Runs cases; what the library tells of their ends must be so many times that they were accelerated, and
/// so many times this reason why not.
fn told_of(scenario: &'static str, cases: &[(&str, usize, usize)], reason: &str) {
    let play = |stage: &Stage| -> Observed {
        let setting = Setting::new(stage, "inet", false);
        let mut said = String::new();
        for &(name, accelerated, left) in cases {
            let why = stage.folder().join(format!("why-{name}"));
            let output = setting
                .command(name)
                .env("BAREWIRE_WHY", &why)
                .output()
                .unwrap();
            said += &String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{name}: {output:?}");
            if stage.preload_of(true).is_none() {
                continue;
            }
            let told = fs::read_to_string(&why).unwrap();
            let count = |text: &str| told.lines().filter(|line| line.contains(text)).count();
            let outcome = (count(": accelerated, ring"), count(reason));
            assert_eq!(outcome, (accelerated, left), "{name}:\n{told}");
        }
        said
    };
    Scenario::new(scenario).run(&["cc"], play);
}

/// With the setting, a program gets no ring, or has all from the kernel when it has one.
#[test]
fn torture_rings_by_setting() {
    if !has("ring") {
        return skip("torture-rings-by-setting", "no io_uring here");
    }
    let play = |stage: &Stage| -> Observed {
        let setting = Setting::new(stage, "inet", false);
        let (good, refused) = (
            "server: through the ring: good\n",
            "server: no ring: EPERM\n",
        );
        for (value, case, answer, reason) in [
            ("refuse", "io-uring", refused, ": accelerated, ring"),
            ("leave", "io-uring", good, "cannot be seen"),
            // A relay takes the place of the socket, whose end is told all the same.
            ("leave", "io-uring-relayed", good, "cannot be seen"),
            ("inspect", "io-uring", good, "by io_uring"),
        ] {
            let why = stage.folder().join(format!("why-{value}-{case}"));
            let mut command = setting.command(case);
            command
                .env("BAREWIRE_IO_URING", value)
                .env("BAREWIRE_WHY", &why);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{value}, {case}: {output:?}");
            if stage.preload_of(true).is_some() {
                let told = fs::read_to_string(&why).unwrap();
                assert!(said.contains(answer), "{value}, {case}: {said}");
                assert!(told.contains(reason), "{value}, {case}: {told}");
                assert_eq!(told.lines().count(), 2, "{value}, {case}: {told}");
            }
        }
        String::new()
    };
    Scenario::new("torture-rings-set").run(&["cc"], play);
}

/// Whether the kernel has here what the program can try.
fn has(what: &str) -> bool {
    let mut command = Command::new(&built().program);
    let output = command.arg(format!("has-{what}")).output();
    output.is_ok_and(|output| output.status.success())
}

/// A machine without liburing's headers, or whose kernel permits no rings, has fewer cases.
#[test]
fn torture_io_uring() {
    if !built().has_liburing {
        skip("torture-liburing", "no liburing to compile with");
    }
    if !has("ring") {
        skip("torture-io-uring", "no io_uring here");
    }
}
