//! smoltcp behind a narrow door: the handshake, and the states of the connection. It neither sends nor
//! receives data: what it sees is a connection over which nothing goes either way until it ends.
//! [`crate::tcp`] does all that has to do with bytes and time.

use crate::config::Config;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use barewire_units::{Duration, Instant};
use core::net::SocketAddr;
use smoltcp::iface::{Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as Moment;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, IpListenEndpoint};

/// smoltcp answers a packet with at most one, and sends at most one on its own.
const REPLIES_MAX: usize = 4;

/// smoltcp's side of one connection.
pub(crate) struct Machine {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    replies: Replies,
    mtu: usize,
    /// How far the origin of time has moved, in microseconds: smoltcp's time goes on.
    origin_us: i64,
}

/// What smoltcp wants to send.
#[derive(Default)]
struct Replies {
    packets: VecDeque<Vec<u8>>,
    /// Whether they are thrown away.
    are_useless: bool,
    /// Where those go.
    waste: Vec<u8>,
}

impl core::fmt::Debug for Machine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Machine")
            .field("state", &self.state())
            .field("replies", &self.replies.packets.len())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// One whose socket is closed. `config` was checked.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let mut settings = smoltcp::iface::Config::new(HardwareAddress::Ip);
        settings.random_seed = config.seed;
        let mut wire = Wire {
            incoming: None,
            replies: &mut Replies::default(),
            mtu: config.mtu,
        };
        let mut interface = Interface::new(settings, &mut wire, time(now, 0));
        let address: IpAddress = config.local.ip().into();
        interface.update_ip_addrs(|addresses| {
            // All others are neighbours: there is nobody to ask for a route. There is room for two.
            let _ = addresses.push(IpCidr::new(address, 0));
        });
        // Nothing is ever put there. Its length says which window the SYN has.
        let receive = SocketBuffer::new(vec![0; config.receive_buffer_bytes]);
        let mut socket = Socket::new(receive, SocketBuffer::new(Vec::new()));
        socket.set_ack_delay(None);
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = sockets.add(socket);
        Self {
            interface,
            sockets,
            handle,
            replies: Replies::default(),
            mtu: config.mtu,
            origin_us: 0,
        }
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        let by = i64::try_from(by.as_us()).unwrap_or(i64::MAX);
        self.origin_us = self.origin_us.saturating_add(by);
    }

    /// Opens the connection; the SYN is the first reply. Says whether it could.
    pub(crate) fn connect(&mut self, local: SocketAddr, remote: SocketAddr, now: Instant) -> bool {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        let local = IpListenEndpoint {
            addr: Some(local.ip().into()),
            port: local.port(),
        };
        let remote = IpEndpoint::new(remote.ip().into(), remote.port());
        let is_opened = socket
            .connect(self.interface.context(), remote, local)
            .is_ok();
        self.send(now);
        is_opened
    }

    /// Waits for a SYN. Says whether it could.
    pub(crate) fn listen(&mut self, local: SocketAddr) -> bool {
        self.socket().listen(local.port()).is_ok()
    }

    /// Hands a packet in, whose checksum is not looked at. Replies are behind
    /// [`Self::next_reply`].
    pub(crate) fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        self.replies.are_useless = false;
        self.handle(packet, now);
    }

    /// Hands a packet in, and throws replies away.
    pub(crate) fn handle_silently(&mut self, packet: &[u8], now: Instant) {
        self.replies.are_useless = true;
        self.handle(packet, now);
    }

    fn handle(&mut self, packet: &[u8], now: Instant) {
        let mut wire = Wire {
            incoming: Some(packet),
            replies: &mut self.replies,
            mtu: self.mtu,
        };
        self.interface
            .poll_ingress_single(time(now, self.origin_us), &mut wire, &mut self.sockets);
        // smoltcp must believe that what it wants to acknowledge was acknowledged: it computes what
        // is left of its window from that.
        self.send(now);
    }

    /// A packet that smoltcp wants to send.
    pub(crate) fn next_reply(&mut self) -> Option<Vec<u8>> {
        self.replies.packets.pop_front()
    }

    pub(crate) fn state(&self) -> State {
        self.sockets.get::<Socket<'_>>(self.handle).state()
    }

    /// This side sends nothing more.
    pub(crate) fn close(&mut self) {
        self.socket().close();
    }

    fn send(&mut self, now: Instant) {
        let mut wire = Wire {
            incoming: None,
            replies: &mut self.replies,
            mtu: self.mtu,
        };
        self.interface
            .poll_egress(time(now, self.origin_us), &mut wire, &mut self.sockets);
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'_>>(self.handle)
    }
}

/// smoltcp's time: microseconds, which last for 292 000 years.
fn time(now: Instant, origin_us: i64) -> Moment {
    let us = i64::try_from(now.since_origin().as_us()).unwrap_or(i64::MAX);
    Moment::from_micros(us.saturating_add(origin_us))
}

/// What smoltcp takes for a device: at most one packet in, replies out.
struct Wire<'a> {
    incoming: Option<&'a [u8]>,
    replies: &'a mut Replies,
    mtu: usize,
}

impl Device for Wire<'_> {
    type RxToken<'t>
        = Incoming<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Reply<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Moment) -> Option<(Incoming<'_>, Reply<'_>)> {
        let packet = self.incoming.take()?;
        Some((Incoming(packet), Reply(self.replies)))
    }

    fn transmit(&mut self, _: Moment) -> Option<Reply<'_>> {
        (self.replies.packets.len() < REPLIES_MAX).then_some(Reply(self.replies))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

struct Incoming<'a>(&'a [u8]);

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Reply<'a>(&'a mut Replies);

impl TxToken for Reply<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        if self.0.are_useless {
            self.0.waste.resize(len, 0);
            return f(&mut self.0.waste);
        }
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        if self.0.packets.len() < REPLIES_MAX {
            self.0.packets.push_back(packet);
        }
        result
    }
}
