//! The parts as processes: each an event loop around a core of `barewire-proto`.
//!
//! A part connects to the manager and says who it is. The manager welcomes it, or refuses:
//! another configuration, or no such part. When the run is configured, a source connects to
//! all builders that are there and says that it is ready; the manager starts the run when all
//! are. Parts say every [`BEAT`] that they live, and what their accounts are.

mod builder;
mod feed;
mod manager;
mod operator;
mod source;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use barewire_proto::evb::{Part, RunState};
use barewire_sys::process::getpid;

use crate::clock::{Clock, system_time, until};
use crate::config::Config;
use crate::credential::Credential;
use crate::net::{Address, Incoming, Net, NetError, Outbox, RETRY};
use crate::sink::SinkError;
use crate::wire::{Batch, Control, Role, WireError};

pub use builder::run as run_builder;
pub use manager::{Ended, Options, Verdict, run as run_manager};
pub use operator::{Operator, order};
pub use source::{run as run_source, run_detector};

/// How often parts say that they live.
pub const BEAT: Duration = Duration::from_millis(50);
/// How long a part that is started again tries to reach the manager. The run has probably ended; if it has not,
/// whoever started the part starts it once more.
const PATIENCE_STARTED_AGAIN: Duration = Duration::from_secs(1);

/// Why a part ends before the run.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A part of that number is not in the configuration.
    #[error("no such part: the configuration has {0} of them, numbered from 0")]
    NoSuchPart(u16),
    /// The manager cannot be reached.
    #[error("the manager does not answer at {address} within {patience:?}: {reason}")]
    NoManager {
        /// Where.
        address: Address,
        /// For how long.
        patience: Duration,
        /// The last error.
        reason: String,
    },
    /// Nobody listens at the manager's address.
    #[error("no run of this configuration is live: nothing listens at {0}")]
    NoRun(Address),
    /// Nobody can listen where the configuration says.
    #[error("{0}")]
    Listen(String),
    /// The manager has turned it away.
    #[error("the manager refuses: {0}")]
    Refused(String),
    /// The manager has gone.
    #[error("the manager was lost: {0}")]
    ManagerLost(String),
    /// The manager has gone before it let this part join.
    #[error("the run ended before this part had joined it: {0}")]
    NotJoined(String),
    /// It has nothing to work with.
    #[error("{0}")]
    Net(#[from] NetError),
    /// The core cannot be made.
    #[error("{0}")]
    Core(#[from] barewire_proto::evb::ConfigError),
    /// The kernel does not shape.
    #[error("{0}")]
    Shape(#[from] crate::shape::ShapeError),
    /// Events cannot be recorded, or a file of the manager's not be written: which file, why, and what
    /// its file system has.
    #[error("{0}")]
    Record(String),
    /// Recorded files cannot be replayed.
    #[error("replay: {0}")]
    Replay(#[from] crate::replay::ReplayError),
    /// The sources are programs of the user's, and this is none of them; or the other way round.
    #[error("source.kind: {0}")]
    Kind(&'static str),
    /// Somebody sends what is not ours.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// By a signal, before there was a run.
    #[error("asked to end before all parts had joined")]
    Interrupted,
    /// Not all parts have come.
    #[error("missing after {patience:?}: {who}")]
    Missing {
        /// Who.
        who: String,
        /// For how long it was waited.
        patience: Duration,
    },
}

impl PartError {
    /// Exit status of the process of a part that ended so: [`NOT_JOINED`], or 2.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::NotJoined(_) => NOT_JOINED,
            _ => 2,
        }
    }
}

/// Exit status of a part that lost the manager before it had joined the run. Such a part had nothing that could
/// get lost, so that who started it need not report its end.
pub const NOT_JOINED: u8 = 6;

impl From<SinkError> for PartError {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Record(problem) => Self::Record(problem),
            SinkError::Net(error) => Self::Net(error),
        }
    }
}

/// Why a part cannot listen at `address`, with the key that names it.
fn cannot_listen(address: &Address, key: &'static str, error: NetError) -> PartError {
    PartError::Listen(match (address, &error) {
        (Address::Tcp(at) | Address::Host { at, .. }, NetError::Tcp(error)) => {
            crate::config::fault(key, at, error)
        }
        (Address::Host { at, .. }, _) => format!("{key} = \"{at}\": {error}"),
        _ => format!("run.name: the name `{address}` cannot be used: {error}"),
    })
}

/// A batch of control messages that has come.
fn read_batch(message: &Incoming<'_>) -> Result<Vec<Control>, WireError> {
    let mut bytes = vec![0; message.len()];
    message.read(0, &mut bytes);
    Batch::parse(&bytes)
}

/// Why the manager could not be reached, each time.
#[derive(Default)]
struct Reasons(BTreeMap<String, u32>);

impl Reasons {
    fn add(&mut self, error: &NetError) {
        // A link to another host is tried for longer than we wait at a time: what became of it says more.
        let count = u32::from(!error.is_timeout());
        *self.0.entry(error.to_string()).or_default() += count;
    }

    /// The usual one. The first may be that the manager was not there yet, the last that it was there no more.
    fn usual(self) -> String {
        let usual = self.0.into_iter().max_by_key(|it| it.1);
        usual.map_or_else(String::new, |it| it.0)
    }
}

/// A part's link to its manager.
struct Home {
    link: usize,
    outbox: Outbox,
    clock: Clock,
    run: u32,
    /// Where the run stood when it was welcomed.
    found: RunState,
    next_beat: Instant,
    /// Came together with the welcome.
    early: Vec<Control>,
}

impl Home {
    /// Connects, says who it is, and waits to be welcomed.
    fn find(net: &mut Net, config: &Config, part: Part) -> Result<Self, PartError> {
        let address = Address::of_manager(config);
        let is_started_again = Credential::own().start > 0;
        let patience = match is_started_again {
            true => system_time(config.patience).min(PATIENCE_STARTED_AGAIN),
            false => system_time(config.patience),
        };
        let deadline = Instant::now() + patience;
        let missing = |reason: String| match is_started_again {
            true => PartError::NotJoined(reason),
            false => PartError::NoManager {
                address: address.clone(),
                patience,
                reason,
            },
        };
        let mut reasons = Reasons::default();
        let link = loop {
            match net.connect(&address) {
                Ok(link) => break link,
                Err(error) => reasons.add(&error),
            }
            if Instant::now() > deadline {
                return Err(missing(reasons.usual()));
            }
            std::thread::sleep(RETRY);
        };
        let mut outbox = Outbox::default();
        outbox.push(&hello(config, Role::Part(part)));
        loop {
            let sent = outbox.flush(net.link(link)?);
            sent.map_err(|error| PartError::NotJoined(error.to_string()))?;
            let answer = net.link(link)?.receive(read_batch);
            match answer.map_err(|error| PartError::NotJoined(error.to_string()))? {
                None => net.wait(RETRY)?,
                Some(messages) => {
                    if let Some(welcome) = welcomed(messages?)? {
                        return Ok(Self {
                            link,
                            outbox,
                            clock: welcome.clock,
                            run: welcome.run,
                            found: welcome.found,
                            next_beat: Instant::now(),
                            early: welcome.early,
                        });
                    }
                }
            }
            if Instant::now() > deadline {
                return Err(missing("it does not welcome us".to_owned()));
            }
        }
    }

    /// What the manager says.
    fn hear(&mut self, net: &mut Net) -> Result<Vec<Control>, PartError> {
        if !self.early.is_empty() {
            return Ok(core::mem::take(&mut self.early));
        }
        let lost = |error: NetError| PartError::ManagerLost(error.to_string());
        match net.link(self.link)?.receive(read_batch).map_err(lost)? {
            None => Ok(Vec::new()),
            Some(messages) => Ok(messages?),
        }
    }

    /// Whether it is time to say that it lives.
    fn beat_is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next_beat;
        if due {
            self.next_beat = now + BEAT;
        }
        due
    }

    fn flush(&mut self, net: &mut Net) -> Result<(), PartError> {
        // That the link has ended is told when it is read, after the manager's last words.
        let _ = self.outbox.flush(net.link(self.link)?);
        Ok(())
    }

    /// How long it may sleep.
    fn pause(&self, deadline: Option<barewire_units::Instant>) -> Duration {
        let beat = self.next_beat.saturating_duration_since(Instant::now());
        let core = deadline.map(|at| until(self.clock.now(), at));
        core.map_or(beat, |core| core.min(beat))
    }
}

/// The first word of a part.
fn hello(config: &Config, role: Role) -> Control {
    let Credential { secret, start } = Credential::own();
    Control::Hello {
        secret,
        start,
        role,
        digest: config.digest,
        pid: u32::try_from(getpid()).unwrap_or(0),
    }
}

/// What the welcome says, and what came after it.
struct Welcome {
    clock: Clock,
    run: u32,
    found: RunState,
    early: Vec<Control>,
}

/// The welcome; what came before is of no use.
fn welcomed(messages: Vec<Control>) -> Result<Option<Welcome>, PartError> {
    let mut messages = messages.into_iter();
    while let Some(message) = messages.next() {
        match message {
            Control::Welcome { now_ps, run, state } => {
                return Ok(Some(Welcome {
                    clock: Clock::set(now_ps),
                    run,
                    found: state,
                    early: messages.collect(),
                }));
            }
            Control::Refused { reason } => return Err(PartError::Refused(reason)),
            _ => {}
        }
    }
    Ok(None)
}

/// The name of a part, for people.
#[must_use]
pub fn name_of(part: Part) -> String {
    match part {
        Part::Source(id) => format!("source {}", id.0),
        Part::Builder(id) => format!("builder {}", id.0),
    }
}
