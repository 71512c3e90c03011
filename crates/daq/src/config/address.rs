//! Addresses of the configuration: an IP address or the name of a host, with a port.
//!
//! Names are resolved when they are used: a configuration is read the same way on every host, and
//! out of a recording.

use core::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _};

use super::read::Reader;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// An IP address, or a name.
    host: String,
    port: u16,
}

impl HostPort {
    /// From `127.0.0.1:7100`, `[::1]:7100` or `name:7100`; `None` if it is none of these.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let (host, port) = (address.ip().to_string(), address.port());
            return Some(Self { host, port });
        }
        let (host, port) = text.rsplit_once(':')?;
        let is_sign = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
        let is_name = !host.is_empty() && host.len() < 254 && host.chars().all(is_sign);
        // Digits and points alone are a wrong IP address.
        let is_name = is_name && host.contains(|it: char| it.is_ascii_alphabetic());
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        is_name.then_some(Self { host, port })
    }

    /// All addresses of the host, those of IPv4 first.
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found =
            found.map_err(|error| io::Error::new(error.kind(), format!("{self}: {error}")))?;
        let mut all: Vec<_> = found.collect();
        all.sort_by_key(SocketAddr::is_ipv6);
        Ok(all)
    }

    /// Listens there.
    ///
    /// # Errors
    ///
    /// The name is unknown, is not this host's, or somebody listens there.
    pub fn listen(&self) -> io::Result<TcpListener> {
        TcpListener::bind(&self.resolve()?[..])
    }

    fn with_port_plus(&self, more: u16) -> Option<Self> {
        let host = self.host.clone();
        let port = self.port.checked_add(more)?;
        Some(Self { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(host)) => write!(f, "[{host}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Reads one out of the value of a key.
pub(super) fn read(reader: &mut Reader, section: &str, key: &str, text: &str) -> Option<HostPort> {
    let address = HostPort::parse(text);
    if address.is_none() {
        let wanted = format!(
            "`{text}`: expected an address or a host name with a port, such as 127.0.0.1:7100"
        );
        reader.fault(section, key, wanted);
    }
    address
}

/// The manager's, and one for each builder.
pub(super) fn read_all(r: &mut Reader, builders: u16, are_used: bool) -> (HostPort, Vec<HostPort>) {
    let nowhere = HostPort {
        host: "127.0.0.1".to_owned(),
        port: 0,
    };
    let text = r.text("tcp", "manager");
    let manager = read(r, "tcp", "manager", &text).unwrap_or(nowhere);
    let texts = r.list("tcp", "builders");
    let mut all: Vec<_> = texts
        .iter()
        .filter_map(|text| read(r, "tcp", "builders", text))
        .collect();
    let are_good = all.len() == texts.len();
    if let [first] = &all[..] {
        let first = first.clone();
        all = (0..builders)
            .map_while(|n| first.with_port_plus(n))
            .collect();
    }
    if are_good && all.len() != usize::from(builders) {
        let wanted = format!("expected one address, or {builders}, one for each builder");
        r.fault("tcp", "builders", wanted);
    }
    if are_used {
        check(r, &manager, &all);
    }
    (manager, all)
}

/// Whether each part has an address of its own.
fn check(r: &mut Reader, manager: &HostPort, builders: &[HostPort]) {
    for (at, builder) in builders.iter().enumerate() {
        if builder == manager {
            let wanted =
                format!("builder {at} has the address of tcp.manager, expected another one");
            r.fault("tcp", "builders", wanted);
        }
        if let Some(other) = builders[..at].iter().position(|it| it == builder) {
            let wanted = format!("builders {other} and {at} have the same address");
            r.fault("tcp", "builders", wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_nothing_else() {
        for good in ["127.0.0.1:7100", "[::1]:7", "localhost:80", "a-1.b.c:65535"] {
            let parsed = HostPort::parse(good).expect(good);
            assert_eq!(parsed.to_string(), good);
        }
        let long = format!("{}:1", "a".repeat(254));
        for bad in [
            "",
            ":1",
            "7100",
            "host",
            "host:",
            "host:65536",
            "::1:7",
            "1.2.3:4",
            "1.2.3.4.5:6",
            "a b:1",
            "http://host:1",
            "[::1]",
            &long,
        ] {
            assert_eq!(HostPort::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_is_resolved_when_it_is_used() {
        let here = HostPort::parse("localhost:0").expect("a name");
        assert!(here.listen().is_ok());
        // So long a name needs no name server to be unknown.
        let nowhere = format!("{}:1", "x".repeat(70));
        let error = HostPort::parse(&nowhere).expect("a name").listen();
        let error = error.expect_err("nobody is called so").to_string();
        assert!(error.starts_with(&nowhere), "{error}");
    }
}
