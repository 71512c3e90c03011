//! UDP sockets, and listeners with a backlog.

use barewire_tcp::{
    Checked, Config, Endpoint, Error, Listener, Offload, State, Tcp, Udp, UdpConfig,
};
use barewire_units::{Duration, Instant};
use std::net::SocketAddr;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn udp(local: &str, remote: Option<&str>) -> Udp {
    Udp::new(&UdpConfig {
        local: address(local),
        remote: remote.map(address),
        mtu: 1500,
        buffer_bytes: 10_000,
        offload: Offload::default(),
    })
    .expect("the settings are right")
}

/// Carries all packets from one socket to the other.
fn carry(from: &mut Udp, to: &mut Udp) -> usize {
    let mut packet = [0; 1500];
    let mut count = 0;
    while let Some(sent) = from.poll_packet(&mut packet, Instant::ORIGIN) {
        to.handle_packet(&mut packet[..sent.bytes], Checked::No, Instant::ORIGIN);
        count += 1;
    }
    count
}

#[test]
fn datagrams_arrive_whole() {
    for (here, there) in [
        ("192.0.2.1:5000", "192.0.2.2:53"),
        ("[2001:db8::1]:5000", "[2001:db8::2]:53"),
    ] {
        let (mut a, mut b) = (udp(here, None), udp(there, Some(here)));
        for len in [0, 1, 2, 999, a.datagram_bytes_max()] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(a.send_to(&bytes, address(there)), Ok(true));
            assert_eq!(carry(&mut a, &mut b), 1);
            assert_eq!(b.receive(), Some((address(here), bytes)));
        }
        let bytes_max = a.datagram_bytes_max();
        let bytes = bytes_max + 1;
        assert_eq!(
            a.send_to(&vec![0; bytes], address(there)),
            Err(Error::TooLong { bytes, bytes_max })
        );
    }
}

#[test]
fn datagrams_of_others_and_broken_ones_do_not_arrive() {
    let mut a = udp("192.0.2.1:5000", None);
    let mut stranger = udp("192.0.2.3:5000", None);
    let mut b = udp("192.0.2.2:53", Some("192.0.2.1:5000"));
    let _ = stranger.send_to(b"hello", address("192.0.2.2:53"));
    carry(&mut stranger, &mut b);
    let _ = a.send_to(b"hello", address("192.0.2.2:54"));
    carry(&mut a, &mut b);
    let _ = a.send_to(b"hello", address("192.0.2.2:53"));
    let mut packet = [0; 1500];
    let sent = a
        .poll_packet(&mut packet, Instant::ORIGIN)
        .expect("a packet");
    for at in 0..sent.bytes {
        let mut broken = packet[..sent.bytes].to_vec();
        broken[at] ^= 0x10;
        b.handle_packet(&mut broken, Checked::No, Instant::ORIGIN);
        assert_eq!(b.receive(), None, "byte {at}");
    }
    assert_eq!(
        b.send_to(b"to", address("192.0.2.9:53")),
        Err(Error::BadAddress(
            "the socket is connected to another address"
        ))
    );
}

#[test]
fn what_nobody_reads_is_dropped() {
    let (mut a, mut b) = (udp("192.0.2.1:1", None), udp("192.0.2.2:2", None));
    for _ in 0..20 {
        assert_eq!(a.send_to(&[0; 936], address("192.0.2.2:2")), Ok(true));
        carry(&mut a, &mut b);
    }
    assert_eq!((b.readable(), b.dropped()), (10, 10));
    for _ in 0..10 {
        assert_eq!(a.send_to(&[0; 936], address("192.0.2.2:2")), Ok(true));
    }
    assert_eq!(a.send_to(&[0; 936], address("192.0.2.2:2")), Ok(false));
}

/// Hands the next packet of one end to the other.
fn hand_over(from: &mut impl Endpoint, to: &mut impl Endpoint, now: Instant) -> bool {
    let mut packet = [0; 1500];
    let Some(sent) = from.poll_packet(&mut packet, now) else {
        return false;
    };
    to.handle_packet(&mut packet[..sent.bytes], Checked::No, now);
    true
}

fn client(port: u16, now: Instant) -> Tcp {
    let mut config = Config::new(address("192.0.2.1:1"), address("192.0.2.2:80"), 3);
    config.local.set_port(port);
    Tcp::connect(&config, now).expect("it can connect")
}

#[test]
fn each_syn_is_a_connection_up_to_the_backlog() {
    let mut now = Instant::ORIGIN;
    let config = Config::new(address("192.0.2.2:80"), address("192.0.2.2:80"), 4);
    let mut listener = Listener::new(&config, 3).expect("the settings are right");
    let mut clients: Vec<_> = (1..=5).map(|port| client(port, now)).collect();
    for client in &mut clients {
        assert!(hand_over(client, &mut listener, now));
    }
    assert_eq!((listener.waiting(), listener.refused()), (3, 2));
    assert!(listener.accept().is_none(), "none is open yet");
    // The answers are in the order of the SYNs, and the acknowledgements open the connections.
    for client in &mut clients[..3] {
        assert!(hand_over(&mut listener, client, now));
        assert!(hand_over(client, &mut listener, now));
        assert_eq!(client.state(), State::Open);
    }
    let accepted: Vec<_> = std::iter::from_fn(|| listener.accept()).collect();
    let ports: Vec<_> = accepted
        .iter()
        .map(|tcp| tcp.config().remote.port())
        .collect();
    assert_eq!(ports, [1, 2, 3]);
    // The others send their SYN again.
    now = now.saturating_add(Duration::from_s(1));
    for client in &mut clients[3..] {
        assert!(hand_over(client, &mut listener, now));
        assert!(hand_over(&mut listener, client, now));
        assert_eq!(client.state(), State::Open);
    }
    assert_eq!(listener.waiting(), 2);
}

#[test]
fn a_syn_that_nobody_confirms_goes_away() {
    let mut now = Instant::ORIGIN;
    let config = Config::new(address("192.0.2.2:80"), address("192.0.2.2:80"), 4);
    let mut listener = Listener::new(&config, 1).expect("the settings are right");
    assert!(hand_over(&mut client(1, now), &mut listener, now));
    let mut packet = [0; 1500];
    while let Some(deadline) = listener.next_deadline() {
        now = deadline;
        while listener.poll_packet(&mut packet, now).is_some() {}
    }
    assert_eq!(listener.waiting(), 0);
    assert!(now.since_origin() <= Duration::from_s(240));
}

#[test]
fn a_backlog_of_zero_is_wrong() {
    let config = Config::new(address("192.0.2.2:80"), address("192.0.2.2:80"), 4);
    let error = Listener::new(&config, 0).expect_err("nobody could connect");
    assert!(matches!(error, Error::BadSetting(_)));
}
