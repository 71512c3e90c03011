//! Limits, sandbox and machine.

use rustix::process::Resource;

use super::check::Check;
use crate::run::{library, rings_setting};

/// All of them.
pub fn checks() -> Vec<Check> {
    vec![
        processors(),
        descriptors(),
        addresses(),
        file_size(),
        overcommit(),
        processes(),
        sandbox(),
        users(),
        rings(),
        looking(),
        preload(),
    ]
}

fn processors() -> Check {
    const NAME: &str = "processors";
    match barewire_sys::process::allowed_cpus().len() {
        0 | 1 => Check::warning(
            NAME,
            "one: nobody can look for bytes while the other end writes them",
            "allow two or more (cpuset, taskset, container limits)",
        ),
        count => Check::good(NAME, count.to_string()),
    }
}

fn limit(resource: Resource) -> u64 {
    rustix::process::getrlimit(resource)
        .current
        .unwrap_or(u64::MAX)
}

fn descriptors() -> Check {
    const NAME: &str = "descriptors (ulimit -n)";
    // A connection needs one or two of its own for the moment when it finds its other end.
    match limit(Resource::Nofile) {
        few @ 0..64 => Check::warning(NAME, few.to_string(), "ulimit -n 1024, or more"),
        u64::MAX => Check::good(NAME, "no limit"),
        many => Check::good(NAME, many.to_string()),
    }
}

/// Addresses that the library reserves: records, tables, and the places of carriers.
const RESERVED_BYTES: u64 = 9 << 30;

fn addresses() -> Check {
    const NAME: &str = "address space (ulimit -v)";
    match limit(Resource::As) {
        u64::MAX => Check::good(NAME, "no limit"),
        bytes if bytes > 2 * RESERVED_BYTES => Check::good(NAME, format!("{} MiB", bytes >> 20)),
        bytes => Check::bad(
            NAME,
            format!(
                "{} MiB: too little for what the library reserves",
                bytes >> 20
            ),
            "ulimit -v unlimited (systemd: LimitAS=infinity); what is reserved takes no memory",
        ),
    }
}

/// The longest file that this process may write.
pub fn file_size_bytes() -> u64 {
    limit(Resource::Fsize)
}

fn file_size() -> Check {
    const NAME: &str = "file size (ulimit -f)";
    match file_size_bytes() {
        u64::MAX => Check::good(NAME, "no limit"),
        bytes if bytes >= 1 << 20 => Check::good(NAME, format!("{} KiB", bytes >> 10)),
        bytes => Check::bad(
            NAME,
            format!("{} KiB: it holds for shared memory as well", bytes >> 10),
            "ulimit -f 1024, or more (systemd: LimitFSIZE=)",
        ),
    }
}

fn setting(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn overcommit() -> Check {
    const NAME: &str = "overcommit";
    match setting("/proc/sys/vm/overcommit_memory") {
        Some(2) => Check::warning(
            NAME,
            "strict: what the library reserves counts as if it were used",
            "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio",
        ),
        Some(mode) => Check::good(NAME, format!("mode {mode}")),
        None => Check::good(NAME, "not to be seen"),
    }
}

/// A line of `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn processes() -> Check {
    const NAME: &str = "/proc";
    let own = std::fs::read_link("/proc/self").ok();
    let own = own.and_then(|link| link.to_str()?.parse().ok());
    match own == Some(barewire_sys::process::getpid()) {
        true => Check::good(NAME, "is of this process namespace"),
        false => Check::warning(
            NAME,
            "not mounted, or of another process namespace: `barewire ls` and `capture` see nothing",
            "mount -t proc proc /proc in this namespace; acceleration does not need it",
        ),
    }
}

fn sandbox() -> Check {
    const NAME: &str = "seccomp";
    match status("Seccomp").as_deref() {
        Some("2") => Check::warning(
            NAME,
            "this process is filtered; what the filter leaves was tried above",
            "nothing, if all else is good",
        ),
        Some("1") => Check::bad(
            NAME,
            "strict: no system calls",
            "run outside of the sandbox",
        ),
        Some(_) => Check::good(NAME, "not filtered"),
        None => Check::good(NAME, "not to be seen"),
    }
}

/// The user that all unknown ones look like.
const OVERFLOW_USER: u32 = 65_534;

fn users() -> Check {
    const NAME: &str = "user namespace";
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers: Vec<u64> = map.split_ascii_whitespace().flat_map(str::parse).collect();
    let all_known = matches!(numbers[..], [0, 0, count] if count >= u64::from(u32::MAX));
    if rustix::process::getuid().as_raw() == OVERFLOW_USER && !all_known {
        return Check::bad(
            NAME,
            format!(
                "this user is {OVERFLOW_USER}, which stands for all that a namespace does not \
                 know: it proves nothing"
            ),
            "run as another user, or map the user into the namespace (uid_map)",
        );
    }
    match numbers[..] {
        [] => Check::good(NAME, "not to be seen"),
        _ if all_known => Check::good(NAME, "the host's, or one that knows all users"),
        _ => Check::good(
            NAME,
            "one of its own: only programs in it, whose users it knows, can meet",
        ),
    }
}

/// Whether the kernel has `io_uring`, and what becomes of programs that use it.
fn rings() -> Check {
    const NAME: &str = "io_uring";
    let has = match setting("/proc/sys/kernel/io_uring_disabled") {
        Some(0) => "the kernel has it",
        Some(1) => "the kernel keeps it for privileged programs",
        Some(_) => "the kernel refuses it",
        None if std::fs::read_to_string("/proc/kallsyms")
            .is_ok_and(|names| names.contains("io_uring_setup")) =>
        {
            "the kernel has it"
        }
        None => "the kernel has it not, as far as can be seen",
    };
    let setting = match rings_setting() {
        Ok(setting) => setting,
        Err(error) => {
            let change = "mend the setting: inspect, leave or refuse";
            return Check::bad(NAME, error.to_string(), change);
        }
    };
    let then = match setting.as_str() {
        "leave" => "programs with a ring have all sockets from the kernel",
        "refuse" => "programs get no ring",
        _ => "sockets that programs use by it are left to the kernel",
    };
    Check::good(NAME, format!("{has}; setting {setting}: {then}"))
}

fn looking() -> Check {
    const NAME: &str = "looking at programs (ptrace)";
    let own = rustix::process::getuid().is_root();
    match setting("/proc/sys/kernel/yama/ptrace_scope") {
        Some(scope) if scope > 0 && !own => Check::warning(
            NAME,
            format!("kernel.yama.ptrace_scope is {scope}: `barewire ls` may not read sockets"),
            "use `sudo barewire ls`, or `barewire run --why`; acceleration does not need it",
        ),
        _ => Check::good(NAME, "allowed for one's own programs"),
    }
}

fn preload() -> Check {
    const NAME: &str = "library";
    match library() {
        Ok(path) => Check::good(NAME, path.display().to_string()),
        Err(error) => Check::bad(NAME, "not found", error.to_string()),
    }
}
