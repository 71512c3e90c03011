//! An operator: says one thing to the manager of a running run, and hears the answer.

use std::time::Instant;

use super::{PartError, RETRY, hello, read_batch, system_time};
use crate::config::Config;
use crate::net::{Address, Net, NetError, Outbox};
use crate::wire::{Control, Role};

/// Says `message` to the manager and gives its answer.
///
/// # Errors
///
/// The manager can not be reached, or does not answer.
pub fn order(config: &Config, message: &Control) -> Result<String, PartError> {
    let mut net = Net::new(config)?;
    let address = Address::of_manager(config);
    let patience = system_time(config.patience);
    let deadline = Instant::now() + patience;
    let missing = |error: NetError| PartError::NoManager {
        address: address.clone(),
        patience,
        reason: error.to_string(),
    };
    let link = net.connect(&address).map_err(missing)?;
    let mut outbox = Outbox::default();
    outbox.push(&hello(config, Role::Operator));
    outbox.push(message);
    while Instant::now() < deadline {
        outbox.flush(net.link(link)?).map_err(missing)?;
        let heard = net.link(link)?.receive(read_batch).map_err(missing)?;
        match heard.transpose()?.as_deref() {
            Some([Control::Answer { text }, ..]) => return Ok(text.clone()),
            Some(_) => {}
            None => net.wait(RETRY)?,
        }
    }
    Err(missing(NetError::Ended))
}
