//! How a link moves to libfabric: the side that has accepted makes an offer, the other answers it.
//!
//! ```text
//! from the side that has accepted, once: | u32 length, little-endian | the bytes of the offer |
//! ```
//! The bytes are secret, and each side proves by them that it is the one that was greeted. Source: own design
//! (`docs/decisions/0036`).

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use barewire_carrier::{Arrival, Carrier, Sleep};
use barewire_ofi::{Fabric, Offer, OfiError, Pending};

use crate::config::Transport;
use crate::remote::address::Side;

/// Longest offer.
const OFFER_BYTES_MAX: usize = 4096;

/// Whether this host has what the settings want.
///
/// # Errors
/// What is missing, and which package has it.
pub(crate) fn check(transport: &Transport) -> Result<(), String> {
    let Transport::Libfabric { provider } = transport else {
        return Ok(());
    };
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    match Fabric::open(provider.as_deref(), here) {
        // A provider need not work over the loopback interface.
        Ok(_) | Err(OfiError::NoProvider { .. } | OfiError::Address { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

enum Stage {
    /// What is left of the offer to be sent, and the offer.
    Offering(Vec<u8>, Offer),
    /// The offer, as far as it has come.
    Hearing(Vec<u8>),
    Answering(Box<Pending>),
}

/// A link that moves.
pub(crate) struct Move {
    /// Over which the offer goes.
    carrier: Box<dyn Carrier>,
    provider: Option<String>,
    stage: Stage,
}

impl Move {
    /// Over a carrier on which greetings have been exchanged, and nothing else.
    ///
    /// # Errors
    /// libfabric has no such provider at our address.
    pub fn new(
        carrier: Box<dyn Carrier>,
        side: Side,
        provider: Option<&str>,
    ) -> Result<Move, String> {
        let stage = match side {
            Side::Dialling => Stage::Hearing(Vec::new()),
            Side::Accepting => {
                let fabric = Fabric::open(provider, own_address(carrier.as_ref())?.ip());
                let made = fabric.and_then(|fabric| fabric.offer());
                let (offer, bytes) = made.map_err(|error| error.to_string())?;
                let len_bytes = (bytes.len() as u32).to_le_bytes();
                Stage::Offering([&len_bytes, &bytes[..]].concat(), offer)
            }
        };
        Ok(Move {
            carrier,
            provider: provider.map(str::to_owned),
            stage,
        })
    }

    /// Does what can be done now. The new carrier, once it stands.
    ///
    /// # Errors
    /// Why there will be none.
    pub fn step(&mut self) -> Result<Option<Box<dyn Carrier>>, String> {
        if let Stage::Offering(left, _) = &mut self.stage {
            let taken = self.carrier.write(left);
            left.drain(..taken.map_err(|broken| broken.to_string())?);
            self.carrier.flush().map_err(|broken| broken.to_string())?;
        }
        if matches!(self.stage, Stage::Hearing(_)) {
            self.hear()?;
        }
        let found = match &mut self.stage {
            Stage::Offering(_, offer) => offer.poll(),
            Stage::Answering(pending) => pending.poll(),
            Stage::Hearing(_) => Ok(None),
        };
        let carrier = found.map_err(|error| error.to_string())?;
        Ok(carrier.map(|carrier| Box::new(carrier) as Box<dyn Carrier>))
    }

    /// Takes what has come of the offer, and answers it when it is whole.
    fn hear(&mut self) -> Result<(), String> {
        let Stage::Hearing(heard) = &mut self.stage else {
            return Ok(());
        };
        loop {
            let wanted = match heard.first_chunk::<4>() {
                None => 4,
                Some(len_bytes) => 4 + u32::from_le_bytes(*len_bytes) as usize,
            };
            if wanted > 4 + OFFER_BYTES_MAX {
                return Err("its offer for libfabric is too long".to_owned());
            }
            if heard.len() == wanted && wanted > 4 {
                break;
            }
            let mut buffer = vec![0; wanted - heard.len()];
            match self.carrier.read(&mut buffer) {
                Ok(Arrival::Bytes(count)) => heard.extend_from_slice(&buffer[..count]),
                Ok(Arrival::Nothing) => return Ok(()),
                Ok(Arrival::End) => return Err("it has no libfabric at this address".to_owned()),
                Err(broken) => return Err(broken.to_string()),
            }
        }
        let fabric = Fabric::open(
            self.provider.as_deref(),
            own_address(self.carrier.as_ref())?.ip(),
        );
        let pending = fabric.and_then(|fabric| fabric.answer(&heard[4..]));
        let pending = pending.map_err(|error| error.to_string())?;
        self.stage = Stage::Answering(Box::new(pending));
        Ok(())
    }

    /// Whether to sleep before the next step, and for what.
    pub fn before_sleep(&mut self) -> Sleep {
        match &mut self.stage {
            // What is left of the offer is sent by another step.
            Stage::Offering(left, _) if !left.is_empty() => Sleep::NotYet,
            Stage::Offering(_, offer) => offer.before_sleep(),
            Stage::Answering(pending) => pending.before_sleep(),
            Stage::Hearing(_) => self.carrier.before_sleep(),
        }
    }
}

impl AsFd for Move {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = match &self.stage {
            Stage::Offering(_, offer) => offer.descriptor().ok(),
            Stage::Answering(pending) => pending.descriptor().ok(),
            Stage::Hearing(_) => None,
        };
        // One that is over is found out by the next step.
        descriptor.unwrap_or_else(|| self.carrier.descriptor())
    }
}

/// The address of this host that a carrier uses.
fn own_address(carrier: &dyn Carrier) -> Result<SocketAddr, String> {
    let address = carrier.properties().own_address;
    let parsed = address.parse();
    parsed.map_err(|_| format!("{address} is no address that libfabric could use"))
}
