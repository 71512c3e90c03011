//! Fabrics, offers and answers: how two sides get a pair of connected endpoints.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use barewire_carrier::{Properties, Sleep};

use crate::carrier::OfiCarrier;
use crate::connection::{Connection, Events};
use crate::error::OfiError;
use crate::introduction::{Introduction, Key, Room, greet, hear};
use crate::library::{Info, Library};
use crate::link::{Link, SIZES, SLOT_BYTES, SLOTS};
use crate::objects::{Event, Handle, find, hints};
use crate::raw::fid_pep;
use crate::strangers;

/// The providers that are tried if none is named, the best first.
const PROVIDERS: [&str; 2] = ["verbs", "tcp"];

/// How many connections without the key an offer bears.
const STRANGERS_MAX: u32 = 256;

/// How many connections may wait without having asked for anything, and after how many polls
/// they are counted.
const SILENT_MAX: usize = 16;
const POLLS_PER_COUNT: u32 = 16;

/// How often the provider is given the chance to close what was shut down.
const ROUNDS_TO_DISMISS: u32 = 8;

/// What our side has to receive into.
const ROOM: Room = Room {
    slots: SLOTS as u32,
    slot_bytes: SLOT_BYTES,
};

/// A provider of libfabric at one of our addresses.
pub struct Fabric {
    info: Info,
    provider: String,
    own_address: IpAddr,
}

/// That links can be between such addresses.
fn check_address(address: IpAddr) -> Result<(), OfiError> {
    let reason = match address {
        _ if address.is_unspecified() => "it is none of a host's own; name one",
        _ if address.is_multicast() => "it is not one host's",
        IpAddr::V6(ip) if ip.segments()[0] & 0xFFC0 == 0xFE80 => {
            "a link-local address means another network on each host"
        }
        _ => return Ok(()),
    };
    Err(OfiError::Address {
        address: address.to_string(),
        reason,
    })
}

impl Fabric {
    /// Opens libfabric if it was not, and looks for a provider of connected endpoints at an
    /// address of this host: the named one, or the best of `verbs` and `tcp`.
    ///
    /// # Errors
    /// - [`OfiError::Unavailable`] if libfabric is not installed;
    /// - [`OfiError::NoProvider`] if it has no such provider at this address;
    /// - [`OfiError::Address`] if this can not be an address of a link.
    pub fn open(provider: Option<&str>, own_address: IpAddr) -> Result<Fabric, OfiError> {
        check_address(own_address)?;
        // A provider may learn of this only when it listens.
        if std::net::UdpSocket::bind((own_address, 0)).is_err() {
            return Err(OfiError::Address {
                address: own_address.to_string(),
                reason: "it is none of this host's own",
            });
        }
        let library = Library::get()?;
        let named = provider.map(|provider| [provider]);
        let wanted = named.as_ref().map_or(&PROVIDERS[..], |named| &named[..]);
        let mut tried = Vec::new();
        for provider in wanted {
            let hints = hints(library, provider)?;
            match find(&hints, SocketAddr::new(own_address, 0), true) {
                Ok(info) if is_fit(&info, provider, own_address) => {
                    return Ok(Fabric {
                        info,
                        provider: provider.to_string(),
                        own_address,
                    });
                }
                Ok(_) => tried.push(format!("`{provider}` is elsewhere")),
                Err(code) => tried.push(format!("`{provider}`: {}", library.text(code))),
            }
        }
        Err(OfiError::NoProvider {
            version: library.version(),
            address: own_address.to_string(),
            tried: tried.join(", "),
        })
    }

    /// The provider's name, such as `tcp`.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Listens for one other side, and gives the bytes that it needs to connect. They are
    /// secret: who has them is the other side.
    ///
    /// # Errors
    /// [`OfiError::Failed`] if libfabric or the kernel refuses.
    pub fn offer(&self) -> Result<(Offer, Vec<u8>), OfiError> {
        let events = Events::open(&self.info)?;
        let passive = events.fabric().listen(&self.info, events.queue())?;
        strangers::bound_waits(&events);
        let address = passive.own_address().ok_or(OfiError::Failed {
            what: "asking where an endpoint listens",
            reason: "the provider does not say".to_owned(),
        })?;
        let introduction = Introduction {
            provider: self.provider.clone(),
            address: SocketAddr::new(self.own_address, address.port()),
            answer_key: Key::random()?,
            offer_key: Key::random()?,
            room: ROOM,
        };
        let bytes = introduction.encode();
        let offer = Offer {
            passive: Some(passive),
            state: State::Waiting(events),
            introduction,
            strangers: 0,
            polls: 0,
        };
        Ok((offer, bytes))
    }

    /// Connects to the side that has sent these bytes, with the same provider.
    ///
    /// # Errors
    /// - [`OfiError::Offer`] if the bytes are not those of an offer;
    /// - [`OfiError::OtherProvider`] if they are of another provider's;
    /// - [`OfiError::Address`] if nobody can be at the address in them;
    /// - [`OfiError::Failed`] if libfabric or the kernel refuses.
    pub fn answer(&self, offer: &[u8]) -> Result<Pending, OfiError> {
        let introduction = Introduction::decode(offer)?;
        if introduction.provider != self.provider {
            return Err(OfiError::OtherProvider {
                offered: introduction.provider,
                ours: self.provider.clone(),
            });
        }
        let address = introduction.address;
        check_address(address.ip())?;
        if address.is_ipv4() != self.own_address.is_ipv4() {
            return Err(OfiError::Address {
                address: address.ip().to_string(),
                reason: "our own address is of the other kind (IPv4 or IPv6)",
            });
        }
        let library = self.info.library();
        let mut hints = hints(library, &self.provider)?;
        hints.start_from(self.own_address);
        let info = find(&hints, address, false)
            .map_err(|code| library.failed("looking for a way to the other host", code))?;
        let events = Events::open(&info)?;
        let mut link = make_link(events, &info, introduction.room).map_err(|error| error.1)?;
        let greeting = greet(&introduction.answer_key, ROOM);
        link.connection().connect(address, &greeting)?;
        Ok(Pending {
            link: Some(link),
            introduction,
        })
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric")
            .field("provider", &self.provider)
            .field("own_address", &self.own_address)
            .finish_non_exhaustive()
    }
}

/// Whether a description is of this provider alone, at this address.
fn is_fit(info: &Info, provider: &str, own: IpAddr) -> bool {
    let described = info.describe();
    described.provider == provider && described.own.is_some_and(|address| address.ip() == own)
}

/// A link over a new endpoint, with all receives posted. After an error gives back the events,
/// if they are still there.
fn make_link(
    events: Events,
    info: &Info,
    peer: Room,
) -> Result<Link, Box<(Option<Events>, OfiError)>> {
    let connection = Connection::new(events, info, SIZES).map_err(|error| {
        let (events, error) = *error;
        Box::new((Some(events), error))
    })?;
    let mut link = Link::new(connection, peer.slots, peer.slot_bytes);
    link.post_all().map_err(|reason| {
        let what = "posting receives";
        Box::new((None, OfiError::Failed { what, reason }))
    })?;
    Ok(link)
}

/// The carrier over a link that is connected.
fn make_carrier(mut link: Link, provider: &str) -> OfiCarrier {
    let shown = |address: Option<SocketAddr>| match address {
        Some(address) => address.to_string(),
        None => "unknown".to_owned(),
    };
    let (own, peer) = link.connection().addresses();
    let properties = Properties {
        transport: format!("ofi:{provider}"),
        is_encrypted: false,
        own_address: shown(own),
        peer_address: shown(peer),
    };
    OfiCarrier::new(link, properties)
}

/// Where an offer has got to.
enum State {
    /// Nobody with the key has come.
    Waiting(Events),
    /// The other side was accepted.
    Accepting(Box<Link>),
    /// It has become a carrier, or has failed for this reason.
    Over(OfiError),
}

/// A listening endpoint for one other side.
///
/// Dropping it withdraws the offer. It has no deadline of its own.
pub struct Offer {
    /// Closed before the queue of events in `state`.
    passive: Option<Handle<fid_pep>>,
    state: State,
    introduction: Introduction,
    strangers: u32,
    polls: u32,
}

impl Offer {
    /// The provider's name, such as `tcp`.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.introduction.provider
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.introduction.address
    }

    /// How many have connected without the key, so far. They were rejected.
    #[must_use]
    pub fn strangers(&self) -> u32 {
        self.strangers
    }

    /// Looks whether the other side has connected; does not wait. Gives the carrier once.
    ///
    /// # Errors
    /// - [`OfiError::Strangers`] if too many have come without the key;
    /// - [`OfiError::Offer`] if the other side has the key, but asks for what is not allowed;
    /// - [`OfiError::Failed`] if libfabric or the kernel refuses, or the carrier was given.
    ///
    /// The offer is over then, and every further call gives the same.
    pub fn poll(&mut self) -> Result<Option<OfiCarrier>, OfiError> {
        match self.step() {
            Ok(None) => Ok(None),
            Ok(Some(link)) => {
                self.end(OfiError::Failed {
                    what: "waiting for the other host",
                    reason: "the carrier was given already".to_owned(),
                });
                Ok(Some(make_carrier(link, &self.introduction.provider)))
            }
            Err(error) => {
                self.end(error.clone());
                Err(error)
            }
        }
    }

    /// Closes what listens. The queue of events goes after it.
    fn end(&mut self, reason: OfiError) {
        self.passive = None;
        self.state = State::Over(reason);
    }

    fn step(&mut self) -> Result<Option<Link>, OfiError> {
        loop {
            let event = match &mut self.state {
                State::Over(error) => return Err(error.clone()),
                State::Waiting(events) => events.next(),
                State::Accepting(link) => link.connection().events.next(),
            };
            match event {
                None => {
                    self.count_silent()?;
                    return Ok(None);
                }
                Some(Event::Request(info, data)) => self.request(info, &data)?,
                Some(Event::Connected(_)) => {
                    if let Some(link) = self.connected() {
                        return Ok(Some(link));
                    }
                }
                Some(Event::Failed(reason)) => match self.state {
                    State::Accepting(_) => {
                        return Err(OfiError::Failed {
                            what: "accepting the other host",
                            reason,
                        });
                    }
                    _ => self.count_stranger(1)?,
                },
                Some(Event::Shutdown) => {
                    if let State::Accepting(_) = self.state {
                        return Err(OfiError::Failed {
                            what: "accepting the other host",
                            reason: "it went away".to_owned(),
                        });
                    }
                }
            }
        }
    }

    /// The link that is connected now. What listens is closed before.
    fn connected(&mut self) -> Option<Link> {
        let over = State::Over(OfiError::Failed {
            what: "waiting for the other host",
            reason: "the carrier was given already".to_owned(),
        });
        match std::mem::replace(&mut self.state, over) {
            State::Accepting(mut link) => {
                self.passive = None;
                dismiss(&mut link.connection().events);
                Some(*link)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    fn count_stranger(&mut self, count: usize) -> Result<(), OfiError> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.strangers = self.strangers.saturating_add(count);
        match self.strangers > STRANGERS_MAX {
            true => Err(OfiError::Strangers {
                count: self.strangers,
            }),
            false => Ok(()),
        }
    }

    /// From time to time, closes connections that ask for nothing.
    fn count_silent(&mut self) -> Result<(), OfiError> {
        self.polls += 1;
        let State::Waiting(events) = &mut self.state else {
            return Ok(());
        };
        if self.polls < POLLS_PER_COUNT {
            return Ok(());
        }
        self.polls = 0;
        let count = strangers::evict(events, SILENT_MAX);
        self.count_stranger(count)
    }

    /// Somebody wants to connect.
    fn request(&mut self, info: Info, data: &[u8]) -> Result<(), OfiError> {
        let Some(passive) = &self.passive else {
            return Ok(());
        };
        let room = match hear(data, &self.introduction.answer_key) {
            Some(Ok(room)) => room,
            Some(Err(reason)) => {
                passive.reject(info);
                return Err(OfiError::Offer { reason });
            }
            None => {
                passive.reject(info);
                return self.count_stranger(1);
            }
        };
        let over = State::Over(OfiError::Failed {
            what: "accepting the other host",
            reason: "it failed before".to_owned(),
        });
        let events = match std::mem::replace(&mut self.state, over) {
            State::Waiting(events) => events,
            other => {
                // The key opens once.
                self.state = other;
                passive.reject(info);
                return Ok(());
            }
        };
        let mut link = match make_link(events, &info, room) {
            Ok(link) => link,
            Err(error) => {
                let (events, error) = *error;
                passive.reject(info);
                self.passive = None;
                drop(events);
                return Err(error);
            }
        };
        let greeting = greet(&self.introduction.offer_key, ROOM);
        let accepted = link.connection().accept(&greeting);
        self.state = State::Accepting(Box::new(link));
        accepted
    }

    /// The descriptor to wait on. It stays the same, and is that of the carrier later.
    ///
    /// # Errors
    /// Why the offer is over: there is nothing to wait for.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, OfiError> {
        match &self.state {
            State::Waiting(events) => Ok(events.descriptor()),
            State::Accepting(link) => Ok(link.descriptor()),
            State::Over(error) => Err(error.clone()),
        }
    }

    /// To be called before sleeping on the descriptor, and after that nothing but sleeping.
    pub fn before_sleep(&mut self) -> Sleep {
        let may_sleep = match &mut self.state {
            State::Waiting(events) => events.may_sleep(),
            State::Accepting(link) => link.connection().events.may_sleep(),
            State::Over(_) => false,
        };
        sleep(may_sleep)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.passive = None;
        if let State::Waiting(events) = &mut self.state {
            dismiss(events);
        }
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer")
            .field("provider", &self.introduction.provider)
            .field("address", &self.introduction.address)
            .field("strangers", &self.strangers)
            .finish_non_exhaustive()
    }
}

/// Lets the provider close what has connected and asked for nothing.
fn dismiss(events: &mut Events) {
    // The provider finds that they have ended, not always at the first look.
    for _ in 0..ROUNDS_TO_DISMISS {
        if strangers::evict(events, 0) == 0 {
            return;
        }
        // What they ask for now is not wanted.
        while events.next().is_some() {}
    }
}

fn sleep(may_sleep: bool) -> Sleep {
    match may_sleep {
        true => Sleep::UntilReadable,
        false => Sleep::NotYet,
    }
}

/// A connection to the side that has made an offer.
///
/// Dropping it gives up. It has no deadline of its own; that of the kernel for TCP is minutes.
pub struct Pending {
    link: Option<Link>,
    introduction: Introduction,
}

impl Pending {
    /// Where it connects to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.introduction.address
    }

    /// Looks whether the other side has accepted; does not wait. Gives the carrier once.
    ///
    /// # Errors
    /// - [`OfiError::Impostor`] if whoever accepted does not know the key;
    /// - [`OfiError::Failed`] if nobody is there, or the other side refuses, or the carrier was
    ///   given.
    ///
    /// It is over then, and every further call gives an error.
    pub fn poll(&mut self) -> Result<Option<OfiCarrier>, OfiError> {
        let what = "connecting to the other host";
        let failed = |reason: &str| OfiError::Failed {
            what,
            reason: reason.to_owned(),
        };
        let Some(link) = &mut self.link else {
            return Err(failed("it is over"));
        };
        let error = match link.connection().events.next() {
            None => return Ok(None),
            // Nobody can want to connect to what does not listen.
            Some(Event::Request(..)) => return Ok(None),
            Some(Event::Connected(data)) => match self.accepted(&data) {
                Ok(link) => return Ok(Some(make_carrier(link, &self.introduction.provider))),
                Err(error) => error,
            },
            Some(Event::Shutdown) => failed("the other host went away"),
            Some(Event::Failed(reason)) => failed(&reason),
        };
        self.link = None;
        Err(error)
    }

    fn accepted(&mut self, data: &[u8]) -> Result<Link, OfiError> {
        let address = self.introduction.address.to_string();
        match hear(data, &self.introduction.offer_key) {
            None => return Err(OfiError::Impostor { address }),
            Some(Err(reason)) => return Err(OfiError::Offer { reason }),
            Some(Ok(room)) if room != self.introduction.room => {
                let reason = "it says other sizes than before".to_owned();
                return Err(OfiError::Offer { reason });
            }
            Some(Ok(_)) => {}
        }
        self.link.take().ok_or(OfiError::Impostor { address })
    }

    /// The descriptor to wait on. It stays the same, and is that of the carrier later.
    ///
    /// # Errors
    /// If it is over: there is nothing to wait for.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, OfiError> {
        match &self.link {
            Some(link) => Ok(link.descriptor()),
            None => Err(OfiError::Failed {
                what: "waiting for the other host",
                reason: "it is over".to_owned(),
            }),
        }
    }

    /// To be called before sleeping on the descriptor, and after that nothing but sleeping.
    pub fn before_sleep(&mut self) -> Sleep {
        sleep(match &mut self.link {
            Some(link) => link.connection().events.may_sleep(),
            None => false,
        })
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("provider", &self.introduction.provider)
            .field("address", &self.introduction.address)
            .finish_non_exhaustive()
    }
}
