//! The exchange of greetings between two relays, before anything else is said.

use barewire_carrier::{Arrival, Carrier, Sleep};
use barewire_sys::wake::Interest;

use crate::remote::greeting::{GREETING_BYTES, Greeting};

/// The exchange of greetings.
pub(crate) struct Greeter {
    pub carrier: Box<dyn Carrier>,
    own: [u8; GREETING_BYTES],
    sent: usize,
    theirs: [u8; GREETING_BYTES],
    received: usize,
}

impl Greeter {
    pub fn new(carrier: Box<dyn Carrier>, own: &Greeting) -> Greeter {
        Greeter {
            carrier,
            own: own.encode(),
            sent: 0,
            theirs: [0; GREETING_BYTES],
            received: 0,
        }
    }

    /// Goes on; the other side's greeting once it is there and ours is sent.
    ///
    /// # Errors
    /// Why this is nobody to talk to.
    pub fn step(&mut self) -> std::result::Result<Option<Greeting>, String> {
        let carrier = &mut self.carrier;
        while self.sent < GREETING_BYTES {
            match carrier.write(&self.own[self.sent..]) {
                Ok(0) => break,
                Ok(count) => self.sent += count,
                Err(broken) => return Err(broken.to_string()),
            }
        }
        carrier.flush().map_err(|broken| broken.to_string())?;
        while self.received < GREETING_BYTES {
            match carrier.read(&mut self.theirs[self.received..]) {
                Ok(Arrival::Bytes(count)) => self.received += count,
                Ok(Arrival::Nothing) => return Ok(None),
                Ok(Arrival::End) => {
                    return Err("it closed the connection without a greeting".into());
                }
                Err(broken) => return Err(broken.to_string()),
            }
        }
        if self.sent < GREETING_BYTES {
            return Ok(None);
        }
        Greeting::parse(&self.theirs).map(Some)
    }

    /// What to wait for at the carrier's descriptor.
    pub fn interest(&mut self) -> Interest {
        match self.carrier.before_sleep() {
            Sleep::UntilReadableOrWritable => Interest::READ_WRITE,
            Sleep::UntilReadable | Sleep::NotYet => Interest::READ,
        }
    }
}
