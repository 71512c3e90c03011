//! What the library needs of the kernel, tried out.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use barewire_sys::memory::Memfd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink};

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
        let address = SocketAddr::from_abstract_name(name)?;
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
        Ok(peer_of(one)? == Some(other))
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

/// The attribute `UNIX_DIAG_PEER`, and the flag that asks for it.
const UNIX_PEER: u16 = 2;
const SHOW_UNIX_PEER: u32 = 4;
/// `struct nlmsghdr` and `struct unix_diag_msg` (linux/unix_diag.h).
const UNIX_ANSWER_BYTES: usize = 16 + 16;

/// Asks as the library does: `struct unix_diag_req` for one inode.
fn peer_of(inode: u32) -> io::Result<Option<u32>> {
    let mut question = Vec::with_capacity(40);
    question.extend(40_u32.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(1_u16.to_ne_bytes());
    question.extend([0; 8]);
    // AF_UNIX; all states.
    question.extend([1, 0, 0, 0]);
    question.extend([0xff; 4]);
    question.extend(inode.to_ne_bytes());
    question.extend(SHOW_UNIX_PEER.to_ne_bytes());
    question.extend([0xff; 8]);
    let answer = ask(&question, UNIX_ANSWER_BYTES)?;
    let value = attribute(&answer[UNIX_ANSWER_BYTES..], UNIX_PEER);
    let word = value.and_then(|value| value.first_chunk::<4>());
    Ok(word.map(|word| u32::from_ne_bytes(*word)))
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

fn proof(other: &OtherEnd) -> Check {
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

fn mark(other: &OtherEnd) -> Check {
    const NAME: &str = "mark of the peer (sock_diag)";
    match other.loops_multicasts {
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

/// What the kernel says of the other end of a connection.
struct OtherEnd {
    user: u32,
    loops_multicasts: Option<bool>,
}

const ANSWER_BYTES: usize = 16 + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Asks as the library does: `struct inet_diag_req_v2` for the exact connection; the user is
/// word 16 of `struct inet_diag_msg` (linux/inet_diag.h).
fn other_end(client: &TcpStream) -> io::Result<OtherEnd> {
    let (own, other) = (client.local_addr()?, client.peer_addr()?);
    let mut question = Vec::with_capacity(72);
    question.extend(72_u32.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(1_u16.to_ne_bytes());
    question.extend([0; 8]);
    // AF_INET, TCP, no extensions; all states.
    question.extend([2, 6, 0, 0]);
    question.extend([0xff; 4]);
    for end in [other, own] {
        question.extend(end.port().to_be_bytes());
    }
    for end in [other, own] {
        let std::net::IpAddr::V4(address) = end.ip() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        question.extend(address.octets());
        question.extend([0; 12]);
    }
    question.extend([0; 4]);
    question.extend([0xff; 8]);
    let answer = ask(&question, ANSWER_BYTES)?;
    let at = 16 + 64;
    let user = [0, 1, 2, 3].map(|byte| answer[at + byte]);
    Ok(OtherEnd {
        user: u32::from_ne_bytes(user),
        loops_multicasts: socket_options(&answer[ANSWER_BYTES..])
            .map(|options| options & LOOPS_MULTICASTS != 0),
    })
}

/// The attribute `INET_DIAG_SOCKOPT`, and `mc_loop` in the first byte of its value.
const SOCKET_OPTIONS: u16 = 22;
const LOOPS_MULTICASTS: u8 = 1 << 4;

/// Finds that byte.
fn socket_options(attributes: &[u8]) -> Option<u8> {
    attribute(attributes, SOCKET_OPTIONS)?.first().copied()
}

/// Finds an attribute. Each has its length and kind, and begins at a multiple of four.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let head = attributes.get(..4)?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        if u16::from_ne_bytes([head[2], head[3]]) == wanted {
            return attributes.get(4..len);
        }
        attributes = attributes.get(len.max(4).next_multiple_of(4)..)?;
    }
}

/// Asks `sock_diag`; the answer has so many bytes at least.
fn ask(question: &[u8], bytes_min: usize) -> io::Result<Vec<u8>> {
    let kind = SocketType::RAW;
    let socket = rustix::net::socket(AddressFamily::NETLINK, kind, Some(netlink::SOCK_DIAG))?;
    rustix::net::send(&socket, question, SendFlags::empty())?;
    let mut answer = vec![0_u8; 512];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    if len < bytes_min || kind != SOCK_DIAG_BY_FAMILY {
        return Err(io::Error::other("the kernel does not know the connection"));
    }
    answer.truncate(len);
    Ok(answer)
}
