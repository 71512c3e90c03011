//! What can go wrong, whose fault it is, and what to do about it.

use barewire_fabric::Violation;
use barewire_fabric::aperture::AccessError;
use barewire_shm::watch::ArmError;
use barewire_sys::{BadDescriptor, SysError};

pub use barewire_sys::process::Credentials;

/// The result of a call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller asked for something that can not be done; the caller can fix the call.
    Caller,
    /// The peer left, died, refused or broke the protocol.
    Peer,
    /// The machine: a limit, memory, a missing kernel feature.
    Environment,
}

/// How a peer broke the protocol. The connection (or, for a breach on the control
/// channel, the whole link) has been closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misconduct {
    /// In the ring or the control line of one connection.
    #[error("{0}")]
    Ring(Violation),
    /// On the control channel of the link.
    #[error("{0}")]
    Control(&'static str),
    /// It, or others of its user, asked for more than [`NodeConfig`](crate::NodeConfig) allows.
    #[error("it asks for more than its user may use: at most {limit} {what}")]
    Exceeds {
        /// Of what there would have been too much.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// By a descriptor it passed.
    #[error("passed an unusable descriptor: {0}")]
    Descriptor(#[from] BadDescriptor),
}

/// What may be lost of what this side has sent on a connection to another host, when the link was lost.
///
/// [`send`](crate::Sender::send) and its like have accepted these messages; those before them arrived. A message is counted whole,
/// in one of the two pairs of numbers. What arrived there can still be received there, unless that process is gone, too.
///
/// | what became of the other process | lost are at most |
/// |---|---|
/// | it goes on, and receives what it has | `messages` |
/// | it is dead | `messages` and `unread_messages` |
///
/// Never less is lost than the other process has not received. But part of it may have arrived, or was read, and the
/// acknowledgement was lost with the link: at most what was sent in the last quarter of
/// [`HostsConfig::timeout`](crate::HostsConfig::timeout), or since the other side last sent something on the connection, if that is later.
/// Of what was read, up to a quarter of the ring counts as unread.
///
/// Of a stream, bytes count as they were written, and messages are pieces of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Messages that are not known to have arrived at the other host.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that arrived there and are not known to have been read.
    pub unread_messages: u64,
    /// Their bytes.
    pub unread_bytes: u64,
}

/// What was lost, for people, as the end of a sentence.
fn said(lost: Option<&Lost>) -> String {
    let Some(lost) = lost else {
        return String::new();
    };
    let (messages, bytes) = (lost.messages, lost.bytes);
    let (unread, unread_bytes) = (lost.unread_messages, lost.unread_bytes);
    match (messages, unread) {
        (0, 0) => "; all that was sent on this connection has arrived and was read".to_owned(),
        _ => format!(
            "; of what was sent on this connection, messages not known to have arrived: {messages} ({bytes} bytes), arrived \
             and not known to have been read: {unread} ({unread_bytes} bytes)"
        ),
    }
}

/// An error of the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is empty, too long, or has a zero byte.
    #[error("`{name}` is not a valid name: a name has 1 to {max} bytes, none of them zero")]
    BadName {
        /// The name.
        name: String,
        /// Longest name allowed, in bytes.
        max: usize,
    },
    /// Somebody listens under the name already.
    #[error("the name `{name}` is taken by {holder}; stop that process or choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// The process that holds it, as far as the kernel shows it.
        holder: String,
    },
    /// Nobody listens under the name.
    #[error(
        "nobody listens as `{name}` for user {owner}; start the listener (in the same network \
         namespace), or let the connection wait for the name"
    )]
    NoSuchName {
        /// The name.
        name: String,
        /// The user whose name it would be.
        owner: u32,
    },
    /// A node connected to a name that it listens to itself, and did not accept in time.
    #[error(
        "timed out: this same node listens as `{name}`, and it did not accept; accept in another \
         thread (next_request), use start_connect and accept in the event loop, or connect from a \
         second node"
    )]
    OwnName {
        /// The name.
        name: String,
    },
    /// The process that holds the name belongs to somebody else than was expected.
    #[error(
        "the name `{name}` is held by process {pid} of user {found}, expected user {expected}: \
         not connecting to it"
    )]
    WrongOwner {
        /// The name.
        name: String,
        /// Process that holds it.
        pid: i32,
        /// Its user.
        found: u32,
        /// The user expected.
        expected: u32,
    },
    /// Another host could not be reached, or is not one to talk to.
    #[error("{host} can not be reached: {reason}")]
    HostUnreachable {
        /// The host and its port.
        host: String,
        /// Why.
        reason: String,
    },
    /// A link to another host is down. What was received before can still be taken.
    #[error("the link to {host} is lost: {reason}{}", said(lost.as_ref()))]
    HostLost {
        /// The host and its port.
        host: String,
        /// Why.
        reason: String,
        /// What may be lost of what was sent here; `None` where the error is of no connection.
        lost: Option<Lost>,
    },
    /// The other side refused the connection.
    #[error("connection refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The time allowed has passed.
    #[error("timed out")]
    Timeout,
    /// A value is outside what is allowed.
    #[error("{what} is {value}; allowed: {min} to {max}")]
    OutOfLimits {
        /// Which value.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// A limit on how many there may be has been reached.
    #[error(
        "limit reached: at most {limit} {what}; release some, or raise the limit in the configuration"
    )]
    LimitReached {
        /// What of.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// The peer's node already has this aperture, over this connection or another one.
    #[error(
        "the peer's node already has this aperture: grant it again after the peer has dropped it \
         and this node has been polled"
    )]
    GrantedAlready,
    /// A message is longer than the receiver takes.
    #[error("message of {len_bytes} bytes; the receiver takes at most {max_bytes}")]
    TooLong {
        /// Its length.
        len_bytes: u64,
        /// The receiver's limit.
        max_bytes: u64,
    },
    /// The buffer is too small for the message, which stays in the queue.
    #[error("the message has {needed_bytes} bytes and the buffer only {buffer_bytes}")]
    BufferTooSmall {
        /// Length of the message.
        needed_bytes: usize,
        /// Length of the buffer.
        buffer_bytes: usize,
    },
    /// The peer has finished sending, and everything it sent has been received.
    #[error("the peer has finished sending")]
    Finished,
    /// The peer has stopped receiving: what is sent now would never be read.
    #[error("the peer has stopped receiving")]
    PeerDeaf,
    /// The peer closed the connection or its node in an orderly way.
    #[error("the peer has closed the connection or its node")]
    PeerGone,
    /// The peer's process died (or turned into another program).
    #[error("the peer, process {pid}, has died")]
    PeerDied {
        /// Its process id, 0 if it can not be seen from here.
        pid: i32,
    },
    /// The peer broke the protocol; the connection is closed.
    #[error("the peer broke the protocol: {0}")]
    PeerMisbehaved(Misconduct),
    /// This side has closed its half already, or a long message timed out half-sent.
    #[error("this side of the connection is closed")]
    Closed,
    /// The process was forked: the child can not use its parent's connections.
    #[error(
        "this belongs to the parent process: after fork() a child has to make a node of its own"
    )]
    Forked,
    /// An aperture or a connection was used with another node than its own.
    #[error("the aperture or connection belongs to another node of this process")]
    OtherNode,
    /// There is no runtime of tokio, with I/O and time enabled, or the one that drove the node
    /// has ended.
    #[error(
        "no tokio runtime drives this node: make the node inside a runtime with I/O and time \
         enabled, and keep that running"
    )]
    NoRuntime,
    /// An access to an aperture was refused.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// A tripwire could not be set.
    #[error("{0}")]
    Arm(#[from] ArmError),
    /// A setting of a live node was not changed.
    #[error("{key}: {reason}")]
    BadSetting {
        /// The setting.
        key: String,
        /// Why not.
        reason: String,
    },
    /// The capture file can not be written.
    #[error("capture file {path}: {reason}")]
    Capture {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
    /// The system refused something.
    #[error("{0}")]
    System(#[from] SysError),
}

impl Error {
    /// Whether connecting may work a little later: a name that is not there may come; one
    /// whose owner has just gone, come back; a full backlog, empty.
    pub(crate) fn may_pass(&self, wait_for_name: bool) -> bool {
        match self {
            Error::NoSuchName { .. }
            | Error::PeerGone
            | Error::PeerDied { .. }
            | Error::HostUnreachable { .. }
            | Error::HostLost { .. } => wait_for_name,
            Error::System(SysError::Busy { .. }) => true,
            _ => false,
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Error::BadName { .. }
            | Error::BadSetting { .. }
            | Error::NameTaken { .. }
            | Error::OwnName { .. }
            | Error::OutOfLimits { .. }
            | Error::LimitReached { .. }
            | Error::GrantedAlready
            | Error::TooLong { .. }
            | Error::BufferTooSmall { .. }
            | Error::Closed
            | Error::Forked
            | Error::OtherNode
            | Error::NoRuntime
            | Error::Arm(_)
            | Error::Access(
                AccessError::OutOfRange { .. }
                | AccessError::Misaligned { .. }
                | AccessError::Unaligned { .. }
                | AccessError::NoSuchElement { .. }
                | AccessError::ReadOnly,
            ) => Fault::Caller,
            Error::NoSuchName { .. }
            | Error::WrongOwner { .. }
            | Error::Refused { .. }
            | Error::Timeout
            | Error::Finished
            | Error::PeerDeaf
            | Error::PeerGone
            | Error::PeerDied { .. }
            | Error::PeerMisbehaved(_)
            | Error::HostUnreachable { .. }
            | Error::HostLost { .. }
            | Error::Access(_) => Fault::Peer,
            Error::System(_) | Error::Capture { .. } => Fault::Environment,
        }
    }
}

/// No descriptor is left to hand to a peer.
pub(crate) fn descriptors_exhausted() -> Error {
    Error::System(SysError::TooManyDescriptors {
        what: "duplicating a descriptor for a peer",
        errno: barewire_sys::Errno(24),
    })
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Error {
        Error::PeerMisbehaved(Misconduct::from(violation))
    }
}

impl From<BadDescriptor> for Error {
    fn from(bad: BadDescriptor) -> Error {
        Error::PeerMisbehaved(Misconduct::Descriptor(bad))
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match &error {
            Error::NoSuchName { .. } | Error::Refused { .. } => ErrorKind::ConnectionRefused,
            Error::NameTaken { .. } => ErrorKind::AddrInUse,
            Error::WrongOwner { .. } => ErrorKind::PermissionDenied,
            Error::Timeout | Error::OwnName { .. } => ErrorKind::TimedOut,
            Error::PeerDeaf => ErrorKind::BrokenPipe,
            Error::PeerDied { .. }
            | Error::PeerGone
            | Error::PeerMisbehaved(_)
            | Error::HostLost { .. } => ErrorKind::ConnectionReset,
            Error::HostUnreachable { .. } => ErrorKind::HostUnreachable,
            Error::Finished => ErrorKind::UnexpectedEof,
            Error::Closed => ErrorKind::NotConnected,
            _ if error.fault() == Fault::Caller => ErrorKind::InvalidInput,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}
