//! Programs for MPI and for libfabric on this provider: those of Debian's Open MPI and libfabric, if they are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A program that takes longer hangs, in seconds. A busy machine needs a tenth.
const DEADLINE_S: &str = "120";

/// Whether a program is installed; if not, that goes to the list of skipped tests.
fn installed(test: &str, program: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    });
    if !found {
        let line = format!("SKIPPED: fi/{test}: no {program}: install {package}\n");
        eprint!("{line}");
        if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
            use std::io::Write as _;
            let mut log = std::fs::OpenOptions::new();
            let mut log = log.append(true).create(true).open(path).unwrap();
            log.write_all(line.as_bytes()).unwrap();
        }
    }
    found
}

/// A folder for what the tests build, with the provider in it under the name that libfabric looks for.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let built = test.parent().and_then(Path::parent).unwrap();
        let folder = built.join("fi-tests");
        std::fs::create_dir_all(&folder).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "barewire-fi"]);
        if built.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the provider builds");
        let library = built.join("libbarewire_fi.so");
        std::fs::copy(library, folder.join("libbarewire-fi.so")).unwrap();
        folder
    })
}

/// Compiles a program of `tests/programs`.
fn compile(compiler: &str, program: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let out = folder().join(program);
    let status = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&out)
        .arg(source.join(format!("{program}.c")))
        .args(more)
        .status()
        .unwrap();
    assert!(status.success(), "{program}.c compiles");
    out
}

/// A command that is ended if it hangs, and that finds the provider.
fn command(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", DEADLINE_S, program])
        .env("FI_PROVIDER_PATH", folder())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .stdin(Stdio::null());
    command
}

/// `mpirun` with so many ranks on this provider.
fn mpirun(ranks: usize) -> Command {
    // Or Open MPI prepares its own shared memory, too, which it leaves after a crash.
    mpirun_with(ranks, "self")
}

/// As [`mpirun`], with these of Open MPI's transports for memory.
fn mpirun_with(ranks: usize, btl: &str) -> Command {
    let mut mpirun = command("mpirun");
    mpirun
        .args(["--oversubscribe", "-n", &ranks.to_string()])
        .args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"])
        .args(["--mca", "mtl_ofi_provider_include", "barewire"])
        .args(["--mca", "btl", btl]);
    mpirun
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn assert_ok(output: &Output) {
    let ok = output
        .stdout
        .split(|&byte| byte == b'\n')
        .any(|line| line == b"ok");
    assert!(output.status.success() && ok, "{}", said(output));
}

/// Whether Open MPI is there. One job at a time: they would only wait for each other's processors, and one of them looks
/// at what is left of it.
fn mpi(test: &str) -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let mpirun = installed(test, "mpirun", "openmpi-bin");
    let all = mpirun && installed(test, "mpicc", "libopenmpi-dev");
    all.then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn libfabric_finds_the_provider() {
    if installed("libfabric_finds_the_provider", "fi_info", "libfabric-bin") {
        let output = command("fi_info")
            .args(["-p", "barewire"])
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&output.stdout).contains("type: FI_EP_RDM");
        assert!(output.status.success() && found, "{}", said(&output));
    }
}

#[test]
fn operations_of_mpi_with_1_to_8_ranks() {
    if let Some(_one) = mpi("operations_of_mpi_with_1_to_8_ranks") {
        let program = compile("mpicc", "basic", &[]);
        for ranks in [1, 2, 3, 8] {
            assert_ok(&mpirun(ranks).arg(&program).output().unwrap());
        }
    }
}

#[test]
fn operations_of_mpi_from_any_thread() {
    if let Some(_one) = mpi("operations_of_mpi_from_any_thread") {
        let program = compile("mpicc", "basic", &[]);
        assert_ok(&mpirun(2).arg(&program).arg("multiple").output().unwrap());
    }
}

#[test]
fn windows_of_mpi_with_1_to_4_ranks() {
    if let Some(_one) = mpi("windows_of_mpi_with_1_to_4_ranks") {
        let program = compile("mpicc", "windows", &[]);
        for ranks in [1, 2, 4] {
            let mut mpirun = mpirun_with(ranks, "ofi,self");
            mpirun
                .args(["--mca", "btl_ofi_provider_include", "barewire"])
                .args(["--mca", "osc", "rdma"]);
            assert_ok(&mpirun.arg(&program).output().unwrap());
        }
    }
}

/// What lies in the folder of shared memory.
fn shared_memory() -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir("/dev/shm").unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_killed_rank_ends_the_job_and_leaves_nothing() {
    let test = "a_killed_rank_ends_the_job_and_leaves_nothing";
    if let Some(_one) = mpi(test) {
        let program = compile("mpicc", "kill", &[]);
        let before = shared_memory();
        let output = mpirun(4).arg(&program).output().unwrap();
        let told = said(&output);
        // 128 and the signal, and not the 124 of a time-out.
        assert_eq!(output.status.code(), Some(137), "{told}");
        let ours = |name: &std::ffi::OsString| !before.contains(name);
        let left: Vec<_> = shared_memory().into_iter().filter(ours).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Runs a program for libfabric, if its headers are installed.
fn run_with_libfabric(test: &str, program: &str) {
    let header = Path::new("/usr/include/rdma/fabric.h").exists();
    if header || installed(test, "rdma/fabric.h", "libfabric-dev") {
        let program = compile("cc", program, &["-lfabric"]);
        let output = command(program.to_str().unwrap()).output().unwrap();
        assert_ok(&output);
    }
}

#[test]
fn the_end_of_a_killed_peer_is_an_error() {
    run_with_libfabric("the_end_of_a_killed_peer_is_an_error", "dead");
}

#[test]
fn memory_of_a_peer_is_read_and_written_as_far_as_it_allows() {
    let test = "memory_of_a_peer_is_read_and_written_as_far_as_it_allows";
    run_with_libfabric(test, "rma");
}
