//! The TCP ports in use on this host, from the kernel's own tables: to look is not to connect.

/// The state of a socket that listens.
pub(crate) const LISTEN: u8 = 0x0a;

/// The local ports, each with the state of its socket.
pub(crate) fn local() -> Vec<(u16, u8)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let lines = |table: &String| table.lines().filter_map(parse).collect::<Vec<_>>();
    tables.iter().flatten().flat_map(lines).collect()
}

/// One line of a table: `number: local remote state ...`, all in hexadecimal.
fn parse(line: &str) -> Option<(u16, u8)> {
    let mut words = line.split_whitespace().skip(1);
    let port = words.next()?.rsplit_once(':')?.1;
    let state = words.nth(1)?;
    Some((
        u16::from_str_radix(port, 16).ok()?,
        u8::from_str_radix(state, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(parse(line), Some((8080, LISTEN)));
        assert_eq!(
            parse("  sl  local_address rem_address   st tx_queue rx_queue"),
            None
        );
    }

    #[test]
    fn a_listener_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(local().contains(&(port, LISTEN)));
    }
}
