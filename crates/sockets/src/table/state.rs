//! What a socket is at, and why it is no further.

/// What a record is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// A stream socket that is not connected yet.
    Fresh = 0,
    /// A socket that listens, with our mark.
    Listening = 1,
    /// Connected to a program that may be on board too.
    Candidate = 2,
    /// It looks for its other end.
    Seeking = 3,
    /// It follows the carrier's protocol.
    Up = 4,
    /// The kernel's alone; [`Record::why`] says why.
    Plain = 5,
    /// One thread takes a step towards its other end at this moment.
    Stepping = 6,
}

impl State {
    /// What people are told.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Fresh => "not connected",
            Self::Listening => "listening",
            Self::Candidate => "candidate",
            Self::Seeking | Self::Stepping => "looking for its other end",
            Self::Up => "accelerated",
            Self::Plain => "kernel",
        }
    }

    /// The state of this number.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            0 => Self::Fresh,
            1 => Self::Listening,
            2 => Self::Candidate,
            3 => Self::Seeking,
            4 => Self::Up,
            6 => Self::Stepping,
            _ => Self::Plain,
        }
    }
}

/// Why a socket is the kernel's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Why {
    /// It is not.
    None = 0,
    /// The other end has no mark of ours.
    NotOnBoard = 1,
    /// The other end did not come to the meeting place in time.
    NoMeeting = 2,
    /// The other end hung up before it was found.
    Over = 11,
    /// The process may not use the kernel's barriers.
    NoBarriers = 12,
    /// The other end could not prove who it is.
    NotProven = 3,
    /// Shared memory could not be had, or was not as agreed.
    NoMemory = 4,
    /// The other end broke the carrier's protocol.
    Broken = 5,
    /// The program uses it in a way that only the kernel can serve.
    Usage = 6,
    /// It was given to another program.
    Given = 7,
    /// It is of a kind that is not accelerated.
    Kind = 8,
    /// One end of a pair in one process, with bytes one way only.
    WakeUp = 9,
    /// Its program has confined itself. See `confinement`.
    Confined = 10,
    /// The program has rings of the kernel's, whose entries this library cannot look at.
    Rings = 13,
    /// The program uses it by a ring of the kernel's.
    InRing = 14,
    /// It is one of Multipath TCP.
    Multipath = 15,
    /// The profile upgrades streams of large calls only, and it is none. See `worth`.
    Profile = 16,
}

impl Why {
    /// What people are told: at most 63 bytes.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::NotOnBoard => "the other end is not on board",
            Self::NoMeeting => "the other end did not come to the meeting place",
            Self::Over => "over before the other end was found",
            Self::NoBarriers => "membarrier is forbidden here, or unknown to the kernel",
            Self::NotProven => "the other end could not prove who it is",
            Self::NoMemory => "no shared memory",
            Self::Broken => "the other end broke the protocol",
            Self::Usage => "used in a way that only the kernel serves",
            Self::Given => "shared with, or given to, another program",
            Self::Kind => "of a kind that is not accelerated",
            Self::WakeUp => "both ends in one process, bytes one way: a wake-up",
            Self::Confined => "its program has confined itself (seccomp)",
            Self::Rings => "the program has an io_uring whose entries cannot be seen",
            Self::Multipath => "of Multipath TCP, or made as such",
            Self::InRing => "the program uses it by io_uring, past the library",
            Self::Profile => "no stream of large calls: the profile leaves it to the kernel",
        }
    }

    /// The reason of this number.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            1 => Self::NotOnBoard,
            2 => Self::NoMeeting,
            11 => Self::Over,
            12 => Self::NoBarriers,
            3 => Self::NotProven,
            4 => Self::NoMemory,
            5 => Self::Broken,
            6 => Self::Usage,
            7 => Self::Given,
            8 => Self::Kind,
            9 => Self::WakeUp,
            10 => Self::Confined,
            13 => Self::Rings,
            14 => Self::InRing,
            15 => Self::Multipath,
            16 => Self::Profile,
            _ => Self::None,
        }
    }
}
