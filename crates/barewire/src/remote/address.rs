//! Addresses of names on other hosts: `host:port/name`, or `certificate@host:port/name`.

use std::net::{IpAddr, SocketAddr};

/// Who has connected to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Dialling,
    Accepting,
}

/// A name at a port of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName {
    /// `host:port`, or `certificate@host:port`, as it was written.
    pub host: String,
    pub name: String,
}

/// The two parts of `certificate@host:port`: under which name the host must be trusted, if any is given, and where it is.
pub(crate) fn split_host(host: &str) -> (Option<&str>, &str) {
    match host.split_once('@') {
        Some((certificate, address)) => (Some(certificate), address),
        None => (None, host),
    }
}

impl HostName {
    /// What `text` names, if it is `host:port/name`; else it is a name on this host.
    pub fn parse(text: &str) -> Option<HostName> {
        let (host, name) = text.split_once('/')?;
        let (address, port) = host.rsplit_once(':')?;
        let (certificate, address) = split_host(address);
        let is_named = certificate != Some("");
        let is_address = is_named && !address.is_empty() && !address.contains(char::is_whitespace);
        if !is_address || port.parse::<u16>().is_err() || name.is_empty() {
            return None;
        }
        Some(HostName {
            host: host.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Whether an address can only be reached from this host or from a private network: loopback, RFC 1918, RFC 4193,
/// link-local, and that of no interface in particular is none of them.
pub(crate) fn is_private(address: &SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => {
            let first = ip.segments()[0];
            ip.is_loopback() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_other_hosts_have_a_port_and_a_name() {
        for (text, host, name) in [
            ("node3:7400/store", "node3:7400", "store"),
            ("10.0.0.7:7400/a/b", "10.0.0.7:7400", "a/b"),
            ("[fe80::1]:7400/x", "[fe80::1]:7400", "x"),
            ("ada@10.0.0.7:7400/x", "ada@10.0.0.7:7400", "x"),
        ] {
            let found = HostName::parse(text).unwrap();
            assert_eq!((found.host.as_str(), found.name.as_str()), (host, name));
        }
        for text in [
            "store",
            "a/b",
            "node3/store",
            "node3:x/store",
            "node3:7400/",
            ":7400/x",
            "@node3:7400/x",
            "ada@:7400/x",
            "node3:70000/x",
        ] {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn private_networks_are_told_from_the_internet() {
        for text in [
            "127.0.0.1:1",
            "10.9.8.7:1",
            "172.31.0.1:1",
            "192.168.1.1:1",
            "[::1]:1",
            "[fd00::1]:1",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert!(is_private(&text.parse().unwrap()), "{text}");
        }
        for text in [
            "8.8.8.8:1",
            "172.32.0.1:1",
            "0.0.0.0:1",
            "[::]:1",
            "[2001:db8::1]:1",
        ] {
            assert!(!is_private(&text.parse().unwrap()), "{text}");
        }
    }
}
