//! What the library needs of the kernel, tried out.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self as unix, UnixListener, UnixStream};

use barewire_calls::diag::{self, End, TcpSocket};
use barewire_calls::{self as calls, descriptor};
use barewire_sys::memory::Memfd;

use super::check::Check;

/// What to do about a sandbox.
pub const SANDBOX: &str =
    "allow it in the sandbox (seccomp profile of the container or systemd unit)";
/// More than a connection's memory.
const MEMORY_BYTES: usize = 1 << 18;

/// Something that is tried, by name.
type Tried = (&'static str, fn() -> Vec<Check>);

/// What is tried.
pub const CHECKS: [Tried; 5] = [
    (BARRIERS, || vec![barriers()]),
    (MEMORY, || vec![memory()]),
    (NAMES, || vec![names()]),
    (PAIRS, || vec![pairs()]),
    (PROOF, connection),
];
const BARRIERS: &str = "membarrier, global expedited";
const MEMORY: &str = "sealed memory (memfd)";
const NAMES: &str = "abstract Unix sockets";
const PAIRS: &str = "other ends of Unix sockets (unix_diag)";
const PROOF: &str = "proof of the peer (sock_diag)";

fn connection() -> Vec<Check> {
    on_connection().unwrap_or_else(|error| {
        const UP: &str =
            "bring the loopback interface up in this network namespace (ip link set lo up)";
        vec![Check::bad(
            "TCP over loopback",
            error.to_string(),
            or_more_descriptors(&error, UP),
        )]
    })
}

/// What to change, if it is not that there are no descriptors left.
fn or_more_descriptors(error: &io::Error, change: &str) -> String {
    match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::MFILE.raw_os_error() => {
            "see below: ulimit -n".to_owned()
        }
        _ => change.to_owned(),
    }
}

fn barriers() -> Check {
    if barewire_sys::wake::register_expedited() {
        return Check::good(BARRIERS, "works");
    }
    let change = format!("Linux 4.16 or newer, CONFIG_MEMBARRIER=y; {SANDBOX}");
    Check::bad(BARRIERS, "does not work", change)
}

fn memory() -> Check {
    if super::checks::file_size_bytes() < MEMORY_BYTES as u64 {
        // To try would end this process (SIGXFSZ).
        return Check::bad(
            MEMORY,
            "not tried: files are limited",
            "see below: ulimit -f",
        );
    }
    match Memfd::create_sealed("barewire-doctor", MEMORY_BYTES) {
        Ok(_) => Check::good(MEMORY, "works"),
        Err(error) => {
            let change = format!("a kernel with CONFIG_MEMFD_CREATE=y; {SANDBOX}");
            // What it says behind that is for our own programs.
            let found = error.to_string();
            let found = found.split("; ").next().unwrap_or_default();
            Check::bad(MEMORY, found, change)
        }
    }
}

fn names() -> Check {
    let meet = || -> io::Result<()> {
        let name = format!("barewire/doctor/{}", std::process::id());
        let address = unix::SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address)?;
        let _client = UnixStream::connect_addr(&address)?;
        listener.accept().map(|_| ())
    };
    match meet() {
        Ok(()) => Check::good(NAMES, "work in this network namespace"),
        Err(error) => {
            const ALLOW: &str = "allow AF_UNIX in the sandbox (systemd: RestrictAddressFamilies=)";
            Check::bad(NAMES, error.to_string(), or_more_descriptors(&error, ALLOW))
        }
    }
}

/// The question for the other end of a Unix socket, on a pair of our own.
fn pairs() -> Check {
    let ask = || -> io::Result<bool> {
        let (one, other) = UnixStream::pair()?;
        let [one, other] = [&one, &other].map(|end| rustix::fs::fstat(end).map(|it| it.st_ino));
        let (one, other) = (u32::try_from(one?), u32::try_from(other?));
        let (Ok(one), Ok(other)) = (one, other) else {
            return Err(io::Error::other("an inode has more than 32 bits"));
        };
        Ok(ask(|socket| diag::unix(socket, one))?.peer == Some(other))
    };
    match ask() {
        Ok(true) => Check::good(PAIRS, "are reported by the kernel"),
        result => {
            let found = result.err().map(|error| error.to_string());
            let change = format!(
                "a kernel with CONFIG_UNIX_DIAG (modprobe unix_diag), or --set unix=0; {SANDBOX}; \
                 systemd: RestrictAddressFamilies= needs AF_NETLINK"
            );
            let found = found.unwrap_or_else(|| "the kernel reports another one".to_owned());
            Check::bad(PAIRS, found, change)
        }
    }
}

/// The mark, and the proof, on a connection of our own.
fn on_connection() -> io::Result<Vec<Check>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // As the library marks its sockets; if this fails, the answer tells.
    let _ = rustix::net::sockopt::set_ip_multicast_loop(&listener, false);
    let client = TcpStream::connect(listener.local_addr()?)?;
    let _server = listener.accept()?;
    Ok(match other_end(&client) {
        Ok(other) => vec![proof(&other), mark(&other)],
        Err(error) => {
            let change = format!(
                "a kernel with CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG (modprobe tcp_diag); \
                 {SANDBOX}; systemd: RestrictAddressFamilies= needs AF_NETLINK"
            );
            vec![Check::bad(PROOF, error.to_string(), change)]
        }
    })
}

fn proof(other: &TcpSocket) -> Check {
    let own = rustix::process::getuid().as_raw();
    if other.user == own {
        return Check::good(PROOF, "names the owner of the other end");
    }
    Check::bad(
        PROOF,
        format!("says user {}, not {own}", other.user),
        "run both ends in one user namespace that knows their users",
    )
}

fn mark(other: &TcpSocket) -> Check {
    const NAME: &str = "mark of the peer (sock_diag)";
    match other.options.map(|options| options & LOOPS_MULTICASTS != 0) {
        Some(false) => Check::good(NAME, "is seen from the other end"),
        Some(true) => Check::bad(
            NAME,
            "is not seen from the other end",
            "accepted sockets do not take over IP_MULTICAST_LOOP; gVisor and other kernels differ",
        ),
        None => Check::bad(
            NAME,
            "the kernel does not tell of it",
            "Linux 5.10 or newer",
        ),
    }
}

/// What the kernel says of the other end of a connection, asked as the library does.
fn other_end(client: &TcpStream) -> io::Result<TcpSocket> {
    let end = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => Ok(End {
            address: ip.to_ipv6_mapped().octets(),
            port: address.port(),
        }),
        IpAddr::V6(_) => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    let (own, other) = (end(client.local_addr()?)?, end(client.peer_addr()?)?);
    ask(|socket| diag::tcp(socket, AF_INET, &other, &own))
}

/// As the kernel calls the family of IPv4.
const AF_INET: i32 = 2;
/// `mc_loop` among the options that the kernel tells.
const LOOPS_MULTICASTS: u16 = 1 << 4;

/// Asks `sock_diag`.
fn ask<T>(question: impl FnOnce(i32) -> calls::Result<T>) -> io::Result<T> {
    let not_found = rustix::io::Errno::NOENT.raw_os_error();
    let socket = diag::socket().map_err(io::Error::from_raw_os_error)?;
    let answer = question(socket);
    descriptor::close(socket);
    answer.map_err(|errno| match errno {
        _ if errno == not_found => io::Error::other("the kernel does not know the connection"),
        _ => io::Error::from_raw_os_error(errno),
    })
}
