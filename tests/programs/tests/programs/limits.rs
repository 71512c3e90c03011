//! Limits that a program sets for its children: the kernel has them as they were set, however the child
//! begins, and whether or not the program has connections of its own.

use barewire_programs::{Observed, Scenario, Stage};

/// What prints the kernel's limit of whoever runs it.
const SHOW: &str = "grep \"Max address space\" /proc/self/limits";

/// Shells, and what they are told.
const SHELLS: [&str; 2] = ["sh", "bash"];
const SCRIPTS: [&str; 7] = [
    "ulimit -v 400000; exec SHOW",
    "ulimit -v 400000; SHOW",
    "(ulimit -v 400000; SHOW); SHOW",
    "ulimit -S -v 400000; exec SHOW",
    "ulimit -v 40000000; exec SHOW",
    // What the library is asked to write at the end must not end it.
    "ulimit -f 0; true; exec true",
    "ulimit -v 400000; ulimit -v 300000; sh -c 'ulimit -v 200000; SHOW; true'",
];

/// Sets a limit and begins children in every way that Python has: first without a socket, then with a
/// connection that is upgraded; then a program that can not be begun, after which this one goes on.
const PYTHON: &str = r#"
import ctypes, os, resource, socket, subprocess, sys
SHOW = ["grep", "Max address space", "/proc/self/limits"]
SET = (400 << 20, 500 << 20)

def line(say):
    sys.stdout.write(say + "\n")
    sys.stdout.flush()

def in_child(work):
    "In a child made by fork."
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(9)
    line("status %d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def limit():
    resource.setrlimit(resource.RLIMIT_AS, SET)

def becomes():
    limit()
    os.execvp(SHOW[0], SHOW)

def begins():
    limit()
    # By vfork, by fork, and by posix_spawn; the last one is in the middle of waiting for the program's
    # input when it is looked at.
    subprocess.run(SHOW)
    subprocess.run(SHOW, preexec_fn=lambda: None)
    reader, writer = os.pipe()
    child = os.posix_spawnp("cat", ["cat"], os.environ,
                            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    for text in open("/proc/%d/limits" % child):
        if text.startswith("Max address space"):
            line(text.strip())
    os.close(writer)
    os.waitpid(child, 0)
    in_shells()
    line("own %s" % (resource.getrlimit(resource.RLIMIT_AS),))
    os._exit(0)

def in_shells():
    "By the C library's system and popen. A long command is passed on whole."
    show = " ".join("'%s'" % word for word in SHOW)
    line("system %d" % os.system(show))
    line("system %d" % os.system("exit 3"))
    line("system %d" % os.system(""))
    line("system %d" % os.system(show + "; : " + "x" * 100000))
    c = ctypes.CDLL(None)
    c.popen.restype = c.fgets.restype = ctypes.c_void_p
    file = ctypes.c_void_p(c.popen((show + "; exit 4").encode(), b"r"))
    text = ctypes.create_string_buffer(200)
    while c.fgets(text, len(text), file):
        line("popen " + text.value.decode().strip())
    line("pclose %d" % c.pclose(file))
    line("shell %d" % c.system(None))

def for_children_only():
    subprocess.run(SHOW, preexec_fn=limit)
    line("own %s" % (resource.getrlimit(resource.RLIMIT_AS),))
    os._exit(0)

def goes_on():
    limit()
    try:
        os.execv(sys.argv[1], ["none"])
    except OSError as error:
        line(error.strerror)
    line("own %s" % (resource.getrlimit(resource.RLIMIT_AS),))
    len(bytearray(100 << 20))
    line("has memory")
    os._exit(0)

def goes_on_as_nobody():
    os.setgid(12345)
    os.setuid(12345)
    goes_on()

WAYS = [becomes, begins, for_children_only, goes_on]
if os.getuid() == 0:
    WAYS.append(goes_on_as_nobody)

def all_ways():
    for way in WAYS:
        line(way.__name__)
        in_child(way)

def talk(fd):
    for _ in range(300):
        fd.sendall(b"x" * 64)
        fd.recv(64, socket.MSG_WAITALL)

all_ways()
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    peer = socket.create_connection(listener.getsockname())
    listener.close()
    talk(peer)
    peer.recv(1)
    os._exit(0)
near, _ = listener.accept()
talk(near)
line("with a connection")
all_ways()
near.close()
line("end %d" % os.waitstatus_to_exitcode(os.wait()[1]))
"#;

#[test]
fn shells_limit_what_they_begin() {
    let scenario = Scenario::new("limits-of-shells").without_upgrades();
    scenario.run(&SHELLS, |stage: &Stage| {
        let mut observed = Observed::new();
        for shell in SHELLS {
            for script in SCRIPTS {
                let script = script.replace("SHOW", SHOW);
                let shown = stage.client(shell).args(["-c", &script]);
                // One that becomes another program has nothing to report.
                observed += &format!("{shell}: {script}\n{}", shown.without_report().text(20));
            }
        }
        assert!(observed.contains(" 409600000 "), "{observed}");
        observed
    });
}

#[test]
fn programs_with_connections_limit_what_they_begin() {
    Scenario::new("limits-of-programs").run(&["python3"], |stage: &Stage| {
        let script = stage.write("limits.py", PYTHON);
        let folder = stage.folder();
        let observed = stage.client("python3").arg(script).arg(folder).text(60);
        assert!(observed.contains("end 0"), "{observed}");
        observed
    });
}
