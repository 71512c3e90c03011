//! What the library needs of the kernel, tried out.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use barewire_sys::memory::Memfd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink};

use super::Check;

const SANDBOX: &str = "allow it in the sandbox (seccomp profile of the container or systemd unit)";
/// As `upgrade::LISTENER_MARK` and `upgrade::CLIENT_MARK` of the library.
const LISTENER_MARK: u16 = 32_730;
const CLIENT_MARK: u16 = 32_740;
/// More than a connection's memory.
const MEMORY_BYTES: usize = 1 << 18;
/// What the timestamp option takes from a segment.
const TIMESTAMPS_BYTES: u16 = 12;

/// All of them.
pub fn checks() -> Vec<Check> {
    let mut all = vec![barriers(), memory(), names()];
    all.extend(connection().unwrap_or_else(|error| {
        vec![Check::bad(
            "TCP over loopback",
            error.to_string(),
            "bring the loopback interface up in this network namespace (ip link set lo up)",
        )]
    }));
    all
}

fn barriers() -> Check {
    const NAME: &str = "membarrier, global expedited";
    if barewire_sys::wake::register_expedited() {
        return Check::good(NAME, "works");
    }
    let change = format!("Linux 4.16 or newer, CONFIG_MEMBARRIER=y; {SANDBOX}");
    Check::bad(NAME, "does not work", change)
}

fn memory() -> Check {
    const NAME: &str = "sealed memory (memfd)";
    if super::checks::file_size_bytes() < MEMORY_BYTES as u64 {
        // To try would end this process (SIGXFSZ).
        return Check::bad(NAME, "not tried: files are limited", "see below: ulimit -f");
    }
    match Memfd::create_sealed("barewire-doctor", MEMORY_BYTES) {
        Ok(_) => Check::good(NAME, "works"),
        Err(error) => {
            let change = format!("a kernel with CONFIG_MEMFD_CREATE=y; {SANDBOX}");
            Check::bad(NAME, error.to_string(), change)
        }
    }
}

fn names() -> Check {
    const NAME: &str = "abstract Unix sockets";
    let meet = || -> io::Result<()> {
        let name = format!("barewire/doctor/{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address)?;
        let _client = UnixStream::connect_addr(&address)?;
        listener.accept().map(|_| ())
    };
    match meet() {
        Ok(()) => Check::good(NAME, "work in this network namespace"),
        Err(error) => {
            let change = "allow AF_UNIX in the sandbox (systemd: RestrictAddressFamilies=)";
            Check::bad(NAME, error.to_string(), change)
        }
    }
}

/// The marks, the packets that are kept, and the proof, on a connection of our own.
fn connection() -> io::Result<Vec<Check>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let marked = barewire_sys::tcp::set_segment_size(&listener, LISTENER_MARK);
    let kept = barewire_sys::tcp::save_openings(&listener);
    let (server, client) = connect_marked(&listener)?;
    let seen = barewire_sys::tcp::segment_size(&client).unwrap_or(0);
    let marks = [LISTENER_MARK, LISTENER_MARK - TIMESTAMPS_BYTES].map(u32::from);
    let opening = barewire_sys::tcp::opening(&server);
    const MARKS: &str = "marks (TCP_MAXSEG)";
    const OPENING: &str = "opening packets (TCP_SAVE_SYN)";
    const NO_CHANGE: &str = "remove what rewrites segment sizes on loopback (nftables: maxseg, \
                             iptables: TCPMSS); gVisor and other kernels have no such marks";
    let mut all = vec![match marked {
        Ok(()) if marks.contains(&seen) => Check::good(MARKS, "survive a connect over loopback"),
        Ok(()) => Check::bad(
            MARKS,
            format!("the client sees {seen}, not {LISTENER_MARK}"),
            NO_CHANGE,
        ),
        Err(error) => Check::bad(MARKS, error.to_string(), NO_CHANGE),
    }];
    all.push(match (kept, opening) {
        (Ok(()), Ok(packet)) if has_mark(&packet) => {
            Check::good(OPENING, "are kept, with the mark")
        }
        (Ok(()), Ok(packet)) => {
            let found = format!("{} bytes without the mark", packet.len());
            Check::bad(OPENING, found, NO_CHANGE)
        }
        (Err(error), _) | (_, Err(error)) => {
            Check::bad(OPENING, error.to_string(), "Linux 4.3 or newer")
        }
    });
    all.push(proof(&client));
    Ok(all)
}

fn connect_marked(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let kind = SocketType::STREAM;
    let socket = rustix::net::socket(AddressFamily::INET, kind, None)?;
    // If this fails, the opening packet tells.
    let _ = barewire_sys::tcp::set_segment_size(&socket, CLIENT_MARK);
    rustix::net::connect(&socket, &listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok((server, TcpStream::from(socket)))
}

/// Whether an opening packet has our mark: option 2, of 4 bytes.
fn has_mark(packet: &[u8]) -> bool {
    let [high, low] = CLIENT_MARK.to_be_bytes();
    packet.windows(4).any(|option| option == [2, 4, high, low])
}

fn proof(client: &TcpStream) -> Check {
    const NAME: &str = "proof of the peer (sock_diag)";
    let change = format!(
        "a kernel with CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG (modprobe tcp_diag); {SANDBOX}; \
         systemd: RestrictAddressFamilies= needs AF_NETLINK"
    );
    let own = rustix::process::getuid().as_raw();
    match owner_of_other_end(client) {
        Ok(user) if user == own => Check::good(NAME, "names the owner of the other end"),
        Ok(user) => Check::bad(
            NAME,
            format!("says user {user}, not {own}"),
            "run both ends in one user namespace that knows their users",
        ),
        Err(error) => Check::bad(NAME, error.to_string(), change),
    }
}

const ANSWER_BYTES: usize = 16 + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Asks as the library does: `struct inet_diag_req_v2` for the exact connection; the user is
/// word 16 of `struct inet_diag_msg` (linux/inet_diag.h).
fn owner_of_other_end(client: &TcpStream) -> io::Result<u32> {
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
    let kind = SocketType::RAW;
    let socket = rustix::net::socket(AddressFamily::NETLINK, kind, Some(netlink::SOCK_DIAG))?;
    rustix::net::send(&socket, &question, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    if len < ANSWER_BYTES || kind != SOCK_DIAG_BY_FAMILY {
        return Err(io::Error::other("the kernel does not know the connection"));
    }
    let at = 16 + 64;
    Ok(u32::from_ne_bytes([
        answer[at],
        answer[at + 1],
        answer[at + 2],
        answer[at + 3],
    ]))
}
