//! Sockets over `barewire-tcp` in virtual time: what packetdrill's calls mean.
//!
//! A packet goes to the connection of its two addresses, else to the listener of its port. An ICMP
//! message goes to the connection of the packet that it quotes, as a bridge would give it. Closed
//! connections stay, since they answer what still comes.

use barewire_tcp::{Checked, Config, Endpoint, Error, Listener, State, Tcp};
use barewire_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, IntoRawFd};

/// The number of an error, as `errno` has it.
pub(crate) type Errno = i32;

/// When virtual time begins, so that no time that packetdrill computes is negative.
const BEGIN: Duration = Duration::from_s(1000);

/// How far a wait for a packet goes: longer than every timer of a connection.
const WAIT_MAX: Duration = Duration::from_s(1000);

/// What [`Stack::new`] reads from `--so_flags`.
#[derive(Debug, Clone, Copy)]
struct Flags {
    local: Option<IpAddr>,
    mtu: usize,
}

impl Flags {
    /// Reads `local=ADDRESS,mtu=BYTES`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut flags = Self {
            local: None,
            mtu: 1500,
        };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let bad = || format!("`{word}` in --so_flags is not local=ADDRESS or mtu=BYTES");
            let (name, value) = word.split_once('=').ok_or_else(bad)?;
            match name {
                "local" => flags.local = Some(value.parse().map_err(|_| bad())?),
                "mtu" => flags.mtu = value.parse().map_err(|_| bad())?,
                _ => return Err(bad()),
            }
        }
        Ok(flags)
    }
}

/// What a program has set before it connects or listens.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    bound: Option<SocketAddr>,
    nagle: bool,
    send_bytes: Option<usize>,
    receive_bytes: Option<usize>,
    timeout: Option<Duration>,
    keep_alive: bool,
    keep_idle: Option<Duration>,
}

#[derive(Debug)]
enum Socket {
    New(Options),
    Listening(Listener),
    Connection {
        tcp: Box<Tcp>,
        /// The program was told why the connection has ended.
        is_told: bool,
        /// A close resets.
        resets: bool,
    },
}

/// The whole stack.
#[derive(Debug)]
pub(crate) struct Stack {
    flags: Flags,
    now: Instant,
    sockets: BTreeMap<i32, (Option<SocketAddr>, Socket)>,
    /// A descriptor of the kernel's for each socket, since packetdrill closes those that a script
    /// leaves open by itself.
    placeholders: BTreeMap<i32, File>,
    /// Connections whose sockets were closed.
    orphans: Vec<Tcp>,
    outgoing: VecDeque<(Instant, Vec<u8>)>,
    next_port: u16,
    next_seed: u64,
}

/// The number for an error of the crate.
fn errno(error: Error) -> Errno {
    match error {
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::Unreachable => libc::EHOSTUNREACH,
        Error::Aborted => libc::ECONNABORTED,
        Error::NotConnected => libc::EAGAIN,
        Error::SendClosed => libc::EPIPE,
        Error::ReceiveClosed => libc::ENOTCONN,
        _ => libc::EINVAL,
    }
}

impl Stack {
    /// A stack for the value of `--so_flags`.
    pub(crate) fn new(flags: &str) -> Result<Self, String> {
        Ok(Self {
            flags: Flags::parse(flags)?,
            now: Instant::ORIGIN.saturating_add(BEGIN),
            sockets: BTreeMap::new(),
            placeholders: BTreeMap::new(),
            orphans: Vec::new(),
            outgoing: VecDeque::new(),
            next_port: 40_000,
            next_seed: 1,
        })
    }

    /// Makes a socket.
    pub(crate) fn socket(&mut self, kind: i32) -> Result<i32, Errno> {
        if kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != libc::SOCK_STREAM {
            return Err(libc::EPROTONOSUPPORT);
        }
        self.add(None, Socket::New(Options::default()))
    }

    fn add(&mut self, local: Option<SocketAddr>, socket: Socket) -> Result<i32, Errno> {
        let placeholder = File::open("/dev/null").map_err(|_| libc::EMFILE)?;
        let fd = placeholder.as_raw_fd();
        self.placeholders.insert(fd, placeholder);
        self.sockets.insert(fd, (local, socket));
        Ok(fd)
    }

    /// Gives a socket its local address.
    pub(crate) fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<(), Errno> {
        let options = self.options(fd)?;
        options.bound = Some(address);
        Ok(())
    }

    fn options(&mut self, fd: i32) -> Result<&mut Options, Errno> {
        match self.sockets.get_mut(&fd) {
            Some((_, Socket::New(options))) => Ok(options),
            Some(_) => Err(libc::EINVAL),
            None => Err(libc::EBADF),
        }
    }

    fn config(&mut self, options: Options, local: SocketAddr, remote: SocketAddr) -> Config {
        let mut config = Config::new(local, remote, self.next_seed);
        self.next_seed += 1;
        config.mtu = self.flags.mtu;
        config.nagle = options.nagle;
        config.send_buffer_bytes = options.send_bytes.unwrap_or(config.send_buffer_bytes);
        config.receive_buffer_bytes = options.receive_bytes.unwrap_or(config.receive_buffer_bytes);
        config.timeout = options.timeout.unwrap_or(config.timeout);
        config.keep_alive = options
            .keep_alive
            .then_some(options.keep_idle.unwrap_or(Duration::from_s(7200)));
        config
    }

    /// Waits for connections at the address that the socket has.
    pub(crate) fn listen(&mut self, fd: i32, backlog: usize) -> Result<(), Errno> {
        let options = *self.options(fd)?;
        let local = options.bound.ok_or(libc::EDESTADDRREQ)?;
        let config = self.config(options, local, local);
        let listener = Listener::new(&config, backlog).map_err(errno)?;
        self.sockets
            .insert(fd, (Some(local), Socket::Listening(listener)));
        Ok(())
    }

    /// A connection that was opened from outside: its descriptor and the other end.
    pub(crate) fn accept(&mut self, fd: i32) -> Result<(i32, SocketAddr), Errno> {
        let tcp = match self.sockets.get_mut(&fd) {
            Some((_, Socket::Listening(listener))) => listener.accept().ok_or(libc::EAGAIN)?,
            Some(_) => return Err(libc::EINVAL),
            None => return Err(libc::EBADF),
        };
        let (local, remote) = (tcp.config().local, tcp.config().remote);
        let socket = Socket::Connection {
            tcp: Box::new(tcp),
            is_told: false,
            resets: false,
        };
        Ok((self.add(Some(local), socket)?, remote))
    }

    /// Begins to connect. It is never done at once.
    pub(crate) fn connect(&mut self, fd: i32, remote: SocketAddr) -> Result<(), Errno> {
        if let Some((_, Socket::Connection { tcp, .. })) = self.sockets.get(&fd) {
            return match (tcp.state(), tcp.error()) {
                (State::Opening, _) => Err(libc::EALREADY),
                (_, Some(error)) => Err(errno(error)),
                _ => Err(libc::EISCONN),
            };
        }
        let options = *self.options(fd)?;
        let port = self.next_port;
        let local = match (options.bound, self.flags.local) {
            (Some(bound), _) if bound.port() != 0 => bound,
            (Some(bound), _) => SocketAddr::new(bound.ip(), port),
            (None, Some(local)) => SocketAddr::new(local, port),
            (None, None) => return Err(libc::EADDRNOTAVAIL),
        };
        self.next_port = self.next_port.wrapping_add(1).max(1024);
        let config = self.config(options, local, remote);
        let tcp = Tcp::connect(&config, self.now).map_err(errno)?;
        let socket = Socket::Connection {
            tcp: Box::new(tcp),
            is_told: false,
            resets: false,
        };
        self.sockets.insert(fd, (Some(local), socket));
        self.flush();
        Err(libc::EINPROGRESS)
    }

    fn tcp(&mut self, fd: i32) -> Result<&mut Tcp, Errno> {
        match self.sockets.get_mut(&fd) {
            Some((_, Socket::Connection { tcp, .. })) => Ok(tcp),
            Some(_) => Err(libc::ENOTCONN),
            None => Err(libc::EBADF),
        }
    }

    /// Why the connection has ended, if the program was not told yet.
    fn take_error(&mut self, fd: i32) -> Option<Errno> {
        match self.sockets.get_mut(&fd) {
            Some((_, Socket::Connection { tcp, is_told, .. })) if !*is_told => {
                let error = tcp.error()?;
                *is_told = true;
                Some(errno(error))
            }
            _ => None,
        }
    }

    /// Reads; `Ok(0)` at the end of the stream, and after the program was told of an error.
    pub(crate) fn read(&mut self, fd: i32, into: &mut [u8]) -> Result<usize, Errno> {
        let tcp = self.tcp(fd)?;
        let count = match tcp.receive(into) {
            Ok(0) if into.is_empty() || tcp.has_ended() => Ok(0),
            Ok(0) => Err(libc::EAGAIN),
            Ok(count) => Ok(count),
            Err(Error::NotConnected) => Err(libc::EAGAIN),
            Err(_) => self.take_error(fd).map_or(Ok(0), Err),
        };
        self.flush();
        count
    }

    /// Writes.
    pub(crate) fn write(&mut self, fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let count = match self.tcp(fd)?.send(bytes) {
            Ok(0) if !bytes.is_empty() => Err(libc::EAGAIN),
            Ok(count) => Ok(count),
            Err(Error::NotConnected) => Err(libc::EAGAIN),
            Err(_) => Err(self.take_error(fd).unwrap_or(libc::EPIPE)),
        };
        self.flush();
        count
    }

    /// Ends the stream to the other end.
    pub(crate) fn shutdown(&mut self, fd: i32, how: i32) -> Result<(), Errno> {
        if how != libc::SHUT_WR {
            return Err(libc::EOPNOTSUPP);
        }
        self.tcp(fd)?.shutdown();
        self.flush();
        Ok(())
    }

    /// Closes a socket. A connection goes on until its end.
    pub(crate) fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let (_, socket) = self.sockets.remove(&fd).ok_or(libc::EBADF)?;
        self.placeholders.remove(&fd);
        if let Socket::Connection {
            mut tcp, resets, ..
        } = socket
        {
            if resets {
                tcp.abort();
            } else {
                tcp.close();
            }
            self.orphans.push(*tcp);
        }
        self.flush();
        Ok(())
    }

    /// Sets an option to a number; of SO_LINGER it is the time, in seconds.
    pub(crate) fn set_option(
        &mut self,
        fd: i32,
        level: i32,
        name: i32,
        value: i32,
    ) -> Result<(), Errno> {
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            return match self.sockets.get_mut(&fd) {
                Some((_, Socket::Connection { resets, .. })) => {
                    *resets = value == 0;
                    Ok(())
                }
                _ => Err(libc::EINVAL),
            };
        }
        let options = self.options(fd)?;
        let number = u64::try_from(value).map_err(|_| libc::EINVAL)?;
        let bytes = usize::try_from(value).map_err(|_| libc::EINVAL)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {}
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => options.send_bytes = Some(bytes),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => options.receive_bytes = Some(bytes),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive = value != 0,
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.nagle = value == 0,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                options.keep_idle = Some(Duration::from_s(number));
            }
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                options.timeout = Some(Duration::from_ms(number));
            }
            _ => return Err(libc::ENOPROTOOPT),
        }
        Ok(())
    }

    /// The value of an option: only the error of a socket has one.
    pub(crate) fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<i32, Errno> {
        if (level, name) != (libc::SOL_SOCKET, libc::SO_ERROR) {
            return Err(libc::ENOPROTOOPT);
        }
        if !self.sockets.contains_key(&fd) {
            return Err(libc::EBADF);
        }
        Ok(self.take_error(fd).unwrap_or(0))
    }

    /// The events of a socket, as `poll` has them.
    pub(crate) fn events(&mut self, fd: i32) -> i16 {
        let Some((_, socket)) = self.sockets.get(&fd) else {
            return libc::POLLNVAL;
        };
        let Socket::Connection { tcp, .. } = socket else {
            return 0;
        };
        let mut events = 0;
        if tcp.readable_bytes() > 0 || tcp.has_ended() {
            events |= libc::POLLIN;
        }
        if tcp.state() == State::Open && tcp.writable_bytes() > 0 {
            events |= libc::POLLOUT;
        }
        if tcp.error().is_some() {
            events |= libc::POLLERR | libc::POLLHUP;
        }
        events
    }

    /// Takes a packet of the other end.
    pub(crate) fn take_packet(&mut self, packet: &[u8]) {
        let Some(Addresses { local, remote }) = Addresses::of(packet) else {
            return;
        };
        let mut packet = packet.to_vec();
        let now = self.now;
        let is_of = |tcp: &Tcp| tcp.config().local == local && tcp.config().remote == remote;
        let sockets = self.sockets.values_mut().map(|(_, socket)| socket);
        let live = sockets.filter_map(|socket| match socket {
            Socket::Connection { tcp, .. } => Some(&mut **tcp),
            _ => None,
        });
        let mut all = live.chain(self.orphans.iter_mut().rev());
        if let Some(tcp) = all.find(|tcp| is_of(tcp)) {
            tcp.handle_packet(&mut packet, Checked::No, now);
        } else {
            for (bound, socket) in self.sockets.values_mut() {
                match socket {
                    Socket::Listening(listener) if *bound == Some(local) => {
                        listener.handle_packet(&mut packet, Checked::No, now);
                    }
                    _ => {}
                }
            }
        }
        self.flush();
    }

    /// The next packet for the other end, with the time at which it left. Where there is none now,
    /// time passes until there is one.
    pub(crate) fn give_packet(&mut self) -> Option<(u64, Vec<u8>)> {
        let last = self.now.saturating_add(WAIT_MAX);
        while self.outgoing.is_empty() {
            let next = self.deadline().filter(|&next| next <= last)?;
            self.pass_until(next.max(self.now));
        }
        let (at, packet) = self.outgoing.pop_front()?;
        Some((us(at), packet))
    }

    /// Ends all, and says how many packets nobody has taken.
    pub(crate) fn end(&mut self) -> usize {
        for (_, placeholder) in core::mem::take(&mut self.placeholders) {
            // packetdrill has closed it.
            let _ = placeholder.into_raw_fd();
        }
        self.outgoing.len()
    }

    /// Lets so many microseconds pass.
    pub(crate) fn let_pass(&mut self, us: u64) {
        self.pass_until(self.now.saturating_add(Duration::from_us(us)));
    }

    /// The time, in microseconds. Each look takes one: packetdrill waits for moments by looking.
    pub(crate) fn time(&mut self) -> u64 {
        self.let_pass(1);
        us(self.now)
    }

    fn pass_until(&mut self, then: Instant) {
        // A deadline that stays where it is would end this loop.
        while let Some(next) = self.deadline().filter(|&next| next <= then) {
            self.now = next.max(self.now.saturating_add(Duration::from_us(1)));
            self.flush();
        }
        self.now = self.now.max(then);
        self.flush();
    }

    fn endpoints(&mut self) -> impl Iterator<Item = &mut dyn Endpoint> {
        let orphans = self.orphans.iter_mut().map(|tcp| tcp as &mut dyn Endpoint);
        let sockets = self.sockets.values_mut();
        let live = sockets.filter_map(|(_, socket)| match socket {
            Socket::New(_) => None,
            Socket::Listening(listener) => Some(listener as &mut dyn Endpoint),
            Socket::Connection { tcp, .. } => Some(&mut **tcp as &mut dyn Endpoint),
        });
        live.chain(orphans)
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.endpoints().filter_map(|end| end.next_deadline()).min()
    }

    /// Takes all packets of all sockets.
    fn flush(&mut self) {
        let now = self.now;
        let mut buffer = vec![0; usize::from(u16::MAX)];
        let mut sent = Vec::new();
        for end in self.endpoints() {
            while let Some(packet) = end.poll_packet(&mut buffer, now) {
                sent.push((now, buffer[..packet.bytes].to_vec()));
            }
        }
        self.outgoing.extend(sent);
    }
}

fn us(at: Instant) -> u64 {
    at.since_origin().as_us()
}

/// The two ends of the connection that a packet of the other end is about.
struct Addresses {
    local: SocketAddr,
    remote: SocketAddr,
}

impl Addresses {
    fn of(packet: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        const ICMP: u8 = 1;
        const ICMP_V6: u8 = 58;
        let (from, to, protocol, rest) = ip(packet)?;
        match protocol {
            TCP => Some(Self {
                local: SocketAddr::new(to, port(rest, 2)?),
                remote: SocketAddr::new(from, port(rest, 0)?),
            }),
            ICMP | ICMP_V6 => {
                // The quoted packet is one of ours.
                let (from, to, protocol, rest) = ip(rest.get(8..)?)?;
                (protocol == TCP).then_some(Self {
                    local: SocketAddr::new(from, port(rest, 0)?),
                    remote: SocketAddr::new(to, port(rest, 2)?),
                })
            }
            _ => None,
        }
    }
}

/// Source, destination, protocol and payload.
fn ip(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8])> {
    let v4 = |at: usize| {
        let bytes = packet.get(at..)?.first_chunk::<4>()?;
        Some(IpAddr::V4(Ipv4Addr::from(*bytes)))
    };
    let v6 = |at: usize| {
        let bytes = packet.get(at..)?.first_chunk::<16>()?;
        Some(IpAddr::V6(Ipv6Addr::from(*bytes)))
    };
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            Some((v4(12)?, v4(16)?, *packet.get(9)?, packet.get(header..)?))
        }
        6 => Some((v6(8)?, v6(24)?, *packet.get(6)?, packet.get(40..)?)),
        _ => None,
    }
}

fn port(header: &[u8], at: usize) -> Option<u16> {
    let bytes = header.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}
