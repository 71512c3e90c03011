//! The states and reasons that `ls` and `run --why` show. The tables of `docs/reference/reasons.md` are made of
//! this. The texts themselves are those of `crates/sockets/src/table/state.rs` and of `sockets.rs` here.

use super::entry::Fault::{Caller, Environment, Nobody, Peer};
use super::entry::{Entry, Group, Kind, entry};

/// States, then reasons.
pub const GROUPS: &[Group] = &[
    Group {
        kind: Kind::State,
        of: "a socket",
        entries: STATES,
    },
    Group {
        kind: Kind::Reason,
        of: "a socket",
        entries: REASONS,
    },
];

const STATES: &[Entry] = &[
    entry(
        "accelerated",
        Nobody,
        "It is upgraded: its bytes may go through shared memory.",
        "",
    ),
    entry(
        "candidate",
        Nobody,
        "Not enough has passed yet to pay for an upgrade.",
        "To upgrade sooner, lower `calls_before` and `bytes_before`.",
    )
    .on("reference/settings.md#unmodified-programs"),
    entry(
        "looking for its other end",
        Nobody,
        "The upgrade is under way.",
        "",
    ),
    entry(
        "kernel",
        Nobody,
        "It is not upgraded, or no longer: its bytes go over the kernel's connection.",
        "The reason beside it says why.",
    ),
    entry(
        "listening",
        Nobody,
        "It accepts connections, and marks them as able to be upgraded.",
        "",
    ),
    entry("not connected", Nobody, "It has no other end yet.", ""),
];

const REASONS: &[Entry] = &[
    entry(
        "too little traffic so far",
        Nobody,
        "It is a candidate: not enough calls or bytes yet to pay for an upgrade, or for one that gains more than the \
         program's earlier ones did.",
        "To upgrade sooner, lower `calls_before` and `bytes_before`.",
    )
    .on("reference/settings.md#unmodified-programs"),
    entry(
        "the other end runs without barewire",
        Peer,
        "The program at the other end runs without the library, or on another host.",
        "Start it with `barewire run`.",
    )
    .on("sockets.md"),
    entry(
        "the other end did not come to the rendezvous",
        Peer,
        "There is address translation between the two ends, or the other end moved no bytes itself for long.",
        "If a firewall or a proxy translates addresses between local programs, let them connect directly.",
    )
    .on("sockets.md#firewalls"),
    entry(
        "over before the other end was found",
        Nobody,
        "The connection moved enough bytes for an upgrade at once, and the other end closed it before the upgrade.",
        "",
    ),
    entry(
        "the other end could not prove who it is",
        Peer,
        "One of: the user of the socket is not that of the process; the user is unknown in this user namespace; somebody \
         else holds the rendezvous socket; this end can prove nothing, because it has no `/proc` and may not call \
         `open_tree`.",
        "Run both ends in one user namespace.",
    )
    .on("reference/reasons.md#the-user-nobody"),
    entry(
        "membarrier is forbidden here, or unknown to the kernel",
        Environment,
        "A sandbox forbids the system call membarrier, or the kernel is older than Linux 4.16.",
        "Allow it. `barewire doctor` says whether that has worked.",
    )
    .on("operate.md#containers"),
    entry(
        "no shared memory",
        Environment,
        "Descriptors or memory have run out, or `ulimit -f` is below the size of a connection's memory.",
        "Raise the limit.",
    )
    .on("operate.md#limits"),
    entry(
        "the other end broke the protocol",
        Peer,
        "A fault: what the other end wrote into shared memory cannot be right.",
        "Report it.",
    )
    .on("operate.md#troubleshooting"),
    entry(
        "used in a way that only the kernel serves",
        Caller,
        "One of: `SO_RCVLOWAT` of more than a byte, `MSG_PEEK` with `MSG_WAITALL` that has to wait, `SO_PEEK_OFF`, \
         credentials with each message, kernel TLS, TCP repair, `TCP_INQ` (gRPC), `SO_TIMESTAMP`, `O_ASYNC`; or the C \
         library reads or writes it by itself: `fdopen`, `dprintf` and its relatives, `aio_read`, `aio_write`, \
         `lio_listio`, `backtrace_symbols_fd`; or it was duplicated to a standard descriptor (0 to 2), where `printf` \
         writes. The socket stays with the kernel, or goes back to it.",
        "",
    )
    .on("reference/differences.md"),
    entry(
        "the program uses it by io_uring, past the library",
        Caller,
        "An io_uring of the program sends, receives or waits on this socket, or has it registered. It stays with the \
         kernel, or goes back to it before the kernel sees the entry. Other sockets are not affected.",
        "",
    )
    .on("reference/io-uring.md"),
    entry(
        "the program has an io_uring whose entries cannot be seen",
        Caller,
        "All sockets of the process go back to the kernel and stay there. A ring that was made only to try it, and closed, \
         does not count.",
        "Set `io_uring` to `leave` or `refuse`, if the program allows it.",
    )
    .on("reference/io-uring.md"),
    entry(
        "of Multipath TCP, or made as such",
        Caller,
        "Both ends use Multipath TCP (`IPPROTO_MPTCP`), or this end asked for it when it connected.",
        "",
    )
    .on("reference/io-uring.md#multipath-tcp"),
    entry(
        "shared with, or given to, another program",
        Caller,
        "It was in more than one process before the upgrade, was sent to another process, or was left open for another \
         program.",
        "",
    ),
    entry(
        "both ends in one process, bytes one way: a wake-up",
        Nobody,
        "The program wakes itself by this connection. An upgrade would gain nothing.",
        "",
    ),
    entry(
        "its program has confined itself (seccomp)",
        Caller,
        "The program has installed a seccomp filter, so the library makes no call of its own.",
        "",
    )
    .on("sockets.md#programs-in-a-sandbox"),
    entry(
        "its program is sandboxed (seccomp)",
        Environment,
        "The program runs under a seccomp filter that does not allow what the library needs.",
        "`barewire doctor`, in the same sandbox, says which call it forbids.",
    )
    .on("sockets.md#programs-in-a-sandbox"),
    entry(
        "no stream of large calls: the profile leaves it to the kernel",
        Nobody,
        "The profile `quiet` upgrades large streams only.",
        "Choose another profile.",
    )
    .on("reference/settings.md#profiles"),
    entry(
        "of a kind that is not accelerated",
        Nobody,
        "The library does not handle such sockets.",
        "",
    )
    .on("sockets.md#which-connections-are-upgraded"),
    entry(
        "fell back to the kernel",
        Nobody,
        "It was upgraded, and uses the kernel connection now. The rest of the line is one of these reasons.",
        "Look up the reason behind the colon.",
    ),
    entry(
        "over before it was worth more",
        Nobody,
        "`--why` only: the connection ended before an upgrade would have paid. Its calls and bytes stand behind the \
         colon.",
        "",
    ),
    entry(
        "the library has not seen it: inherited, received, or made past the C library",
        Nobody,
        "It was made before the program started, came from another process, or was made past the C library, as in Go \
         programs.",
        "",
    )
    .on("sockets.md#which-connections-are-upgraded"),
];
