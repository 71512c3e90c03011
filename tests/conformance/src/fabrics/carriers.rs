//! The carriers that stand, and broken ones that the suite must reject.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use barewire_carrier::tcp::TcpCarrier;
use barewire_carrier::tls::{GenerateOptions, Handshake, Identity, Step, TlsCarrier, generate};
use barewire_carrier::{Arrival, Broken, Carrier, Properties, Sleep};
use barewire_ofi::{Fabric, OfiCarrier, OfiError};

use crate::fabric::{Carriers, FabricUnderTest};

fn connected() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let one = TcpStream::connect(address).expect("a connection");
    let (other, _) = listener.accept().expect("a connection");
    [one, other]
}

fn tcp_pair() -> [TcpCarrier; 2] {
    connected().map(|stream| TcpCarrier::new(stream).expect("a carrier"))
}

/// TCP, not encrypted.
pub struct Tcp;

impl FabricUnderTest for Tcp {
    const NAME: &'static str = "carrier over TCP";
}

impl Carriers for Tcp {
    type Carrier = TcpCarrier;

    fn pair() -> [TcpCarrier; 2] {
        tcp_pair()
    }
}

/// TLS between hosts that share a secret.
pub struct Tls;

impl Tls {
    /// What both sides prove themselves with.
    fn identity() -> &'static Identity {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| {
            let name = format!("barewire-conformance-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let options = GenerateOptions {
                is_secret: true,
                name: "conformance".to_owned(),
                replace: true,
            };
            generate(&folder, &options).expect("a secret");
            let identity = Identity::load(&folder).expect("the secret");
            std::fs::remove_dir_all(&folder).expect("its folder");
            identity
        })
    }
}

impl FabricUnderTest for Tls {
    const NAME: &'static str = "carrier over TLS";
}

impl Carriers for Tls {
    type Carrier = TlsCarrier;

    fn pair() -> [TlsCarrier; 2] {
        let [one, other] = connected();
        let one = Handshake::connect(one, Tls::identity(), None).expect("a connection");
        let other = Handshake::accept(other, Tls::identity()).expect("a connection");
        let mut sides = [(one, None), (other, None)];
        while sides.iter().any(|(_, carrier)| carrier.is_none()) {
            for (handshake, carrier) in sides.iter_mut().filter(|(_, c)| c.is_none()) {
                if let Step::Done(done, _) = handshake.step().expect("the same secret") {
                    *carrier = Some(*done);
                }
            }
        }
        sides.map(|(_, carrier)| carrier.expect("waited for"))
    }
}

/// libfabric with its provider `tcp`.
pub struct OfiTcp;

impl OfiTcp {
    fn fabric() -> Result<Fabric, OfiError> {
        Fabric::open(Some("tcp"), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Whether it is installed. If not, says that a test is skipped.
    #[must_use]
    pub fn is_there(test: &str) -> bool {
        let error = match OfiTcp::fabric() {
            Ok(_) => return true,
            Err(error) => error,
        };
        let is_missing = matches!(
            error,
            OfiError::Unavailable { .. } | OfiError::NoProvider { .. }
        );
        assert!(is_missing, "{error}");
        let line = format!("SKIPPED: {test}: {error}\n");
        eprint!("{line}");
        if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
            let mut log = std::fs::OpenOptions::new();
            let log = log.append(true).create(true).open(path);
            let mut log = log.expect("the list of skipped tests");
            log.write_all(line.as_bytes()).expect("a line in it");
        }
        false
    }
}

impl FabricUnderTest for OfiTcp {
    const NAME: &'static str = "carrier over libfabric's tcp";
}

impl Carriers for OfiTcp {
    type Carrier = OfiCarrier;

    fn pair() -> [OfiCarrier; 2] {
        let fabric = OfiTcp::fabric().expect("asked for before");
        let (mut offer, bytes) = fabric.offer().expect("an offer");
        let mut pending = fabric.answer(&bytes).expect("an answer");
        let (mut one, mut other) = (None, None);
        let started = Instant::now();
        while one.is_none() || other.is_none() {
            one = one.or_else(|| offer.poll().expect("the other side"));
            other = other.or_else(|| pending.poll().expect("the other side"));
            assert!(started.elapsed() < Self::PATIENCE, "not connected in time");
        }
        [one, other].map(|carrier| carrier.expect("waited for"))
    }
}

/// Exchanges the first and the last byte of what is read.
pub const SWAPS: u8 = 1;
/// Takes all that it is given, and keeps what can not be sent.
pub const UNBOUNDED: u8 = 2;
/// Never tells the end.
pub const ENDLESS: u8 = 3;
/// Holds bytes back when it says that one may sleep.
pub const DOZES: u8 = 4;
/// Says that nothing is left when something is, and drops it.
pub const FORGETS: u8 = 5;
/// Never says that one may sleep.
pub const RESTLESS: u8 = 6;
/// Loses the last byte before the end.
pub const CUTS: u8 = 7;
/// Has another descriptor after each read.
pub const MOVES: u8 = 8;

/// A carrier with a flaw.
pub struct Flawed<const FLAW: u8>;

impl<const FLAW: u8> FabricUnderTest for Flawed<FLAW> {
    const NAME: &'static str = "broken carrier";
    // Waiting for what never comes is what some of these are for.
    const PATIENCE: Duration = Duration::from_secs(2);
}

impl<const FLAW: u8> Carriers for Flawed<FLAW> {
    type Carrier = FlawedCarrier<FLAW>;

    fn pair() -> [FlawedCarrier<FLAW>; 2] {
        tcp_pair().map(|tcp| FlawedCarrier {
            spare: TcpListener::bind("127.0.0.1:0").expect("a port"),
            tcp,
            unsent: Vec::new(),
            unread: Vec::new(),
            reads: 0,
        })
    }
}

/// See the flaws.
pub struct FlawedCarrier<const FLAW: u8> {
    tcp: TcpCarrier,
    spare: TcpListener,
    unsent: Vec<u8>,
    unread: Vec<u8>,
    reads: usize,
}

impl<const FLAW: u8> Carrier for FlawedCarrier<FLAW> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if FLAW == UNBOUNDED || FLAW == FORGETS {
            self.unsent.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> Result<bool, Broken> {
        // What is too much at once is forgotten, or kept without bound.
        let at_once = match FLAW {
            FORGETS => self.unsent.len().min(1 << 16),
            _ => self.unsent.len(),
        };
        let sent = self.tcp.write(&self.unsent[..at_once])?;
        match FLAW {
            FORGETS => self.unsent.clear(),
            _ => drop(self.unsent.drain(..sent)),
        }
        Ok(self.unsent.is_empty())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        self.reads += 1;
        if FLAW == DOZES {
            let mut buffer = [0; 1 << 16];
            if let Arrival::Bytes(count) = self.tcp.read(&mut buffer)? {
                self.unread.extend_from_slice(&buffer[..count]);
            }
            // Every other look finds nothing.
            if self.unread.is_empty() || into.is_empty() || self.reads % 2 == 0 {
                return Ok(Arrival::Nothing);
            }
            let count = self.unread.len().min(into.len());
            into[..count].copy_from_slice(&self.unread[..count]);
            self.unread.drain(..count);
            return Ok(Arrival::Bytes(count));
        }
        let found = self.tcp.read(into)?;
        match found {
            Arrival::Bytes(count) if FLAW == SWAPS => into.swap(0, count - 1),
            Arrival::End if FLAW == ENDLESS => return Ok(Arrival::Nothing),
            Arrival::Bytes(count) if FLAW == CUTS && count < into.len() => {
                return Ok(match count {
                    1 => Arrival::Nothing,
                    _ => Arrival::Bytes(count - 1),
                });
            }
            _ => {}
        }
        Ok(found)
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.tcp.finish()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        match FLAW == MOVES && self.reads > 0 {
            true => self.spare.as_fd(),
            false => self.tcp.descriptor(),
        }
    }

    fn before_sleep(&mut self) -> Sleep {
        match FLAW {
            RESTLESS => Sleep::NotYet,
            _ => self.tcp.before_sleep(),
        }
    }

    fn properties(&self) -> Properties {
        self.tcp.properties()
    }
}
