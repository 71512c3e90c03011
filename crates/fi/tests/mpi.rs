//! Programs for MPI and for libfabric on this provider: those of Debian's Open MPI and libfabric, if they are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

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
        // What cargo tells this test of its package would have build scripts of others run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
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

/// As [`mpirun`], with windows on this provider.
fn mpirun_for_windows(ranks: usize) -> Command {
    let mut mpirun = mpirun_with(ranks, "ofi,self");
    mpirun
        .args(["--mca", "btl_ofi_provider_include", "barewire"])
        .args(["--mca", "osc", "rdma"]);
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

/// Runs a job, which must end well.
///
/// A rank that ends waits two seconds for `mpirun` to note it (`PMIx_Finalize`), and then goes. On a machine that is busy
/// enough, `mpirun` notes it later, and takes it for one that has not said farewell. Only then is the job run again.
#[track_caller]
fn assert_job_ok(mut job: Command) {
    for _ in 0..3 {
        let output = job.output().unwrap();
        let is_unnoted = said(&output).contains("exiting improperly")
            && output.stdout.starts_with(b"ok\n")
            && output.status.code() == Some(1);
        if !is_unnoted {
            return assert_ok(&output);
        }
    }
    panic!("three times `mpirun` has not noted the end of a rank");
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
            let mut mpirun = mpirun(ranks);
            mpirun.arg(&program);
            assert_job_ok(mpirun);
        }
    }
}

#[test]
fn operations_of_mpi_from_any_thread() {
    if let Some(_one) = mpi("operations_of_mpi_from_any_thread") {
        let program = compile("mpicc", "basic", &[]);
        let mut mpirun = mpirun(2);
        mpirun.arg(&program).arg("multiple");
        assert_job_ok(mpirun);
    }
}

#[test]
fn windows_of_mpi_with_1_to_4_ranks() {
    if let Some(_one) = mpi("windows_of_mpi_with_1_to_4_ranks") {
        let program = compile("mpicc", "windows", &[]);
        for ranks in [1, 2, 4] {
            // Windows of memory that the program has, and of memory that Open MPI makes.
            for kind in ["create", "allocate"] {
                let mut mpirun = mpirun_for_windows(ranks);
                mpirun.arg(&program).arg(kind);
                assert_job_ok(mpirun);
            }
        }
    }
}

/// `mpirun` gives the status of the rank whose end it sees first. That is the killed one (128 and the signal), or one that
/// was told of its end by an error and so ended, too. It is not the 124 of a time-out.
#[track_caller]
fn assert_ended_by_the_death(output: &Output) {
    let told = said(output);
    match output.status.code() {
        Some(137) => {}
        Some(0 | 124) | None => panic!("{}: {told}", output.status),
        Some(_) => {
            // 104: the connection was there; 113: it was about to be made.
            let names_error = ["MPI_ERR_", "err_code = 104", "err_code = 113"];
            assert!(names_error.iter().any(|it| told.contains(it)), "{told}");
        }
    }
}

/// Open MPI ends a rank whose access to a window fails. Without the option `--enable-recovery`, `mpirun` ends the others.
#[test]
fn a_rank_that_is_killed_in_a_window_ends_the_job() {
    let test = "a_rank_that_is_killed_in_a_window_ends_the_job";
    if let Some(_one) = mpi(test) {
        let program = compile("mpicc", "kill_window", &[]);
        let output = mpirun_for_windows(3).arg(&program).output().unwrap();
        assert_ended_by_the_death(&output);
        let mut mpirun = mpirun_for_windows(3);
        let output = mpirun.arg("--enable-recovery").arg(&program).output();
        let told = said(&output.unwrap());
        // Each of the others, since `mpirun` leaves them alone.
        assert_eq!(told.matches("provider err_code = 1").count(), 2, "{told}");
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
        assert_ended_by_the_death(&output);
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

#[test]
fn a_buffer_takes_several_messages() {
    run_with_libfabric("a_buffer_takes_several_messages", "many");
}

#[test]
fn a_message_is_found_claimed_and_dropped() {
    run_with_libfabric("a_message_is_found_claimed_and_dropped", "peek");
}

/// The name of the endpoint that a hostile peer attacks, and the key and the address of its memory.
fn victim(program: &Path) -> (std::process::Child, String, [u64; 2]) {
    use std::io::{BufRead as _, BufReader};
    let mut child = command(program.to_str().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    // The rest of its output stays for `wait_with_output`: it writes no more before it stops.
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    child.stdout = Some(out.into_inner());
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name").to_owned();
    let numbers = [words.next(), words.next()].map(|word| word.unwrap().parse().unwrap());
    (child, name, numbers)
}

/// A record as `records.rs` describes it: often nearly right, with numbers at their limits.
fn hostile_record(mut random: impl FnMut() -> u64, [key, address]: [u64; 2]) -> Vec<u8> {
    let edges = [
        0,
        1,
        4,
        4095,
        4096,
        19_999,
        20_001,
        1 << 40,
        u64::MAX - 7,
        u64::MAX,
    ];
    let mut number = || match random() % 4 {
        0 => random(),
        1 => key,
        2 => address.wrapping_add(edges[(random() % 10) as usize]),
        _ => edges[(random() % 10) as usize],
    };
    let words: Vec<u64> = (0..8).map(|_| number()).collect();
    let mut record = vec![(random() % 12) as u8, (random() % 5) as u8, 0, 0];
    record.extend((random() as u32).to_le_bytes());
    record.extend((random() % 6).to_le_bytes());
    let places = [7, 8, 9];
    for word in &words[..(random() % 7) as usize] {
        record.extend(word.to_le_bytes());
    }
    // Key and address as they are in most of what is about memory.
    if places.contains(&record[0]) && record.len() >= 32 && random() % 2 == 0 {
        record[16..24].copy_from_slice(&key.to_le_bytes());
        record[24..32].copy_from_slice(&(address + random() % 5000).to_le_bytes());
    }
    if random() % 3 == 0 {
        record.resize(record.len() + (random() % 9000) as usize, random() as u8);
    }
    if random() % 10 == 0 {
        record.truncate((random() % 40) as usize);
    }
    record
}

/// Peers that say anything harm only themselves. Who keeps to the rules is served.
#[test]
fn no_peer_harms_an_endpoint() {
    let test = "no_peer_harms_an_endpoint";
    let header = Path::new("/usr/include/rdma/fabric.h").exists();
    if !header && !installed(test, "rdma/fabric.h", "libfabric-dev") {
        return;
    }
    let (child, name, place) = victim(&compile("cc", "victim", &["-lfabric"]));
    let node = barewire::Node::new().unwrap();
    let connect = |data: &[u8]| {
        let options = barewire::ConnectOptions {
            timeout: Duration::from_secs(60),
            data: data.to_vec(),
            ..barewire::ConnectOptions::default()
        };
        node.connect_with(&name, &options)
    };
    for wrong in [&b""[..], b"fi-", &[0; 29], &[7; 1000]] {
        assert!(matches!(
            connect(wrong),
            Err(barewire::Error::Refused { .. })
        ));
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..60_u64 {
        let own = format!("fi-00000000-{round:016x}");
        let mut connection = connect(own.as_bytes()).expect("a connection");
        for _ in 0..200 {
            let record = hostile_record(&mut random, place);
            // It takes what has no sense, and goes on.
            connection
                .send_timeout(&record, Duration::from_secs(60))
                .expect("taken");
        }
    }
    let mut connection = connect(b"fi-00000000-ffffffffffffffff").expect("a connection");
    let mut stop = vec![0; 16];
    stop[0] = 1;
    stop.extend(b"stop");
    connection.send(&stop).expect("sent");
    assert_ok(&child.wait_with_output().unwrap());
}
