//! Control messages, and batches of them.

use barewire_proto::evb::{BuilderId, Command, Part, RunState, SourceId};

use super::{KIND_CONTROL, MAGIC, VERSION, WireError, check_start, crc32c, u32_at};

/// Bytes before the first message of a batch.
const HEAD_BYTES: usize = 8;
/// Longest list in a message.
const LIST_MAX: u32 = 1 << 16;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A source or a builder.
    Part(Part),
    /// Somebody who gives commands.
    Operator,
}

/// A value that goes into a message.
trait Field: Sized {
    fn put(&self, into: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Result<Self, WireError>;
}

fn bytes<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], WireError> {
    let Some((first, rest)) = from.split_first_chunk::<N>() else {
        return Err(WireError::Short {
            what: "control message",
            found: from.len(),
            needed: N,
        });
    };
    *from = rest;
    Ok(*first)
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Field for $number {
            fn put(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Result<Self, WireError> {
                bytes(from).map(<$number>::from_le_bytes)
            }
        })*
    };
}

numbers!(u8 u16 u32 u64);

/// Its number of elements in 4 bytes, then those.
impl<T: Field> Field for Vec<T> {
    fn put(&self, into: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX).min(LIST_MAX);
        count.put(into);
        self.iter().take(count as usize).for_each(|it| it.put(into));
    }

    fn take(from: &mut &[u8]) -> Result<Self, WireError> {
        let count = u32::take(from)?;
        if count > LIST_MAX {
            return Err(WireError::Value {
                field: "elements of a list",
                value: u64::from(count),
            });
        }
        (0..count).map(|_| T::take(from)).collect()
    }
}

/// UTF-8, as a list of bytes; what is not, is replaced.
impl Field for String {
    fn put(&self, into: &mut Vec<u8>) {
        self.as_bytes().to_vec().put(into);
    }

    fn take(from: &mut &[u8]) -> Result<Self, WireError> {
        Vec::<u8>::take(from).map(|text| Self::from_utf8_lossy(&text).into_owned())
    }
}

/// 0 and its number: a source; 1 and its number: a builder.
impl Field for Part {
    fn put(&self, into: &mut Vec<u8>) {
        let (kind, id) = match *self {
            Self::Source(SourceId(id)) => (0_u8, id),
            Self::Builder(BuilderId(id)) => (1, id),
        };
        kind.put(into);
        id.put(into);
    }

    fn take(from: &mut &[u8]) -> Result<Self, WireError> {
        match u8::take(from)? {
            0 => Ok(Self::Source(SourceId(u16::take(from)?))),
            1 => Ok(Self::Builder(BuilderId(u16::take(from)?))),
            other => Err(WireError::Value {
                field: "kind of a part",
                value: u64::from(other),
            }),
        }
    }
}

/// As a part; 2 and two bytes: an operator.
impl Field for Role {
    fn put(&self, into: &mut Vec<u8>) {
        match self {
            Self::Part(part) => part.put(into),
            Self::Operator => into.extend_from_slice(&[2, 0, 0]),
        }
    }

    fn take(from: &mut &[u8]) -> Result<Self, WireError> {
        if from.first() != Some(&2) {
            return Part::take(from).map(Self::Part);
        }
        bytes::<3>(from).map(|_| Self::Operator)
    }
}

macro_rules! codes {
    ($type:ident: $($name:ident = $code:literal),*) => {
        impl Field for $type {
            fn put(&self, into: &mut Vec<u8>) {
                let code: u8 = match self { $(Self::$name => $code),* };
                code.put(into);
            }

            fn take(from: &mut &[u8]) -> Result<Self, WireError> {
                match u8::take(from)? {
                    $($code => Ok(Self::$name),)*
                    other => Err(WireError::Value {
                        field: stringify!($type),
                        value: u64::from(other),
                    }),
                }
            }
        }
    };
}

codes!(RunState: Idle = 0, Configured = 1, Running = 2, Paused = 3, Draining = 4, Failed = 5);
codes!(Command: Configure = 0, Start = 1, Pause = 2, Resume = 3, Drain = 4, Abort = 5, Drained = 6, Fail = 7);

macro_rules! messages {
    ($($tag:literal $(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// A control message. Its tag byte is the number of its line here, from 1.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Control {
            $($(#[$doc])* $name { $($(#[$of_field])* $field: $type),* },)*
        }

        impl Field for Control {
            fn put(&self, into: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field),* } => {
                        into.push($tag);
                        $($field.put(into);)*
                    })*
                }
            }

            fn take(from: &mut &[u8]) -> Result<Self, WireError> {
                match u8::take(from)? {
                    $($tag => Ok(Self::$name { $($field: Field::take(from)?),* }),)*
                    other => Err(WireError::Value {
                        field: "tag of a control message",
                        value: u64::from(other),
                    }),
                }
            }
        }
    };
}

messages! {
    1 /// First on every connection: who is there.
    Hello {
        /// Who.
        role: Role,
        /// CRC-32C of its configuration.
        digest: u32,
        /// Its process.
        pid: u32,
        /// Of its [`Credential`](crate::credential::Credential).
        secret: u64,
        /// Of its credential, too.
        start: u32,
    }
    2 /// To a part that may take part.
    Welcome {
        /// The manager's clock, in ps.
        now_ps: u64,
        /// The run.
        run: u32,
        /// Where it stands.
        state: RunState,
    }
    3 /// To a part that may not, or as answer to a command.
    Refused {
        /// Why.
        reason: String,
    }
    4 /// The speaker lives.
    Alive {
        /// For how long it may not say so again, because it is about to do something long; 0: as
        /// always.
        busy_ms: u32,
    }
    5 /// Events have happened.
    Trigger {
        /// The first.
        first: u64,
        /// How many, with the numbers after it.
        count: u32,
        /// When, in ns on the manager's clock.
        at_ns: u64,
    }
    6 /// Events have builders.
    Assign {
        /// The first event.
        first: u64,
        /// Builders of it and of those after it.
        builders: Vec<u16>,
        /// Their starts in ps on the manager's clock, if it sets any.
        starts: Vec<u64>,
    }
    7 /// A part is lost.
    Lost {
        /// Which.
        part: Part,
    }
    8 /// A part is there.
    Joined {
        /// Which.
        part: Part,
        /// From which event on its fragments count.
        event: u64,
    }
    9 /// The state of the run.
    Enter {
        /// Which.
        state: RunState,
        /// By what.
        by: Command,
        /// The run.
        run: u32,
    }
    10 /// The part is ready for this run.
    Ready {
        /// Which.
        run: u32,
    }
    11 /// Events are closed.
    Close {
        /// Event, and how many fragments are expected (high half) and present.
        events: Vec<u64>,
        /// Of each: expected in the high half, present in the low half.
        outcomes: Vec<u64>,
    }
    12 /// The builder wants events.
    Request {
        /// How many.
        events: u32,
    }
    13 /// The source may send its fragments of these events.
    Grant {
        /// Which.
        events: Vec<u64>,
    }
    14 /// The source's fragment of this event is not wanted.
    Withdraw {
        /// Which.
        event: u64,
    }
    15 /// The account of a part.
    Account {
        /// Of which run.
        run: u32,
        /// 1: nothing will change any more.
        last: u8,
        /// The sums, in the order of the ledger.
        sums: Vec<u64>,
    }
    16 /// A command of an operator.
    Order {
        /// Which.
        command: Command,
    }
    17 /// An answer to it, or to [`Control::Status`].
    Answer {
        /// For people.
        text: String,
    }
    18 /// How does the run do?
    Status {}
    19 /// Everything is over.
    Quit {}
    20 /// Something to be written to the event log.
    Note {
        /// Severity: 0 information, 1 warning, 2 error.
        severity: u8,
        /// For people.
        text: String,
    }
    21 /// How values of a builder are spread, see [`crate::spread`].
    Spread {
        /// In which run.
        run: u32,
        /// Which of them.
        of: u8,
        /// Values, and how often each came.
        counts: Vec<u64>,
    }
    22 /// Show everything; the answer is [`Control::ShownPart`] for each part, and [`Control::Shown`].
    Show {
        /// The first line of the event log that is wanted.
        log_from: u64,
    }
    23 /// A part, shown.
    ShownPart {
        /// Which.
        part: Part,
        /// 1: it takes part.
        live: u8,
        /// How often it began.
        lives: u32,
        /// Its last report, as in its account, without what is missing by source.
        sums: Vec<u64>,
    }
    24 /// The run, shown; the last of the answer.
    Shown {
        /// Which.
        run: u32,
        /// Where it stands.
        state: RunState,
        /// Since it was started, in ns.
        age_ns: u64,
        /// Processor time of the manager, in ns.
        processor_ns: u64,
        /// The manager's account, as [`crate::accounts::event_numbers`] has it.
        events: Vec<u64>,
        /// Of building times: median, 90 %, 99 %, 99.9 %, largest, in ns.
        building_ns: Vec<u64>,
        /// The same of events, in bytes.
        event_bytes: Vec<u64>,
        /// Number of the first line.
        log_from: u64,
        /// Lines of the event log.
        log: Vec<String>,
    }
    25 /// A source has fragments that are to be triggered.
    Have {
        /// Of events before this one.
        end: u64,
        /// 1: no more will come.
        last: u8,
    }
    26 /// The builder cannot record: its file system takes no more. It tries again.
    Stuck {
        /// Why; empty: it records again.
        reason: String,
    }
    27 /// The builder has given up recording: the run is to end.
    GaveUp {
        /// Why.
        reason: String,
    }
    28 /// To a builder: the source has no fragment of these events, and will not get one.
    Lack {
        /// Of which run.
        run: u32,
        /// Which.
        events: Vec<u64>,
    }
    29 /// The builder records in this file from now on.
    Recording {
        /// Its path.
        file: String,
    }
}

/// Control messages that are written one after the other and go together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// One more.
    pub fn push(&mut self, message: &Control) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEAD_BYTES, 0);
            self.bytes[..4].copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, KIND_CONTROL]);
        }
        message.put(&mut self.bytes);
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts the check code in: what is to be sent.
    pub fn seal(&mut self) -> &[u8] {
        if !self.bytes.is_empty() {
            let crc = check_code(&self.bytes);
            self.bytes[4..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        }
        &self.bytes
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Reads a batch.
    ///
    /// # Errors
    ///
    /// It is not one of ours, it is spoilt, or a message in it is.
    pub fn parse(bytes: &[u8]) -> Result<Vec<Control>, WireError> {
        check_start(bytes, KIND_CONTROL)?;
        if bytes.len() < HEAD_BYTES {
            return Err(WireError::Short {
                what: "batch of control messages",
                found: bytes.len(),
                needed: HEAD_BYTES,
            });
        }
        let (found, computed) = (u32_at(bytes, 4), check_code(bytes));
        if found != computed {
            return Err(WireError::Crc {
                what: "batch of control messages",
                found,
                computed,
            });
        }
        let mut rest = &bytes[HEAD_BYTES..];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            messages.push(Control::take(&mut rest)?);
        }
        Ok(messages)
    }
}

fn check_code(bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..4]);
    digest.update(&bytes[HEAD_BYTES..]);
    let crc = digest.finalize() as u32;
    debug_assert!(bytes.len() > HEAD_BYTES || crc == crc32c(&bytes[..4]));
    crc
}
