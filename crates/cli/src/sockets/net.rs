//! The addresses and names of sockets, and whose they are, by inode: what `/proc` says.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::memory::numbers_in;

/// The addresses of a TCP socket, or the name of a Unix stream socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Its own: an address, a path, or `@` and an abstract name.
    pub local: Option<String>,
    /// The address of the other end. That of a Unix socket is not told here.
    pub remote: Option<String>,
    /// It listens.
    pub listens: bool,
    /// It is a Unix socket.
    pub is_unix: bool,
}

/// The TCP sockets and Unix stream sockets of a network namespace.
#[derive(Debug, Default)]
pub struct Network {
    by_inode: HashMap<u64, Names>,
    by_ends: HashMap<(String, String), u64>,
}

const LISTEN: u32 = 10;

impl Network {
    /// Those that a process sees.
    pub fn read(pid: i32) -> Network {
        let mut network = Network::default();
        for family in ["tcp", "tcp6"] {
            let table = std::fs::read_to_string(format!("/proc/{pid}/net/{family}"));
            network.add(&table.unwrap_or_default());
        }
        // A path may be any bytes.
        let table = std::fs::read(format!("/proc/{pid}/net/unix")).unwrap_or_default();
        network.add_unix(&String::from_utf8_lossy(&table));
        network
    }

    /// Adds a table as in `/proc/net/unix`.
    pub fn add_unix(&mut self, table: &str) {
        self.by_inode
            .extend(table.lines().skip(1).filter_map(unix_row));
    }

    /// Adds a table as in `/proc/net/tcp`.
    pub fn add(&mut self, table: &str) {
        for (inode, names) in table.lines().skip(1).filter_map(row) {
            if let (Some(local), Some(remote)) = (&names.local, &names.remote) {
                self.by_ends.insert((local.clone(), remote.clone()), inode);
            }
            self.by_inode.insert(inode, names);
        }
    }

    /// The addresses of a socket.
    pub fn names(&self, inode: u64) -> Option<&Names> {
        self.by_inode.get(&inode)
    }

    /// The socket at the other end, if it is of this network.
    pub fn other_end(&self, local: Option<&str>, remote: Option<&str>) -> Option<u64> {
        let ends = (remote?.to_owned(), local?.to_owned());
        self.by_ends.get(&ends).copied()
    }
}

/// `slot: local remote state queues timer retries user timeout inode ...`
fn row(line: &str) -> Option<(u64, Names)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    let listens = u32::from_str_radix(words.next()?, 16).ok()? == LISTEN;
    let inode = words.nth(5)?.parse().ok().filter(|inode| *inode != 0)?;
    let remote = (!listens && remote.port() != 0).then_some(remote);
    let names = Names {
        local: Some(local.to_string()),
        remote: remote.map(|address| address.to_string()),
        listens,
        is_unix: false,
    };
    Some((inode, names))
}

/// Of `/proc/net/unix`: a stream socket; in the flags, that it listens.
const UNIX_STREAM: &str = "0001";
const UNIX_LISTENS: u32 = 1 << 16;

/// `address: references protocol flags type state inode [name]`
fn unix_row(line: &str) -> Option<(u64, Names)> {
    let mut words = line.split_ascii_whitespace().skip(3);
    let flags = u32::from_str_radix(words.next()?, 16).ok()?;
    if words.next()? != UNIX_STREAM {
        return None;
    }
    let inode = words.nth(1)?;
    // A name may have spaces in it, and whatever else: nothing in it may steer a terminal.
    let name = line.split_once(&format!(" {inode} ")).map(|(_, name)| name);
    let name = name.map(|name| name.chars().filter(|one| !one.is_control()).collect());
    let names = Names {
        local: name.filter(|name: &String| !name.is_empty()),
        remote: None,
        listens: flags & UNIX_LISTENS != 0,
        is_unix: true,
    };
    Some((inode.parse().ok()?, names))
}

/// `0100007F:1F90`: words in the byte order of the machine, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let address = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// The name of a process's network namespace; of its own if it may not be seen.
pub fn namespace(pid: i32) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net"));
    link.map_or_else(
        |_| format!("of process {pid}"),
        |path| path.display().to_string(),
    )
}

/// The sockets of a process: inode by descriptor.
pub fn inodes(pid: i32) -> HashMap<i32, u64> {
    let inode = |fd| {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let inode = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        Some((fd, inode.parse().ok()?))
    };
    numbers_in(&format!("/proc/{pid}/fd"))
        .filter_map(inode)
        .collect()
}

/// Processes that have the sockets of these inodes; the first of each.
pub fn owners(inodes: impl Iterator<Item = u64>) -> HashMap<u64, i32> {
    let mut wanted: HashSet<u64> = inodes.collect();
    let mut owners = HashMap::new();
    for pid in numbers_in("/proc") {
        for inode in self::inodes(pid).into_values() {
            if wanted.remove(&inode) {
                owners.insert(inode, pid);
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:18EB 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 0100007F:9C40 0100007F:18EB 01 00000000:00000000 00:00000000 00000000     0        0 4713 1
   3: garbage
   4: 0100007F:9C41 0100007F:18EB 06 00000000:00000000 00:00000000 00000000     0        0 0 1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn tables_are_read() {
        let mut network = Network::default();
        network.add(TABLE);
        network.add("head\n 0: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:0051 01 0:0 0:0 0 0 0 9 1\n");
        let listener = network.names(4711).unwrap();
        assert!(listener.listens && listener.remote.is_none());
        let names = network.names(4712).unwrap();
        assert_eq!(names.local.as_deref(), Some("127.0.0.1:6379"));
        let ends = (names.local.as_deref(), names.remote.as_deref());
        assert_eq!(network.other_end(ends.0, ends.1), Some(4713));
        let names = network.names(9).unwrap();
        assert_eq!(names.local.as_deref(), Some("127.0.0.1:80"));
        assert!(network.names(0).is_none());
    }

    #[test]
    fn unix_sockets_are_read() {
        const TABLE: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 71 /run/a place/socket
0000000000000000: 00000003 00000000 00000000 0001 03 72 @an abstract\u{1b}[2J name
0000000000000000: 00000003 00000000 00000000 0001 03 73
0000000000000000: 00000003 00000000 00000000 0002 01 74 /dev/log
garbage
";
        let mut network = Network::default();
        network.add_unix(TABLE);
        let name = |inode| network.names(inode).map(|names| names.local.as_deref());
        assert_eq!(name(71), Some(Some("/run/a place/socket")));
        assert!(network.names(71).unwrap().listens);
        assert_eq!(name(72), Some(Some("@an abstract[2J name")));
        assert!(!network.names(72).unwrap().listens);
        assert_eq!(name(73), Some(None));
        assert_eq!(name(74), None);
    }
}
