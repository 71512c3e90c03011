//! An operator: says things to the manager of a run, and hears the answers.

use std::time::{Duration, Instant};

use super::{PartError, hello, read_batch};
use crate::clock::system_time;
use crate::config::Config;
use crate::monitor::{View, Viewer};
use crate::net::{Address, Net, NetError, Outbox, RETRY};
use crate::wire::{Control, Role};

/// A link to the manager.
pub struct Operator {
    net: Net,
    link: usize,
    outbox: Outbox,
    address: Address,
}

impl Operator {
    /// Connects, also to a manager that is too busy to answer at once.
    ///
    /// # Errors
    ///
    /// There is no manager, or it does not answer in time.
    pub fn connect(config: &Config) -> Result<Self, PartError> {
        let mut net = Net::new(config)?;
        let address = Address::of_manager(config);
        let patience = system_time(config.patience);
        let deadline = Instant::now() + patience;
        let link = loop {
            match net.connect(&address) {
                Ok(link) => break link,
                // Somebody listens, and is busy.
                Err(error) if error.is_timeout() => {
                    if Instant::now() > deadline {
                        return Err(missing(&address, patience, error));
                    }
                }
                Err(_) => return Err(PartError::NoRun(address)),
            }
        };
        let mut outbox = Outbox::default();
        outbox.push(&hello(config, Role::Operator));
        Ok(Self {
            net,
            link,
            outbox,
            address,
        })
    }

    /// Says `message`, and hears answers until `take` has what it wants.
    fn ask<T>(
        &mut self,
        message: &Control,
        patience: Duration,
        mut take: impl FnMut(Control) -> Option<T>,
    ) -> Result<T, PartError> {
        let deadline = Instant::now() + patience;
        self.outbox.push(message);
        loop {
            let link = self.net.link(self.link)?;
            let sent = self.outbox.flush(link);
            let heard = sent.and_then(|()| link.receive(read_batch));
            let heard = heard.map_err(|error| missing(&self.address, patience, error))?;
            match heard.transpose()? {
                Some(messages) => {
                    let mut answers = messages.into_iter().filter_map(&mut take);
                    if let Some(answer) = answers.next() {
                        return Ok(answer);
                    }
                }
                None => self.net.wait(RETRY)?,
            }
            if Instant::now() > deadline {
                return Err(missing(&self.address, patience, NetError::Ended));
            }
        }
    }

    /// Gives an order, and the answer to it.
    ///
    /// # Errors
    ///
    /// The manager is lost, does not answer in time, or refuses.
    pub fn order(&mut self, message: &Control, patience: Duration) -> Result<String, PartError> {
        let answer = self.ask(message, patience, |answer| match answer {
            Control::Answer { text } => Some(Ok(text)),
            Control::Refused { reason } => Some(Err(PartError::Refused(reason))),
            _ => None,
        });
        answer?
    }

    /// Looks at the run; of the event log from this line on.
    ///
    /// # Errors
    ///
    /// As [`Operator::order`].
    pub fn look(&mut self, log_from: u64, patience: Duration) -> Result<View, PartError> {
        let mut viewer = Viewer::default();
        self.ask(&Control::Show { log_from }, patience, |answer| {
            viewer.take(answer)
        })
    }
}

fn missing(address: &Address, patience: Duration, error: NetError) -> PartError {
    PartError::NoManager {
        address: address.clone(),
        patience,
        reason: error.to_string(),
    }
}

/// Says `message` to the manager and gives its answer.
///
/// # Errors
///
/// The manager cannot be reached, does not answer, or refuses.
pub fn order(config: &Config, message: &Control) -> Result<String, PartError> {
    Operator::connect(config)?.order(message, system_time(config.patience))
}
