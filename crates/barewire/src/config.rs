//! Settings of nodes, listeners and connections, with their limits.

use std::path::PathBuf;
use std::time::Duration;

use barewire_carrier::{How, PeerIdentity};
use barewire_fabric::frame::{RING_BYTES_MAX, RING_BYTES_MIN, ring_bytes_valid};
use barewire_shm::counters::{Huge, Placed};
use barewire_sys::memory::Placement;
use barewire_sys::process::{Credentials, descriptors_max, mappings_max};

use crate::error::{Error, Result};

pub use barewire_sys::memory::HugePages;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 80;
/// Most application data in a connection request, in bytes.
pub const REQUEST_DATA_BYTES_MAX: usize = 4096;
/// Longest out-of-band message, in bytes.
pub const OUT_OF_BAND_BYTES_MAX: usize = 4096;

/// How long to spin before sleeping, where something is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Sleep at once.
    Never,
    /// Never sleep: a processor is given to waiting.
    Forever,
    /// Exactly this long.
    For(Duration),
    /// At most this long, less while it does not pay; not at all on a machine with one processor.
    Adaptive {
        /// The longest; `None`: what two wake-ups cost on this machine, 50 to 200 µs. So long an answer takes from a peer
        /// that sleeps.
        at_most: Option<Duration>,
    },
}

/// What peers of other users may use up of a node. A request that would exceed it is refused,
/// and the refusal names what there is too much of. Other users are not affected.
///
/// A node made where the process may open few descriptors (`RLIMIT_NOFILE`) or have few mappings
/// (`vm.max_map_count`) gives at most half of them to all other users, and a quarter to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Links: nodes of these users that are linked to this one.
    pub links: u64,
    /// Connections, with those that wait to be accepted.
    pub connections: u64,
    /// Bytes of this process's private memory for them: tables, a bit for each cache line of their
    /// rings, messages that come in pieces, out-of-band messages, control messages that they do
    /// not read.
    pub private_bytes: u64,
    /// Mappings of shared memory.
    pub mappings: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Out-of-band messages and apertures that still wait in the event queue.
    pub events: u64,
}

impl Budget {
    /// The default for one user: 128 links, 16 384 connections, 64 MiB, 4096 mappings, 1024
    /// descriptors, 8192 events.
    #[must_use]
    pub fn of_one_user() -> Budget {
        Budget {
            links: 128,
            connections: 16_384,
            private_bytes: 64 << 20,
            mappings: 4096,
            descriptors: 1024,
            events: 8192,
        }
    }

    /// As much of it as leaves the process most of what it may have itself: one part in `share`.
    fn fitted(&self, share: u64) -> Budget {
        Budget {
            descriptors: self.descriptors.min(descriptors_max() / share),
            mappings: self.mappings.min(mappings_max() / share),
            ..self.clone()
        }
    }

    /// The default for all other users together: four times that of one.
    #[must_use]
    pub fn of_all_users() -> Budget {
        Budget {
            links: 512,
            connections: 65_536,
            private_bytes: 256 << 20,
            mappings: 16_384,
            descriptors: 4096,
            events: 32_768,
        }
    }
}

/// How nodes on different hosts make sure of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// They do not: no link to another host can be made or accepted.
    #[default]
    None,
    /// By TLS 1.3, with what `barewire node keygen` makes: each host has a key and trusts certificates of others, or all
    /// share a secret. They are read again for new links, at most once in a second.
    Keys {
        /// Where they are; `None`: where `barewire node keygen` puts them.
        folder: Option<PathBuf>,
    },
    /// *Nothing is proved and nothing is encrypted.* Whoever reaches the port may do what a process of our own user
    /// may. Refused for addresses that are neither loopback nor private.
    Insecure,
    /// As [`Security::Insecure`], for all addresses.
    InsecureAnywhere,
}

/// What carries links to other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The connection over which the nodes have made sure of each other: TLS with [`Security::Keys`], which encrypts
    /// everything, else TCP.
    #[default]
    Stream,
    /// libfabric, if both nodes want it. Nothing that it carries is encrypted.
    Libfabric {
        /// Its provider, such as `verbs` or `tcp`; `None`: the best that there is.
        provider: Option<String>,
    },
}

/// How a node talks to nodes on other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsConfig {
    /// How they make sure of each other.
    pub security: Security,
    /// What carries the links.
    pub transport: Transport,
    /// A link is lost if nothing has come from the other host for this time. Each side shows that it is there four
    /// times as often.
    pub timeout: Duration,
    /// Bytes of the receive ring of a connection to another host, where the connection has no size of its own: more than
    /// on one host, because credit takes longer to come back. The sender's host sets aside as many. A message that is longer
    /// than a quarter of it, less 64 bytes, goes in pieces, which takes longer.
    pub ring_bytes: usize,
    /// Whether two nodes that turn out to be on one host, in one network namespace and of one user, talk through shared
    /// memory.
    pub shortcut: bool,
}

impl Default for HostsConfig {
    fn default() -> HostsConfig {
        HostsConfig {
            security: Security::None,
            transport: Transport::Stream,
            timeout: Duration::from_secs(5),
            ring_bytes: 512 << 10,
            shortcut: true,
        }
    }
}

/// Settings of a [`Node`](crate::Node).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// How long to spin before sleeping.
    pub spin: Spin,
    /// Bytes of each connection's receive ring: a power of two. The memory of a
    /// connection is this plus 64 bytes at each of its two ends, touched as it is used.
    pub ring_bytes: usize,
    /// Longest message that will be received.
    pub message_bytes_max: usize,
    /// Most connections open at a time.
    pub connections_max: u32,
    /// Most apertures that one peer may have granted to this node at a time.
    pub granted_apertures_max: u32,
    /// What all processes of one other user may use up of this node. For its own user there
    /// is no such limit.
    pub user_budget: Budget,
    /// What all processes of all other users together may use up of this node.
    pub foreign_budget: Budget,
    /// Largest ring of a peer of another user, in bytes: private memory for it is in
    /// proportion.
    pub foreign_ring_bytes_max: usize,
    /// Bulk transfers that may be outstanding.
    pub bulk_max: u32,
    /// Connection requests of one listener that may wait to be accepted.
    pub backlog_max: u32,
    /// Where to record everything sent and received, as a pcapng file that Wireshark
    /// opens; `None`: nowhere. See [`Node::flush_capture`](crate::Node::flush_capture).
    pub capture: Option<PathBuf>,
    /// Whether the memory that this node makes is taken at once and kept from being swapped out
    /// (mlock): the rings that it receives from, the apertures that it exports, its doorbell
    /// pages. Not in it are its counters page, tables of tripwires, and what its peers have made.
    /// A link takes its memory in segments: 256 KiB first, then twice the last, up to 64 MiB.
    /// `RLIMIT_MEMLOCK` has to allow all of it, or [`Error::System`] names it.
    pub lock_memory: bool,
    /// The NUMA node that the same memory is taken from, whoever touches it first; others when it
    /// has none left (MPOL_PREFERRED). `None`: as the kernel does it. A node is made with an error
    /// if there is no such NUMA node, or the kernel has none.
    pub numa_node: Option<u32>,
    /// Whether rings and apertures lie on transparent huge pages, which are then taken at once.
    /// The segments of a link become whole numbers of them, so each link takes at least one (2
    /// MiB on x86-64); with [`HugePages::Require`] an aperture has to be a whole number of them.
    pub huge_pages: HugePages,
    /// How it talks to nodes on other hosts.
    pub hosts: HostsConfig,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            spin: Spin::Adaptive { at_most: None },
            ring_bytes: 4096,
            message_bytes_max: 16 << 20,
            connections_max: 131_072,
            granted_apertures_max: 1024,
            user_budget: Budget::of_one_user(),
            foreign_budget: Budget::of_all_users(),
            foreign_ring_bytes_max: 16 << 20,
            bulk_max: 64,
            backlog_max: 1024,
            capture: None,
            lock_memory: false,
            numa_node: None,
            huge_pages: HugePages::Never,
            hosts: HostsConfig::default(),
        }
    }
}

impl NodeConfig {
    /// Where the memory that it makes is to lie.
    pub(crate) fn placement(&self) -> Placement {
        Placement {
            lock: self.lock_memory,
            numa_node: self.numa_node,
            huge_pages: self.huge_pages,
        }
    }

    /// The same, for the counters page.
    pub(crate) fn placed(&self) -> Placed {
        Placed {
            locked: self.lock_memory,
            numa_node: self.numa_node,
            huge_pages: match self.huge_pages {
                HugePages::Never => Huge::No,
                HugePages::Try => Huge::Tried,
                HugePages::Require => Huge::Required,
            },
        }
    }

    /// The budgets of one other user and of all of them, as far as this process can give them.
    pub(crate) fn fitted_budgets(&self) -> (Budget, Budget) {
        (self.user_budget.fitted(4), self.foreign_budget.fitted(2))
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_ring(self.ring_bytes)?;
        check_ring(self.hosts.ring_bytes)?;
        check_message_max(self.message_bytes_max)?;
        check_connections_max(self.connections_max, CONNECTIONS_MAX)
    }
}

/// Most connections that a node may be made for.
const CONNECTIONS_MAX: u32 = 200_000;

pub(crate) fn check_connections_max(connections_max: u32, max: u32) -> Result<()> {
    if (1..=max).contains(&connections_max) {
        return Ok(());
    }
    Err(Error::OutOfLimits {
        what: "connections_max",
        value: u64::from(connections_max),
        min: 1,
        max: u64::from(max),
    })
}

pub(crate) fn check_ring(ring_bytes: usize) -> Result<()> {
    if ring_bytes_valid(ring_bytes) {
        return Ok(());
    }
    Err(Error::OutOfLimits {
        what: "ring_bytes (a power of two)",
        value: ring_bytes as u64,
        min: RING_BYTES_MIN as u64,
        max: RING_BYTES_MAX as u64,
    })
}

pub(crate) fn check_data(data: &[u8]) -> Result<()> {
    if data.len() <= REQUEST_DATA_BYTES_MAX {
        return Ok(());
    }
    Err(Error::OutOfLimits {
        what: "length of the data of a connection request",
        value: data.len() as u64,
        min: 0,
        max: REQUEST_DATA_BYTES_MAX as u64,
    })
}

pub(crate) fn check_message_max(message_bytes_max: usize) -> Result<()> {
    let max = 1 << 31;
    if (1..=max).contains(&message_bytes_max) {
        return Ok(());
    }
    Err(Error::OutOfLimits {
        what: "message_bytes_max",
        value: message_bytes_max as u64,
        min: 1,
        max: max as u64,
    })
}

/// Who may connect. By default the listener's own user only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    users: Vec<u32>,
    groups: Vec<u32>,
    certificates: Vec<String>,
    anyone: bool,
}

impl Policy {
    /// The listener's own user only.
    #[must_use]
    pub fn same_user() -> Policy {
        Policy::default()
    }

    /// Everybody who can see the name: any user in this network namespace.
    #[must_use]
    pub fn anyone() -> Policy {
        Policy {
            anyone: true,
            ..Policy::default()
        }
    }

    /// Allows a user as well.
    #[must_use]
    pub fn and_user(mut self, uid: u32) -> Policy {
        self.users.push(uid);
        self
    }

    /// Allows the members of a group as well.
    #[must_use]
    pub fn and_group(mut self, gid: u32) -> Policy {
        self.groups.push(gid);
        self
    }

    /// Allows the node on another host whose certificate this host trusts under this name, as well. Nodes that share a
    /// secret with this one need not be named.
    #[must_use]
    pub fn and_certificate(mut self, name: &str) -> Policy {
        self.certificates.push(name.to_owned());
        self
    }

    /// Whether a node on another host may connect that has proved to be this one.
    #[must_use]
    pub fn allows_host(&self, who: &PeerIdentity) -> bool {
        match who.how {
            // Whoever opened a port where nothing is proved has let everybody in who reaches it.
            How::Nobody | How::Secret => true,
            How::Certificate => self.anyone || self.certificates.contains(&who.name),
        }
    }

    /// Whether someone with these credentials and supplementary groups may connect to a
    /// listener of user `own_uid`.
    #[must_use]
    pub fn allows(&self, own_uid: u32, who: &Credentials, groups: &[u32]) -> bool {
        self.anyone
            || who.uid == own_uid
            || self.users.contains(&who.uid)
            || self.groups.contains(&who.gid)
            || groups.iter().any(|gid| self.groups.contains(gid))
    }
}

/// Settings of a listener.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// Who may connect.
    pub policy: Policy,
}

/// Settings of one connection, on the connecting side.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// How long to try, waiting for the name to appear if `wait_for_name`.
    pub timeout: Duration,
    /// Whether to wait for a name that nobody listens under yet.
    pub wait_for_name: bool,
    /// The user whose name it is and who must hold it; `None`: our own.
    pub owner: Option<u32>,
    /// Handed to the listener with the request, at most [`REQUEST_DATA_BYTES_MAX`].
    pub data: Vec<u8>,
    /// Bytes of our receive ring; `None`: as the node's.
    pub ring_bytes: Option<usize>,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            timeout: Duration::from_secs(5),
            wait_for_name: true,
            owner: None,
            data: Vec::new(),
            ring_bytes: None,
        }
    }
}

/// The socket name under which `name` of user `owner` is listened to.
pub(crate) fn socket_name(owner: u32, name: &str) -> Result<Vec<u8>> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.bytes().any(|b| b == 0) {
        return Err(Error::BadName {
            name: name.to_owned(),
            max: NAME_BYTES_MAX,
        });
    }
    Ok(format!("barewire/1/{owner}/{name}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_allow_whom_they_name() {
        let who = |uid, gid| Credentials { pid: 1, uid, gid };
        assert!(Policy::same_user().allows(5, &who(5, 9), &[]));
        assert!(!Policy::same_user().allows(5, &who(6, 9), &[]));
        assert!(
            !Policy::same_user().allows(5, &who(0, 0), &[]),
            "root neither"
        );
        assert!(Policy::anyone().allows(5, &who(6, 9), &[]));
        let some = Policy::same_user().and_user(7).and_group(100);
        assert!(some.allows(5, &who(7, 9), &[]));
        assert!(some.allows(5, &who(6, 100), &[]));
        assert!(some.allows(5, &who(6, 9), &[4, 100]));
        assert!(!some.allows(5, &who(6, 9), &[4]));
    }

    #[test]
    fn names_are_checked() {
        assert!(socket_name(0, "").is_err());
        assert!(socket_name(0, "a\0b").is_err());
        assert!(socket_name(0, &"x".repeat(NAME_BYTES_MAX + 1)).is_err());
        let longest = socket_name(u32::MAX, &"x".repeat(NAME_BYTES_MAX)).unwrap();
        assert!(longest.len() <= 107, "fits an abstract socket address");
    }
}
