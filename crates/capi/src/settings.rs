//! Settings of nodes, listeners and connections, as structures of C: all zero is the default.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use barewire::{
    Budget, ConnectOptions, HostsConfig, HugePages, ListenOptions, NodeConfig, Policy, Security,
    Spin, Transport, config,
};

use crate::border::{array, bytes, from_c, text, versioned};
use crate::failure::Result;

/// Longest out-of-band message.
pub const BW_OUT_OF_BAND_BYTES_MAX: usize = 4096;
/// Most data in a request to connect.
pub const BW_REQUEST_DATA_BYTES_MAX: usize = 4096;
/// Longest name.
pub const BW_NAME_BYTES_MAX: usize = 80;

const _: () = assert!(
    BW_OUT_OF_BAND_BYTES_MAX == config::OUT_OF_BAND_BYTES_MAX
        && BW_REQUEST_DATA_BYTES_MAX == config::REQUEST_DATA_BYTES_MAX
        && BW_NAME_BYTES_MAX == config::NAME_BYTES_MAX
);

/// How long to poll before sleeping, where something is waited for.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwSpin {
    /// At most spin_ns, or without it what two wake-ups cost on this machine; less while it does not pay.
    Adaptive = 0,
    /// Sleep at once.
    Never = 1,
    /// Never sleep.
    Forever = 2,
    /// Exactly spin_ns.
    For = 3,
}

/// Whether memory lies on transparent huge pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwHugePages {
    /// As the kernel does it.
    Never = 0,
    /// Where it can be had.
    Try = 1,
    /// Or else an error.
    Require = 2,
}

/// How nodes on different hosts make sure of each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwSecurity {
    /// They do not: no link to another host can be made or accepted.
    None = 0,
    /// By TLS, with the keys that `barewire node keygen` makes.
    Keys = 1,
    /// Nothing is proved and nothing is encrypted. Refused for addresses that are neither loopback nor private.
    Insecure = 2,
    /// The same, for all addresses.
    InsecureAnywhere = 3,
}

/// What carries links to other hosts.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwTransport {
    /// The connection over which the nodes have made sure of each other: TLS or TCP.
    Stream = 0,
    /// libfabric, if both nodes want it. Nothing that it carries is encrypted.
    Libfabric = 1,
}

/// What peers of other users may use up of a node. What is 0 is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwBudget {
    /// Nodes of these users that are linked to this one.
    pub links: u64,
    /// Connections, with those that wait to be accepted.
    pub connections: u64,
    /// Bytes of this process's private memory for them.
    pub private_bytes: u64,
    /// Mappings of shared memory.
    pub mappings: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Out-of-band messages and apertures that still wait in the event queue.
    pub events: u64,
}

/// Settings of a node. Set struct_bytes to sizeof(bw_node_config) and what you want; the rest is zero, which means
/// the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwNodeConfig {
    /// sizeof(bw_node_config)
    pub struct_bytes: usize,
    /// Bytes of each connection's receive ring: a power of two. Default: 4096.
    pub ring_bytes: usize,
    /// Longest message that will be received. Default: 16 MiB.
    pub message_bytes_max: usize,
    /// Most connections at a time. Default: 131072.
    pub connections_max: u32,
    /// Apertures that one peer may grant. Default: 1024.
    pub granted_apertures_max: u32,
    /// Bulk transfers at a time. Default: 64.
    pub bulk_max: u32,
    /// Requests of one listener that may wait. Default: 1024.
    pub backlog_max: u32,
    /// A value of bw_spin.
    pub spin: i32,
    /// 1 if the memory of the node is to be locked.
    pub lock_memory: i32,
    /// For BW_SPIN_FOR and BW_SPIN_ADAPTIVE.
    pub spin_ns: u64,
    /// A value of bw_huge_pages.
    pub huge_pages: i32,
    /// 1 if numa_node counts.
    pub use_numa_node: i32,
    /// The NUMA node from which memory is taken.
    pub numa_node: u32,
    /// A value of bw_security.
    pub security: i32,
    /// A value of bw_transport.
    pub transport: i32,
    /// 1 if two nodes on one host, which have met by an address, are not to use shared memory.
    pub no_shortcut: i32,
    /// A link to another host is lost if nothing came for this time. Default: 5 s.
    pub hosts_timeout_ns: u64,
    /// Bytes of the receive ring of a connection to another host. Default: 512 KiB.
    pub hosts_ring_bytes: usize,
    /// With BW_SECURITY_KEYS: the folder of the keys; null for the default.
    pub keys_folder: *const c_char,
    /// With BW_TRANSPORT_LIBFABRIC: its provider; null for the best.
    pub provider: *const c_char,
    /// File to record everything in, which Wireshark opens; null for none.
    pub capture_path: *const c_char,
    /// Largest ring of a peer of another user. Default: 16 MiB.
    pub foreign_ring_bytes_max: usize,
    /// What all processes of one other user may use up.
    pub user_budget: BwBudget,
    /// What all processes of all other users may use up.
    pub foreign_budget: BwBudget,
}

/// Settings of a listener: who may connect. Set struct_bytes; with everything else zero, processes of the same user.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwListenOptions {
    /// sizeof(bw_listen_options)
    pub struct_bytes: usize,
    /// 1 if any user in this network namespace may connect.
    pub anyone: i32,
    /// Not used: zero.
    pub reserved: i32,
    /// These users may connect, too.
    pub users: *const u32,
    /// How many.
    pub users_count: usize,
    /// Members of these groups may connect, too.
    pub groups: *const u32,
    /// How many.
    pub groups_count: usize,
    /// Nodes on other hosts may connect whose certificates this host trusts under these names.
    pub certificates: *const *const c_char,
    /// How many.
    pub certificates_count: usize,
}

/// Settings of one connection, on the connecting side. Set struct_bytes; what is zero is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwConnectOptions {
    /// sizeof(bw_connect_options)
    pub struct_bytes: usize,
    /// How long to try; BW_FOREVER. Default: 5 s.
    pub timeout_ns: i64,
    /// 1 to fail at once if nobody listens under the name yet.
    pub no_wait_for_name: i32,
    /// 1 if owner counts.
    pub use_owner: i32,
    /// The user who must hold the name. Default: our own.
    pub owner: u32,
    /// Not used: zero.
    pub reserved: u32,
    /// Handed to the listener with the request; at most BW_REQUEST_DATA_BYTES_MAX.
    pub data: *const c_void,
    /// How many.
    pub data_bytes: usize,
    /// Bytes of our receive ring. Default: as the node's.
    pub ring_bytes: usize,
}

/// Replaces a default by what is not 0.
fn set<T: PartialEq + Default>(to: &mut T, from: T) {
    if from != T::default() {
        *to = from;
    }
}

/// A path or name, if there is one.
///
/// # Safety
/// `path` is null, or leads to a string that ends with a zero byte.
unsafe fn path(path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller promises it.
    let path = unsafe { CStr::from_ptr(path) };
    Some(OsStr::from_bytes(path.to_bytes()).into())
}

from_c!(BwSpin, "bw_spin", Adaptive, Never, Forever, For);
from_c!(BwHugePages, "bw_huge_pages", Never, Try, Require);
from_c!(
    BwSecurity,
    "bw_security",
    None,
    Keys,
    Insecure,
    InsecureAnywhere
);
from_c!(BwTransport, "bw_transport", Stream, Libfabric);

fn budget(to: &mut Budget, from: &BwBudget) {
    set(&mut to.links, from.links);
    set(&mut to.connections, from.connections);
    set(&mut to.private_bytes, from.private_bytes);
    set(&mut to.mappings, from.mappings);
    set(&mut to.descriptors, from.descriptors);
    set(&mut to.events, from.events);
}

impl BwNodeConfig {
    fn spin(&self) -> Result<Spin> {
        let time = Duration::from_nanos(self.spin_ns);
        Ok(match BwSpin::from_c(self.spin)? {
            BwSpin::Adaptive => Spin::Adaptive {
                at_most: (self.spin_ns > 0).then_some(time),
            },
            BwSpin::Never => Spin::Never,
            BwSpin::Forever => Spin::Forever,
            BwSpin::For => Spin::For(time),
        })
    }

    fn huge_pages(&self) -> Result<HugePages> {
        Ok(match BwHugePages::from_c(self.huge_pages)? {
            BwHugePages::Never => HugePages::Never,
            BwHugePages::Try => HugePages::Try,
            BwHugePages::Require => HugePages::Require,
        })
    }

    /// # Safety
    /// Its texts end with a zero byte.
    unsafe fn hosts(&self) -> Result<HostsConfig> {
        let mut hosts = HostsConfig {
            security: match BwSecurity::from_c(self.security)? {
                BwSecurity::None => Security::None,
                BwSecurity::Keys => Security::Keys {
                    // SAFETY: the caller promises it.
                    folder: unsafe { path(self.keys_folder) },
                },
                BwSecurity::Insecure => Security::Insecure,
                BwSecurity::InsecureAnywhere => Security::InsecureAnywhere,
            },
            transport: match BwTransport::from_c(self.transport)? {
                BwTransport::Stream => Transport::Stream,
                BwTransport::Libfabric if self.provider.is_null() => {
                    Transport::Libfabric { provider: None }
                }
                BwTransport::Libfabric => Transport::Libfabric {
                    // SAFETY: the caller promises it.
                    provider: Some(unsafe { text(self.provider, "the provider")? }.to_owned()),
                },
            },
            shortcut: self.no_shortcut == 0,
            ..HostsConfig::default()
        };
        set(
            &mut hosts.timeout,
            Duration::from_nanos(self.hosts_timeout_ns),
        );
        set(&mut hosts.ring_bytes, self.hosts_ring_bytes);
        Ok(hosts)
    }
}

/// The settings of a node that a program passes.
///
/// # Safety
/// `config` is null or leads to a structure with its size, whose texts end with a zero byte.
pub(crate) unsafe fn node_config(config: *const BwNodeConfig) -> Result<NodeConfig> {
    let mut to = NodeConfig::default();
    // SAFETY: the caller promises it.
    let Some(from) = (unsafe { versioned(config, "bw_node_config")? }) else {
        return Ok(to);
    };
    set(&mut to.ring_bytes, from.ring_bytes);
    set(&mut to.message_bytes_max, from.message_bytes_max);
    set(&mut to.connections_max, from.connections_max);
    set(&mut to.granted_apertures_max, from.granted_apertures_max);
    set(&mut to.bulk_max, from.bulk_max);
    set(&mut to.backlog_max, from.backlog_max);
    set(&mut to.foreign_ring_bytes_max, from.foreign_ring_bytes_max);
    budget(&mut to.user_budget, &from.user_budget);
    budget(&mut to.foreign_budget, &from.foreign_budget);
    to.spin = from.spin()?;
    to.huge_pages = from.huge_pages()?;
    to.lock_memory = from.lock_memory != 0;
    to.numa_node = (from.use_numa_node != 0).then_some(from.numa_node);
    // SAFETY: the caller promises it.
    unsafe {
        to.capture = path(from.capture_path);
        to.hosts = from.hosts()?;
    }
    Ok(to)
}

/// The settings of a listener that a program passes.
///
/// # Safety
/// `options` is null or leads to a structure with its size, whose arrays have as many entries as it says.
pub(crate) unsafe fn listen_options(options: *const BwListenOptions) -> Result<ListenOptions> {
    // SAFETY: the caller promises it.
    let Some(from) = (unsafe { versioned(options, "bw_listen_options")? }) else {
        return Ok(ListenOptions::default());
    };
    let mut policy = match from.anyone {
        0 => Policy::same_user(),
        _ => Policy::anyone(),
    };
    // SAFETY: the caller promises it.
    let (users, groups, certificates) = unsafe {
        (
            array(from.users, from.users_count, "the array of users")?,
            array(from.groups, from.groups_count, "the array of groups")?,
            array(
                from.certificates,
                from.certificates_count,
                "the array of certificates",
            )?,
        )
    };
    policy = users
        .iter()
        .fold(policy, |policy, &uid| policy.and_user(uid));
    policy = groups
        .iter()
        .fold(policy, |policy, &gid| policy.and_group(gid));
    for &name in certificates {
        // SAFETY: the caller promises it.
        policy = policy.and_certificate(unsafe { text(name, "the name of a certificate")? });
    }
    Ok(ListenOptions { policy })
}

/// The settings of a connection that a program passes.
///
/// # Safety
/// `options` is null or leads to a structure with its size, whose data has as many bytes as it says.
pub(crate) unsafe fn connect_options(options: *const BwConnectOptions) -> Result<ConnectOptions> {
    let mut to = ConnectOptions::default();
    // SAFETY: the caller promises it.
    let Some(from) = (unsafe { versioned(options, "bw_connect_options")? }) else {
        return Ok(to);
    };
    match from.timeout_ns {
        0 => {}
        time => to.timeout = crate::border::timeout(time).unwrap_or(Duration::MAX),
    }
    to.wait_for_name = from.no_wait_for_name == 0;
    to.owner = (from.use_owner != 0).then_some(from.owner);
    // SAFETY: the caller promises it.
    to.data = unsafe { bytes(from.data, from.data_bytes)? }.to_vec();
    to.ring_bytes = (from.ring_bytes > 0).then_some(from.ring_bytes);
    Ok(to)
}
