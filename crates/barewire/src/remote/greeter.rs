//! What two nodes do before there is a link between their hosts: they prove who they are, greet each other, and perhaps
//! move to another transport.
//!
//! | step | over | what |
//! |---|---|---|
//! | 1 | TCP | a handshake of TLS 1.3, if the node's settings name keys |
//! | 2 | TLS or TCP | a greeting each way ([`crate::remote::greeting`]) |
//! | 3 | the same | if both want libfabric: the offer of the side that has accepted, and then nothing any more |
//!
//! Nothing of a node is told to the other host, and no memory is set aside for it, before the second step is over.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use barewire_carrier::tcp::TcpCarrier;
use barewire_carrier::tls::{Handshake, HandshakeError, Identity, Step};
use barewire_carrier::{Arrival, Carrier, PeerIdentity, Sleep};
use barewire_sys::wake::Interest;

use crate::remote::address::{Side, split_host};
use crate::remote::greeting::{GREETING_BYTES, Greeting};
use crate::remote::libfabric::Move;
use crate::remote::trust::Trust;

/// What came of it.
pub(crate) struct Greeted {
    pub carrier: Box<dyn Carrier>,
    pub theirs: Greeting,
    pub identity: PeerIdentity,
}

enum Stage {
    Proving(Box<Handshake>),
    Greeting(Box<dyn Carrier>),
    Moving(Box<Move>),
    Over,
}

/// Without any proof.
fn bare(stream: TcpStream) -> Result<Stage, String> {
    let carrier = TcpCarrier::new(stream).map_err(|broken| broken.to_string())?;
    Ok(Stage::Greeting(Box::new(carrier)))
}

fn proving(handshake: Result<Handshake, HandshakeError>) -> Result<Stage, String> {
    let handshake = handshake.map_err(|error| error.to_string())?;
    Ok(Stage::Proving(Box::new(handshake)))
}

/// The host of this address, `host:port`, if a certificate is trusted under just that name: then no other will do.
fn trusted_as<'a>(identity: &Identity, address: &'a str) -> Option<&'a str> {
    let (host, _port) = address.rsplit_once(':')?;
    identity
        .trusted()
        .iter()
        .any(|it| it.name == host)
        .then_some(host)
}

/// The steps up to a link.
pub(crate) struct Greeter {
    stage: Stage,
    side: Side,
    trust: Trust,
    identity: PeerIdentity,
    own: Greeting,
    own_bytes: [u8; GREETING_BYTES],
    sent: usize,
    theirs: [u8; GREETING_BYTES],
    received: usize,
    sleep: Sleep,
}

impl Greeter {
    /// Of the node that has connected to `host` (`certificate@host:port`, or without a certificate).
    ///
    /// # Errors
    /// The connection is down already, the keys can not be read, or no such certificate is trusted.
    pub fn dial(
        stream: TcpStream,
        host: &str,
        trust: &Trust,
        own: &Greeting,
    ) -> Result<Greeter, String> {
        let (certificate, address) = split_host(host);
        let stage = match trust.identity()? {
            None if certificate.is_some() => {
                return Err(format!(
                    "nothing is proved with Security::Insecure: connect to {address}, or use Keys"
                ));
            }
            None => bare(stream)?,
            Some(identity) => {
                let expected = certificate.or_else(|| trusted_as(&identity, address));
                proving(Handshake::connect(stream, &identity, expected))?
            }
        };
        Ok(Greeter::at(stage, Side::Dialling, trust, own))
    }

    /// Of the node to whose port somebody has connected.
    ///
    /// # Errors
    /// The connection is down already, or the keys can not be read.
    pub fn accept(stream: TcpStream, trust: &Trust, own: &Greeting) -> Result<Greeter, String> {
        let stage = match trust.identity()? {
            None => bare(stream)?,
            Some(identity) => proving(Handshake::accept(stream, &identity))?,
        };
        Ok(Greeter::at(stage, Side::Accepting, trust, own))
    }

    fn at(stage: Stage, side: Side, trust: &Trust, own: &Greeting) -> Greeter {
        Greeter {
            stage,
            side,
            trust: trust.clone(),
            identity: PeerIdentity::nobody(),
            own: *own,
            own_bytes: own.encode(),
            sent: 0,
            theirs: [0; GREETING_BYTES],
            received: 0,
            sleep: Sleep::NotYet,
        }
    }

    /// Does what can be done now. What came of it, once all is done.
    ///
    /// # Errors
    /// Why this is nobody to talk to.
    pub fn step(&mut self) -> Result<Option<Greeted>, String> {
        loop {
            match core::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Proving(mut handshake) => {
                    match handshake.step().map_err(|error| error.to_string())? {
                        Step::Wait(sleep) => {
                            self.sleep = sleep;
                            self.stage = Stage::Proving(handshake);
                            return Ok(None);
                        }
                        Step::Done(carrier, identity) => {
                            self.identity = identity;
                            self.stage = Stage::Greeting(carrier);
                        }
                    }
                }
                Stage::Greeting(mut carrier) => {
                    let Some(theirs) = self.greet(carrier.as_mut())? else {
                        self.sleep = carrier.before_sleep();
                        self.stage = Stage::Greeting(carrier);
                        return Ok(None);
                    };
                    // A node on this host goes another way.
                    if !self.own.agrees_on_libfabric(&theirs) || self.own.is_local_to(&theirs) {
                        return Ok(Some(self.greeted(carrier, theirs)));
                    }
                    let provider = self.trust.provider();
                    self.stage = Stage::Moving(Box::new(Move::new(carrier, self.side, provider)?));
                }
                Stage::Moving(mut moving) => {
                    let Some(carrier) = moving.step()? else {
                        self.sleep = moving.before_sleep();
                        self.stage = Stage::Moving(moving);
                        return Ok(None);
                    };
                    let theirs = Greeting::parse(&self.theirs)?;
                    return Ok(Some(self.greeted(carrier, theirs)));
                }
                Stage::Over => return Err("it is over".to_owned()),
            }
        }
    }

    fn greeted(&self, carrier: Box<dyn Carrier>, theirs: Greeting) -> Greeted {
        Greeted {
            carrier,
            theirs,
            identity: self.identity.clone(),
        }
    }

    /// Exchanges greetings; the other side's once it is there and ours is sent.
    fn greet(&mut self, carrier: &mut dyn Carrier) -> Result<Option<Greeting>, String> {
        while self.sent < GREETING_BYTES {
            match carrier.write(&self.own_bytes[self.sent..]) {
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

    /// What to wait for, and where, before the next step; `None` if it can be done at once.
    pub fn wait_for(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        let descriptor = match &self.stage {
            Stage::Proving(handshake) => handshake.descriptor()?,
            Stage::Greeting(carrier) => carrier.descriptor(),
            Stage::Moving(moving) => moving.as_fd(),
            Stage::Over => return None,
        };
        let interest = match self.sleep {
            Sleep::NotYet => return None,
            Sleep::UntilReadable => Interest::READ,
            Sleep::UntilReadableOrWritable => Interest::READ_WRITE,
        };
        Some((descriptor, interest))
    }
}
