//! `barewire bridge`: a bridge between ordinary hosts and programs on Barewire.

use std::net::IpAddr;
use std::time::Duration;

use barewire::Policy;
use barewire_bridge::{
    Bridge, BridgeConfig, BridgeError, Device, Limits, NAME_DEFAULT, Prefixed, Summary,
};
use clap::Args;

pub const AFTER: &str = "\
Examples:
  barewire bridge --tap bw0 --tap-address 10.0.0.1/24 --address 10.0.0.9/24
  barewire bridge --interface eth1 --address 192.0.2.9/24 --gateway 192.0.2.1
  barewire bridge --interface eth1 --address 192.0.2.9/24 --address 2001:db8::9/64 --user 1000
  barewire bridge --interface eth1 --xdp --address 192.0.2.9/24
  kill -USR1 PID      print what it has counted, as it also does at its end

Run it as root, or with CAP_NET_ADMIN (--tap), CAP_NET_RAW (--interface) or CAP_NET_RAW,
CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK (--xdp). It gives up all capabilities as soon as the
device is open. The address must be one that no host has, this one included. Programs reach it in
the same network namespace.";

/// A bridge between ordinary hosts and programs on Barewire, which lease its ports
#[derive(Clone, Debug, Args)]
pub struct BridgeArgs {
    /// Be a host behind this TAP device, which is made if it is not there
    #[arg(long, value_name = "NAME", required_unless_present = "interface")]
    tap: Option<String>,
    /// Give this host's kernel an address at the TAP device
    #[arg(long, value_name = "ADDRESS/PREFIX", requires = "tap")]
    tap_address: Vec<Prefixed>,
    /// Be a host at this Ethernet interface, beside the kernel
    #[arg(long, value_name = "NAME", conflicts_with = "tap")]
    interface: Option<String>,
    /// Take the interface's frames by AF_XDP, with fewer system calls and no offload
    #[arg(long, requires = "interface", conflicts_with = "tap")]
    xdp: bool,
    /// The bridge's own address; one of IPv4, one of IPv6 or both
    #[arg(long, value_name = "ADDRESS/PREFIX", required = true)]
    address: Vec<Prefixed>,
    /// The host that takes packets to other networks
    #[arg(long, value_name = "ADDRESS")]
    gateway: Vec<IpAddr>,
    /// The name under which programs find it
    #[arg(long, default_value = NAME_DEFAULT)]
    name: String,
    /// Let programs of this user lease ports, too; may be repeated
    #[arg(long, value_name = "UID")]
    user: Vec<u32>,
    /// Let programs of all users lease ports
    #[arg(long)]
    anyone: bool,
    /// Leases in all
    #[arg(long, value_name = "N", default_value_t = Limits::default().leases_max)]
    leases: u32,
    /// Leases of one user
    #[arg(long, value_name = "N", default_value_t = Limits::default().user_leases_max)]
    user_leases: u32,
    /// How long a port waits after a connection
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    time_wait: barewire_units::Duration,
    /// How long to poll before sleeping
    #[arg(long, value_name = "TIME", default_value = "50 us")]
    spin: barewire_units::Duration,
    /// Bytes of the queue from each client, a power of two
    #[arg(long, value_name = "SIZE", default_value = "512 KiB")]
    ring: barewire_units::ByteSize,
    /// Complete checksums and cut large packets here, whatever the device can do
    #[arg(long)]
    no_offload: bool,
}

impl BridgeArgs {
    fn config(&self) -> BridgeConfig {
        let device = match (&self.tap, &self.interface) {
            (Some(name), _) => Device::Tap {
                name: name.clone(),
                host: self.tap_address.clone(),
            },
            (None, name) => {
                let name = name.clone().unwrap_or_default();
                if self.xdp {
                    Device::Xdp { name }
                } else {
                    Device::Interface { name }
                }
            }
        };
        let policy = if self.anyone {
            Policy::anyone()
        } else {
            Policy::same_user()
        };
        BridgeConfig {
            addresses: self.address.clone(),
            gateways: self.gateway.clone(),
            name: self.name.clone(),
            policy: self
                .user
                .iter()
                .fold(policy, |policy, uid| policy.and_user(*uid)),
            limits: Limits {
                leases_max: self.leases,
                user_leases_max: self.user_leases,
                time_wait: self.time_wait,
                ..Limits::default()
            },
            ring_bytes: usize::try_from(self.ring.as_bytes()).unwrap_or(usize::MAX),
            spin: Duration::from_nanos(self.spin.as_ns()),
            offload: !self.no_offload,
            ..BridgeConfig::new(device)
        }
    }
}

/// Does it, until a signal ends it.
pub fn run(args: &BridgeArgs) -> Result<(), BridgeError> {
    let mut bridge = Bridge::open(&args.config())?;
    let at = bridge.attachment();
    let addresses = [at.v4, at.v6]
        .into_iter()
        .flatten()
        .map(|network| network.address.to_string());
    let addresses = addresses.collect::<Vec<_>>().join(" and ");
    eprintln!(
        "barewire: the bridge `{}` is {addresses} (MTU {} bytes)",
        args.name, at.mtu_bytes
    );
    bridge.serve_until_signal(|summary: &Summary| {
        eprintln!("barewire: bridge `{}`: {summary}", args.name)
    })
}
