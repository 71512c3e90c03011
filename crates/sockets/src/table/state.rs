//! How far the upgrade of a socket has got, and the reason why it went no further.

/// How far the upgrade of a socket has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// A stream socket that is not connected yet.
    Unconnected = 0,
    /// A listening socket with the capability mark.
    Listening = 1,
    /// Connected to a program that may have the library too.
    Candidate = 2,
    /// It waits for its other end at the rendezvous socket.
    AtRendezvous = 3,
    /// Its hybrid stream is set up.
    Upgraded = 4,
    /// It stays with the kernel; `SocketState::reason` says why.
    Kernel = 5,
    /// A thread takes a step of the upgrade at this moment.
    Stepping = 6,
}

impl State {
    /// The text for users.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unconnected => "not connected",
            Self::Listening => "listening",
            Self::Candidate => "candidate",
            Self::AtRendezvous | Self::Stepping => "looking for its other end",
            Self::Upgraded => "accelerated",
            Self::Kernel => "kernel",
        }
    }

    /// The state of this number.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            0 => Self::Unconnected,
            1 => Self::Listening,
            2 => Self::Candidate,
            3 => Self::AtRendezvous,
            4 => Self::Upgraded,
            6 => Self::Stepping,
            _ => Self::Kernel,
        }
    }
}

/// Why a socket was not upgraded, or fell back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// There is no reason.
    None = 0,
    /// The other end has no capability mark.
    PeerNotUpgraded = 1,
    /// The other end did not come to the rendezvous socket in time.
    NoRendezvous = 2,
    /// The other end hung up before it was found.
    Over = 11,
    /// The process may not use the kernel's barriers.
    NoBarriers = 12,
    /// The other end could not prove who it is.
    NotProven = 3,
    /// There was no shared memory, or it was not as agreed.
    NoMemory = 4,
    /// The other end broke the hybrid stream's protocol.
    Broken = 5,
    /// The program uses it in a way that only the kernel can serve.
    Usage = 6,
    /// It was handed off to another program.
    HandedOff = 7,
    /// It is of a kind that is not accelerated.
    Kind = 8,
    /// One end of a pair in one process, with bytes one way only.
    WakeUp = 9,
    /// Its program has sandboxed itself. See `sandbox`.
    Sandboxed = 10,
    /// The program has an io_uring whose entries the library cannot inspect.
    UnseenIoUring = 13,
    /// The program uses it by an io_uring.
    IoUring = 14,
    /// It is a socket of Multipath TCP.
    Multipath = 15,
    /// The profile upgrades streams of large calls only, and it is none. See `worth`.
    Profile = 16,
}

impl Reason {
    /// What people are told: at most 63 bytes.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::PeerNotUpgraded => "the other end runs without barewire",
            Self::NoRendezvous => "the other end did not come to the rendezvous",
            Self::Over => "over before the other end was found",
            Self::NoBarriers => "membarrier is forbidden here, or unknown to the kernel",
            Self::NotProven => "the other end could not prove who it is",
            Self::NoMemory => "no shared memory",
            Self::Broken => "the other end broke the protocol",
            Self::Usage => "used in a way that only the kernel serves",
            Self::HandedOff => "shared with, or given to, another program",
            Self::Kind => "of a kind that is not accelerated",
            Self::WakeUp => "both ends in one process, bytes one way: a wake-up",
            Self::Sandboxed => "its program has confined itself (seccomp)",
            Self::UnseenIoUring => "the program has an io_uring whose entries cannot be seen",
            Self::Multipath => "of Multipath TCP, or made as such",
            Self::IoUring => "the program uses it by io_uring, past the library",
            Self::Profile => "no stream of large calls: the profile leaves it to the kernel",
        }
    }

    /// The reason of this number.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            1 => Self::PeerNotUpgraded,
            2 => Self::NoRendezvous,
            11 => Self::Over,
            12 => Self::NoBarriers,
            3 => Self::NotProven,
            4 => Self::NoMemory,
            5 => Self::Broken,
            6 => Self::Usage,
            7 => Self::HandedOff,
            8 => Self::Kind,
            9 => Self::WakeUp,
            10 => Self::Sandboxed,
            13 => Self::UnseenIoUring,
            14 => Self::IoUring,
            15 => Self::Multipath,
            16 => Self::Profile,
            _ => Self::None,
        }
    }
}
