//! Consumers: how a program of the user's takes built events from a builder of this host
//! (`sink.kind = "hand-over"`).
//!
//! A consumer may come and go. An event is done with when the next one is asked for; a consumer
//! that ends, or dies, before that leaves it to the next consumer. So each event is taken at
//! least once, in the order in which the builder closed them.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use barewire_daq::config::Config;
//! use barewire_daq::consumer::Consumer;
//!
//! let config = Config::load(Path::new("daq.toml")).expect("a good configuration");
//! let mut consumer = Consumer::connect(&config, 0, Duration::from_secs(10)).expect("a builder");
//! while let Some(event) = consumer.next_event(None).expect("an event, or the end of the run") {
//!     let bytes: usize = event.fragments.iter().map(|it| it.data.len()).sum();
//!     println!("event {}: {bytes} bytes, {} fragments missing", event.event, event.missing);
//! }
//! ```

use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, Node, NodeConfig};

use crate::config::Config;
use crate::record::{self, RecordError, Recorded};
use crate::sink::{GREETING_BYTES, MAGIC, MESSAGE_BYTES_MAX, name_of};

/// Read messages are cleared away when they are so many bytes.
const READ_BYTES: usize = 1 << 20;

/// Why there is no event.
#[derive(Debug, thiserror::Error)]
pub enum ConsumerError {
    /// There is no such builder, or it has ended; connect again if a run is to come.
    #[error("{0}")]
    Net(#[from] barewire::Error),
    /// Nothing came in time.
    #[error("no event within {0:?}")]
    Timeout(Duration),
    /// What came is no event.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// Who answers is no builder.
    #[error("the process that answers there is not a builder")]
    Foreign,
}

/// A consumer of a builder's events.
#[derive(Debug)]
pub struct Consumer {
    // Before its node: a connection ends before that.
    connection: Connection,
    _node: Node,
    run: u32,
    builder: u16,
    bytes: Vec<u8>,
    at: usize,
    message: Vec<u8>,
    done: u64,
    holds: bool,
}

impl Consumer {
    /// Connects to a builder of this host, and waits for it for `patience`.
    ///
    /// # Errors
    ///
    /// There is none, or it is none of ours.
    pub fn connect(
        config: &Config,
        builder: u16,
        patience: Duration,
    ) -> Result<Self, ConsumerError> {
        let node = Node::with_config(NodeConfig {
            ring_bytes: config.ring_bytes,
            message_bytes_max: MESSAGE_BYTES_MAX,
            ..NodeConfig::default()
        })?;
        let options = ConnectOptions {
            timeout: patience,
            ..ConnectOptions::default()
        };
        let mut connection = node.connect_with(&name_of(config, builder), &options)?;
        let mut message = Vec::new();
        let greeted = connection
            .receiver()
            .recv_into_timeout(&mut message, patience)?;
        if greeted.is_none() {
            return Err(ConsumerError::Timeout(patience));
        }
        if message.len() != GREETING_BYTES || !message.starts_with(MAGIC) {
            return Err(ConsumerError::Foreign);
        }
        let [.., a, b, c, d, e, f, _, _] = message[..] else {
            return Err(ConsumerError::Foreign);
        };
        Ok(Self {
            connection,
            _node: node,
            run: u32::from_le_bytes([a, b, c, d]),
            builder: u16::from_le_bytes([e, f]),
            bytes: Vec::new(),
            at: 0,
            message,
            done: 0,
            holds: false,
        })
    }

    /// The run whose events come.
    #[must_use]
    pub const fn run(&self) -> u32 {
        self.run
    }

    /// The builder.
    #[must_use]
    pub const fn builder(&self) -> u16 {
        self.builder
    }

    /// The next event; the one before is done with. Waits for at most `timeout`, or for ever.
    /// `None`: the run is over, or another consumer has come.
    ///
    /// # Errors
    ///
    /// Nothing came in time, or the builder has died, or sends what is not ours.
    pub fn next_event(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Recorded>, ConsumerError> {
        self.finish_last()?;
        let deadline = timeout.map(|it| Instant::now() + it);
        loop {
            if let Some((event, bytes)) = record::parse(&self.bytes[self.at..])? {
                self.at += bytes;
                self.holds = true;
                return Ok(Some(event));
            }
            if self.at >= READ_BYTES || self.at == self.bytes.len() {
                self.bytes.drain(..self.at);
                self.at = 0;
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            self.message.clear();
            match self
                .connection
                .receiver()
                .recv_into_timeout(&mut self.message, left)
            {
                Ok(Some(_)) => self.bytes.extend_from_slice(&self.message),
                Ok(None) => return Err(ConsumerError::Timeout(timeout.unwrap_or_default())),
                Err(barewire::Error::Finished | barewire::Error::PeerGone) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tells the builder that the last event is done with, without waiting for another one.
    ///
    /// # Errors
    ///
    /// The builder has died.
    pub fn finish_last(&mut self) -> Result<(), ConsumerError> {
        if core::mem::take(&mut self.holds) {
            self.done += 1;
            match self.connection.send(&self.done.to_le_bytes()) {
                // It has ended: that is told after its last events.
                Ok(()) | Err(barewire::Error::Finished | barewire::Error::PeerGone) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
