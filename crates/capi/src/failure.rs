//! What went wrong in a call: its code, whose fault it is, and a text, kept for each thread until its next failure.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use barewire::{AccessError, Error, Fault};

/// What a function returned that failed: a negative number. BW_E_OK is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BwE {
    /// It worked. (Only here so that it has a name: a function returns a count >= 0.)
    Ok = 0,
    /// A pointer is null that must not be, or a handle is all zero.
    Null = -1,
    /// The handle is not open: closed already, never opened, or made of something else.
    Handle = -2,
    /// Another thread is in a call with this handle. Clone it, or split the connection.
    InUse = -3,
    /// Not possible now: first commit or abandon what is reserved, or peek before you read.
    WrongOrder = -4,
    /// An argument has a value that it cannot have.
    Argument = -5,
    /// The library itself is at fault. Please report it, with the text.
    Internal = -6,
    /// Nothing is there to receive, or there is no room to send, and the call was not to wait.
    WouldBlock = -7,
    /// The time allowed has passed.
    Timeout = -8,
    /// A name is empty, too long, or has a zero byte.
    BadName = -9,
    /// Somebody listens under the name already.
    NameTaken = -10,
    /// Nobody listens under the name.
    NoSuchName = -11,
    /// This node connected to a name of its own, and did not accept.
    OwnName = -12,
    /// The process that holds the name belongs to another user than expected.
    WrongOwner = -13,
    /// Another host cannot be reached, or is not one to talk to.
    HostUnreachable = -14,
    /// The link to another host is down.
    HostLost = -15,
    /// The other side refused the connection.
    Refused = -16,
    /// A value is outside what is allowed.
    OutOfLimits = -17,
    /// There are as many as there may be.
    LimitReached = -18,
    /// The peer's node has this aperture already.
    GrantedAlready = -19,
    /// The message is longer than the receiver takes.
    TooLong = -20,
    /// The buffer is too small. needed_bytes of bw_error says how large it must be; nothing is lost.
    BufferTooSmall = -21,
    /// The peer has finished sending, and everything it sent has been received.
    Finished = -22,
    /// The peer has stopped receiving.
    PeerDeaf = -23,
    /// The peer closed the connection or its node.
    PeerGone = -24,
    /// The peer's process died.
    PeerDied = -25,
    /// The peer broke the protocol; the connection is closed.
    PeerMisbehaved = -26,
    /// This side has finished sending, or a long message timed out half-sent.
    Closed = -27,
    /// A forked child cannot use what its parent made.
    Forked = -28,
    /// The aperture and the connection belong to different nodes.
    OtherNode = -29,
    /// An access to an aperture lies outside of it, or not at a multiple of 8.
    OutOfRange = -30,
    /// The aperture may only be read.
    ReadOnly = -31,
    /// The owner has revoked the aperture.
    Revoked = -32,
    /// A tripwire could not be set.
    Tripwire = -33,
    /// A setting of the node was not changed.
    BadSetting = -34,
    /// The capture file cannot be written.
    Capture = -35,
    /// The system refused something.
    System = -36,
    /// An error that this version of the library has no code for; its text says what it is.
    Other = -37,
}

/// Whose fault an error is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BwFault {
    /// There was no error yet.
    None = 0,
    /// The caller asked for something that cannot be done, and can fix the call.
    Caller = 1,
    /// The peer left, died, refused, broke the protocol, or took too long.
    Peer = 2,
    /// The machine: a limit, memory, a missing kernel feature; with BW_E_INTERNAL the library.
    System = 3,
}

/// The last error of a thread.
#[repr(C)]
pub struct BwError {
    /// A value of bw_e: what the call returned.
    pub code: i32,
    /// A value of bw_fault.
    pub fault: i32,
    /// What was wrong, and where possible what to do; never null.
    pub text: *const c_char,
    /// With BW_E_BUFFER_TOO_SMALL: how many bytes the buffer must have.
    pub needed_bytes: u64,
    /// With BW_E_PEER_DIED: the process, if it is known.
    pub pid: i32,
}

/// The details of a failure that is not just «not now».
#[derive(Debug)]
pub(crate) struct Details {
    code: BwE,
    fault: BwFault,
    text: Cow<'static, str>,
    needed_bytes: u64,
    pid: i32,
}

/// Why a call did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing there or no room. It costs nothing to make: programs poll.
    WouldBlock,
    /// The time has passed.
    TimedOut,
    /// Anything else.
    Other(Box<Details>),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The caller's own mistake, found before the network was asked.
    #[cold]
    pub fn caller(code: BwE, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::of(code, BwFault::Caller, text)
    }

    #[cold]
    fn of(code: BwE, fault: BwFault, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Other(Box::new(Details {
            code,
            fault,
            text: text.into(),
            needed_bytes: 0,
            pid: 0,
        }))
    }

    /// A buffer that is too small for what is to be copied into it.
    #[cold]
    pub fn too_small(needed_bytes: usize, buffer_bytes: usize) -> Failure {
        Error::BufferTooSmall {
            needed_bytes,
            buffer_bytes,
        }
        .into()
    }

    /// A panic of the library: a bug.
    #[cold]
    pub fn panicked(panic: &(dyn Any + Send)) -> Failure {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        let text = format!("a bug in the library, please report it: {said}");
        Failure::of(BwE::Internal, BwFault::System, text)
    }

    /// Keeps it as the last error of this thread; its code.
    #[cold]
    pub fn keep(self) -> i32 {
        let (error, text) = match self {
            Failure::WouldBlock => (brief(BwE::WouldBlock, NOT_NOW), None),
            Failure::TimedOut => (brief(BwE::Timeout, TIMED_OUT), None),
            Failure::Other(details) => {
                let text = c_text(&details.text);
                (details.for_c(&text), Some(text))
            }
        };
        let code = error.code;
        // At the end of a thread, when its last error has gone, the code has to do.
        let _ = LAST.try_with(|last| {
            let before = last.borrow_mut().1.take();
            *last.borrow_mut() = (error, text);
            drop(before);
        });
        code
    }
}

impl Details {
    fn for_c(&self, text: &CString) -> BwError {
        BwError {
            code: self.code as i32,
            fault: self.fault as i32,
            text: text.as_ptr(),
            needed_bytes: self.needed_bytes,
            pid: self.pid,
        }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let mut details = Details {
            code: code_of(&error),
            fault: fault_of(&error),
            text: Cow::Owned(error.to_string()),
            needed_bytes: 0,
            pid: 0,
        };
        match error {
            Error::BufferTooSmall { needed_bytes, .. } => {
                details.needed_bytes = needed_bytes as u64;
            }
            Error::PeerDied { pid } => details.pid = pid,
            _ => {}
        }
        Failure::Other(Box::new(details))
    }
}

impl From<AccessError> for Failure {
    #[cold]
    fn from(error: AccessError) -> Failure {
        Error::from(error).into()
    }
}

pub(crate) fn fault_of(error: &Error) -> BwFault {
    match error.fault() {
        Fault::Caller => BwFault::Caller,
        Fault::Peer => BwFault::Peer,
        Fault::Environment => BwFault::System,
    }
}

pub(crate) fn code_of(error: &Error) -> BwE {
    match error {
        Error::BadName { .. } => BwE::BadName,
        Error::NameTaken { .. } => BwE::NameTaken,
        Error::NoSuchName { .. } => BwE::NoSuchName,
        Error::OwnName { .. } => BwE::OwnName,
        Error::WrongOwner { .. } => BwE::WrongOwner,
        Error::HostUnreachable { .. } => BwE::HostUnreachable,
        Error::HostLost { .. } => BwE::HostLost,
        Error::Refused { .. } => BwE::Refused,
        Error::Timeout => BwE::Timeout,
        Error::OutOfLimits { .. } => BwE::OutOfLimits,
        Error::LimitReached { .. } => BwE::LimitReached,
        Error::GrantedAlready => BwE::GrantedAlready,
        Error::TooLong { .. } => BwE::TooLong,
        Error::BufferTooSmall { .. } => BwE::BufferTooSmall,
        Error::Finished => BwE::Finished,
        Error::PeerDeaf => BwE::PeerDeaf,
        Error::PeerGone | Error::Access(AccessError::PeerGone) => BwE::PeerGone,
        Error::PeerDied { .. } => BwE::PeerDied,
        Error::PeerMisbehaved(_) => BwE::PeerMisbehaved,
        Error::Closed => BwE::Closed,
        Error::Forked => BwE::Forked,
        Error::OtherNode => BwE::OtherNode,
        Error::Access(AccessError::ReadOnly) => BwE::ReadOnly,
        Error::Access(AccessError::Revoked) => BwE::Revoked,
        Error::Access(_) => BwE::OutOfRange,
        Error::Arm(_) => BwE::Tripwire,
        Error::BadSetting { .. } => BwE::BadSetting,
        Error::Capture { .. } => BwE::Capture,
        Error::System(_) => BwE::System,
        _ => BwE::Other,
    }
}

/// A text for C, which ends with its first zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

const NOT_NOW: &CStr = c"nothing is there now, or there is no room";
const TIMED_OUT: &CStr = c"timed out";

/// An error that is all said by its code.
const fn brief(code: BwE, text: &'static CStr) -> BwError {
    let fault = match code {
        BwE::Ok => BwFault::None,
        _ => BwFault::Peer,
    };
    BwError {
        code: code as i32,
        fault: fault as i32,
        text: text.as_ptr(),
        needed_bytes: 0,
        pid: 0,
    }
}

thread_local! {
    /// The last error, and the text that it points to if that is its own.
    static LAST: RefCell<(BwError, Option<CString>)> =
        const { RefCell::new((brief(BwE::Ok, c"no error yet"), None)) };
}

/// Only shared between threads to be read.
struct Lost(BwError);

// SAFETY: its text is a constant.
unsafe impl Sync for Lost {}

/// What a thread gets whose last error has gone, because it is about to end.
static LOST: Lost = Lost(brief(
    BwE::Other,
    c"this thread is ending: its last error is gone",
));

/// The error of the last call of this thread that failed. Calls that succeed do not change it.
/// The result is never null; it is valid until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn bw_last_error() -> *const BwError {
    let last = LAST.try_with(|last| {
        let last = last.as_ptr();
        // SAFETY: a field of what this thread has; no reference to it is made.
        unsafe { &raw const (*last).0 }
    });
    last.unwrap_or(&raw const LOST.0)
}

/// The name of a code, such as "BW_E_TIMEOUT"; for any other number "BW_E_UNKNOWN". Never null.
#[unsafe(no_mangle)]
pub extern "C" fn bw_code_name(code: i32) -> *const c_char {
    usize::try_from(-i64::from(code))
        .ok()
        .and_then(|nth| NAMES.get(nth))
        .unwrap_or(&c"BW_E_UNKNOWN")
        .as_ptr()
}

/// By the code, made positive.
const NAMES: [&CStr; 38] = [
    c"BW_E_OK",
    c"BW_E_NULL",
    c"BW_E_HANDLE",
    c"BW_E_IN_USE",
    c"BW_E_WRONG_ORDER",
    c"BW_E_ARGUMENT",
    c"BW_E_INTERNAL",
    c"BW_E_WOULD_BLOCK",
    c"BW_E_TIMEOUT",
    c"BW_E_BAD_NAME",
    c"BW_E_NAME_TAKEN",
    c"BW_E_NO_SUCH_NAME",
    c"BW_E_OWN_NAME",
    c"BW_E_WRONG_OWNER",
    c"BW_E_HOST_UNREACHABLE",
    c"BW_E_HOST_LOST",
    c"BW_E_REFUSED",
    c"BW_E_OUT_OF_LIMITS",
    c"BW_E_LIMIT_REACHED",
    c"BW_E_GRANTED_ALREADY",
    c"BW_E_TOO_LONG",
    c"BW_E_BUFFER_TOO_SMALL",
    c"BW_E_FINISHED",
    c"BW_E_PEER_DEAF",
    c"BW_E_PEER_GONE",
    c"BW_E_PEER_DIED",
    c"BW_E_PEER_MISBEHAVED",
    c"BW_E_CLOSED",
    c"BW_E_FORKED",
    c"BW_E_OTHER_NODE",
    c"BW_E_OUT_OF_RANGE",
    c"BW_E_READ_ONLY",
    c"BW_E_REVOKED",
    c"BW_E_TRIPWIRE",
    c"BW_E_BAD_SETTING",
    c"BW_E_CAPTURE",
    c"BW_E_SYSTEM",
    c"BW_E_OTHER",
];
