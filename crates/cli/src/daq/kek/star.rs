//! Hosts around a switch: network namespaces, and a bridge of which every port has a line of some
//! rate with a buffer of some size before it.
//!
//! ```text
//! host 0: nic ──── port0 ┐
//! host 1: nic ──── port1 ├ bridge        in a namespace of its own: the switch
//! host 2: nic ──── port2 ┘
//! ```
//!
//! What a host sends waits at its `nic`, what the switch sends to it at the port. Nothing here has
//! a name outside: namespaces are held by this process alone, so all of it goes with the process,
//! also when that is killed, and there is never anything left to be removed.

use std::io;
use std::net::Ipv4Addr;

use barewire_daq::shape::{Class, ClassId, Interface, LATENESS, ShapeError, Taken};
use barewire_sys::links::{Setting, add_address, add_bridge, add_cable, set_up};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;
use barewire_units::Rate;

/// The class of everything, at a port or at a NIC that is no one's.
const LINE: ClassId = ClassId { queue: 1, minor: 1 };

/// A line and the buffer before it.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub rate: Rate,
    /// `None`: as many packets as the interface has places, a thousand.
    pub buffer_bytes: Option<u32>,
}

/// What is the same for all hosts and ports.
#[derive(Clone, Copy, Debug)]
pub struct Wiring<'a> {
    pub mtu_bytes: u32,
    /// Packets that TCP hands over at once.
    pub segments_max: u32,
    /// How TCP controls congestion.
    pub congestion: &'a str,
}

impl Wiring<'_> {
    fn setting(&self, bridge: Option<u32>) -> Setting {
        Setting {
            mtu_bytes: self.mtu_bytes,
            segments_max: self.segments_max,
            bridge,
        }
    }
}

#[derive(Debug)]
pub struct Host {
    pub net: NetNamespace,
    pub address: Ipv4Addr,
    /// Where it sends.
    pub nic: Interface,
    /// Where the switch sends to it.
    pub port: Interface,
}

#[derive(Debug)]
pub struct Star {
    pub hosts: Vec<Host>,
    /// Holds the bridge.
    _switch: NetNamespace,
}

fn io_error(error: ShapeError) -> io::Error {
    match error {
        ShapeError::System { error, .. } => error,
        other => io::Error::other(other.to_string()),
    }
}

impl Star {
    /// So many hosts around a switch, no line limited.
    pub fn new(hosts: usize, wiring: &Wiring<'_>) -> io::Result<Self> {
        let switch = NetNamespace::create()?;
        let bridge = switch.run(|| {
            let mut socket = RouteSocket::open()?;
            add_bridge(&mut socket, "bridge")?;
            set_up(&mut socket, "bridge", wiring.setting(None))?;
            Ok(Interface::named("bridge").map_err(io_error)?.index())
        })?;
        let host = |number| Host::new(number, &switch, bridge, wiring);
        let hosts = (0..hosts).map(host).collect::<io::Result<_>>()?;
        Ok(Self {
            hosts,
            _switch: switch,
        })
    }
}

impl Host {
    fn new(
        number: usize,
        switch: &NetNamespace,
        bridge: u32,
        wiring: &Wiring<'_>,
    ) -> io::Result<Self> {
        let net = NetNamespace::create()?;
        let name = format!("port{number}");
        // Of the addresses that are set aside for measurements of networks.
        let last = u8::try_from(number + 1).map_err(io::Error::other)?;
        let address = Ipv4Addr::new(198, 18, 0, last);
        let port = switch.run(|| {
            let mut socket = RouteSocket::open()?;
            add_cable(&mut socket, &name, &net, "nic")?;
            set_up(&mut socket, &name, wiring.setting(Some(bridge)))?;
            Interface::named(&name).map_err(io_error)
        })?;
        let nic = net.run(|| {
            control_congestion(wiring.congestion)?;
            let mut socket = RouteSocket::open()?;
            set_up(&mut socket, "nic", wiring.setting(None))?;
            let nic = Interface::named("nic").map_err(io_error)?;
            add_address(&mut socket, nic.index(), address)?;
            Ok(nic)
        })?;
        Ok(Self {
            net,
            address,
            nic,
            port,
        })
    }

    /// TCP's count of segments that were sent again.
    pub fn retransmitted(&self) -> io::Result<u64> {
        let text = self
            .net
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))?;
        retransmitted_in(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What its port has sent, and dropped.
    pub fn port_taken(&mut self) -> io::Result<Taken> {
        let classes = self.port.classes()?;
        let line = classes.into_iter().find(|it| it.0 == LINE);
        Ok(line.map(|it| it.1).unwrap_or_default())
    }
}

/// Limits what an interface sends, all together.
pub fn limit(interface: &mut Interface, line: Line) -> Result<(), ShapeError> {
    interface.set_root(LINE.queue, Some(LINE))?;
    // Two packets; a line has no burst, but the kernel comes late.
    let packets_bytes = 2 * u64::from(interface.mtu_bytes());
    let class = Class {
        rate: line.rate,
        burst_bytes: line.rate.bytes_in(LATENESS).as_bytes().max(packets_bytes),
    };
    interface.set_class(LINE, class)?;
    match line.buffer_bytes {
        Some(bytes) => interface.set_buffer(LINE, bytes),
        None => Ok(()),
    }
}

/// Of all TCP connections of this namespace. A connection that was idle keeps its window.
fn control_congestion(how: &str) -> io::Result<()> {
    std::fs::write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0")?;
    let set = std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", how);
    set.map_err(|error| {
        io::Error::other(format!(
            "TCP's congestion control `{how}`: {error}; in namespaces there are those of \
             `sysctl net.ipv4.tcp_allowed_congestion_control`"
        ))
    })
}

/// The figure under its name: a line of names is followed by one of figures.
fn retransmitted_in(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|it| it.starts_with("Tcp:"));
    let (names, figures) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(figures.split(' '));
    pairs.find(|it| it.0 == "RetransSegs")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_sent_again_are_found() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: RtoMin InSegs OutSegs RetransSegs InErrs\n\
                    Tcp: 200 10 20 33 0\nUdp: InDatagrams\nUdp: 7\n";
        assert_eq!(retransmitted_in(text), Some(33));
        assert_eq!(retransmitted_in("Tcp: RtoMin\n"), None);
    }
}
