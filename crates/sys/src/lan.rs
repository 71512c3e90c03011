//! Hosts that are network namespaces of this machine, with a cable between two of them, or a bridge among many.
//!
//! ```text
//! host 0: nic ──── nic: host 1             host 0: nic ──── port0 ┐
//!                                          host 1: nic ──── port1 ├ bridge, in a namespace of its own
//!                                          host 2: nic ──── port2 ┘
//! ```
//!
//! Nothing here has a name outside: this process holds the namespaces, so they and their cables go with it, also when it
//! is killed. There is never anything left to be removed. A process that was started in one holds that one as well.

use std::io;
use std::net::Ipv4Addr;

use crate::links::{add_address, add_bridge, add_cable, index, set_bridge, set_state};
use crate::netlink::RouteSocket;
use crate::netns::NetNamespace;

const NIC: &str = "nic";
const BRIDGE: &str = "bridge";

/// A host.
#[derive(Debug)]
pub struct LanHost {
    /// Its network.
    pub net: NetNamespace,
    /// Its address at the cable: a private one.
    pub address: Ipv4Addr,
}

/// Hosts that reach each other.
#[derive(Debug)]
pub struct Lan {
    /// The hosts. Their loopback interfaces are up, too.
    pub hosts: Vec<LanHost>,
    /// Holds the bridge.
    _switch: Option<NetNamespace>,
}

impl Lan {
    /// Two hosts, and a cable between them.
    ///
    /// # Errors
    /// Not root (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`); no namespaces or no `veth` links in this kernel or sandbox.
    pub fn pair() -> io::Result<Lan> {
        let nets = [NetNamespace::create()?, NetNamespace::create()?];
        nets[0].run(|| add_cable(&mut RouteSocket::open()?, NIC, &nets[1], NIC))?;
        let hosts = nets.into_iter().enumerate();
        Ok(Lan {
            hosts: hosts
                .map(|(number, net)| LanHost::new(number, net))
                .collect::<io::Result<_>>()?,
            _switch: None,
        })
    }

    /// So many hosts, at most 250, around a bridge.
    ///
    /// # Errors
    /// As [`pair`](Self::pair); no bridges in this kernel.
    pub fn around_bridge(hosts: usize) -> io::Result<Lan> {
        let switch = NetNamespace::create()?;
        let bridge = switch.run(|| {
            let mut socket = RouteSocket::open()?;
            add_bridge(&mut socket, BRIDGE)?;
            set_state(&mut socket, BRIDGE, true)?;
            index(&mut socket, BRIDGE)
        })?;
        let host = |number: usize| {
            let net = NetNamespace::create()?;
            let port = format!("port{number}");
            switch.run(|| {
                let mut socket = RouteSocket::open()?;
                add_cable(&mut socket, &port, &net, NIC)?;
                set_bridge(&mut socket, &port, bridge)?;
                set_state(&mut socket, &port, true)
            })?;
            LanHost::new(number, net)
        };
        Ok(Lan {
            hosts: (0..hosts).map(host).collect::<io::Result<_>>()?,
            _switch: Some(switch),
        })
    }
}

impl LanHost {
    /// With a network that has a cable already.
    fn new(number: usize, net: NetNamespace) -> io::Result<LanHost> {
        let last = u8::try_from(number + 1).ok().filter(|last| *last <= 250);
        let address = Ipv4Addr::new(10, 77, 0, last.ok_or(io::ErrorKind::InvalidInput)?);
        net.run(|| {
            let mut socket = RouteSocket::open()?;
            set_state(&mut socket, "lo", true)?;
            set_state(&mut socket, NIC, true)?;
            let nic = index(&mut socket, NIC)?;
            add_address(&mut socket, nic, address)
        })?;
        Ok(LanHost { net, address })
    }

    /// Pulls its cable, or puts it back.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_cable(&self, is_in: bool) -> io::Result<()> {
        self.net
            .run(|| set_state(&mut RouteSocket::open()?, NIC, is_in))
    }
}
