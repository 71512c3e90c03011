//! Frames through devices of the kernel, in network namespaces that go with the test.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Instant;

use barewire_sys::ethtool::set_send_checksums;
use barewire_sys::frames::{
    FRAME_HEADER_BYTES, FrameDevice, FrameError, FrameSent, TapOffload, Want,
};
use barewire_sys::lan::Lan;
use barewire_sys::links::{
    Setting, add_address_in, add_bridge, addresses, link, set_state, set_up,
};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;

mod common;

/// Says that a test can not run here.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Runs a test in a network namespace of its own; one that this process may not make is a reason to skip.
fn in_namespace(test: &str, work: impl FnOnce() -> Result<(), FrameError> + Send) {
    let namespace = match NetNamespace::create() {
        Ok(namespace) => namespace,
        Err(error) => return skip(test, &format!("no network namespaces: {error}")),
    };
    let result = namespace.run(|| Ok(work())).unwrap();
    match result {
        Err(error @ (FrameError::NoTapDevices(_) | FrameError::NotAllowed { .. })) => {
            skip(test, &error.to_string());
        }
        other => other.unwrap(),
    }
}

/// The first frame that `is_it`, with the header before it.
fn wait_for(device: &FrameDevice, is_it: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Vec<u8>) {
    let header = if device.has_header() {
        FRAME_HEADER_BYTES
    } else {
        0
    };
    let mut buffer = vec![0; 70_000];
    let from = Instant::now();
    while from.elapsed() < common::LONG {
        match device.try_receive(&mut buffer).unwrap() {
            Some(len) if is_it(&buffer[header..len]) => {
                return (buffer[..header].to_vec(), buffer[header..len].to_vec());
            }
            Some(_) => {}
            None => {
                let mut fds = [rustix::event::PollFd::new(
                    device,
                    rustix::event::PollFlags::IN,
                )];
                rustix::event::poll(&mut fds, None).unwrap();
            }
        }
    }
    panic!("no such frame");
}

fn is_arp_request(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 6]) && frame.get(20..22) == Some(&[0, 1])
}

/// The answer to an ARP request, from a host with this Ethernet address.
fn arp_reply(request: &[u8], from: [u8; 6]) -> Vec<u8> {
    let mut reply = request[..42].to_vec();
    reply[..6].copy_from_slice(&request[6..12]);
    reply[6..12].copy_from_slice(&from);
    reply[21] = 2;
    reply[22..28].copy_from_slice(&from);
    reply[28..32].copy_from_slice(&request[38..42]);
    reply[32..42].copy_from_slice(&request[22..32]);
    reply
}

/// A host behind a TAP device takes part in ARP and gets a datagram, in which the checksum is open if it may be.
fn datagram_by_tap(offload: Option<TapOffload>) -> Result<(), FrameError> {
    let device = FrameDevice::tap("bw0", offload)?;
    assert_eq!(device.has_header(), offload.is_some());
    let mut socket = RouteSocket::open().unwrap();
    set_state(&mut socket, "bw0", true).unwrap();
    let index = link(&mut socket, "bw0").unwrap().index;
    let own = IpAddr::from([10, 9, 0, 1]);
    add_address_in(&mut socket, index, own, 24).unwrap();
    assert!(addresses(&mut socket).unwrap().contains(&(index, own)));

    let far = Ipv4Addr::new(10, 9, 0, 2);
    let kernel = UdpSocket::bind((own, 0)).unwrap();
    kernel.send_to(b"hello", (far, 7)).unwrap();
    let (header, request) = wait_for(&device, is_arp_request);
    assert_eq!(request[38..42], far.octets());
    let reply = [header, arp_reply(&request, [2, 0, 0, 0, 0, 9])].concat();
    assert_eq!(device.try_send(&reply)?, FrameSent::Sent);

    let is_datagram = |frame: &[u8]| frame.get(23) == Some(&17) && frame.ends_with(b"hello");
    let (header, frame) = wait_for(&device, is_datagram);
    assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
    let is_open = offload.is_some_and(|offload| offload.checksum || offload.tcp_segments);
    if let Some(header) = header.first_chunk::<FRAME_HEADER_BYTES>() {
        assert_eq!(header[0] & 1 != 0, is_open);
        if is_open {
            // Of the bytes behind the Ethernet and IP headers; in a UDP header it lies at 6.
            assert_eq!(
                header[6..10],
                [34_u16.to_ne_bytes(), 6_u16.to_ne_bytes()].concat()
            );
        }
    }
    let busy = FrameDevice::tap("bw0", offload).expect_err("it is open");
    assert_eq!(busy, FrameError::Busy("bw0".to_owned()));
    drop(device);
    assert!(link(&mut socket, "bw0").is_err(), "it goes with its holder");
    Ok(())
}

#[test]
fn a_datagram_comes_by_tap() {
    in_namespace("a_datagram_comes_by_tap", || datagram_by_tap(None));
}

#[test]
fn a_datagram_comes_by_tap_with_header() {
    in_namespace("a_datagram_comes_by_tap_with_header", || {
        datagram_by_tap(Some(TapOffload::default()))?;
        datagram_by_tap(Some(TapOffload {
            checksum: true,
            tcp_segments: false,
        }))?;
        datagram_by_tap(Some(TapOffload {
            checksum: true,
            tcp_segments: true,
        }))
    });
}

fn wanted_frames(has_header: bool) -> io::Result<()> {
    let lan = Lan::pair()?;
    let want = Want {
        v4: Some(Ipv4Addr::new(10, 77, 0, 9)),
        v6: Some("fd00::9".parse().unwrap()),
    };
    let device = lan.hosts[1]
        .net
        .run(|| Ok(FrameDevice::interface("nic", has_header, &want).unwrap()))?;
    let kernel = lan.hosts[0]
        .net
        .run(|| UdpSocket::bind((lan.hosts[0].address, 0)))?;
    // This one is for the host itself: it must not come.
    kernel.send_to(b"not for us", (lan.hosts[1].address, 9))?;
    kernel.send_to(b"hello", ("10.77.0.9", 9))?;
    let is_for_it = |frame: &[u8]| is_arp_request(frame) && frame[38..42] == [10, 77, 0, 9];
    let (header, request) = wait_for(&device, is_for_it);
    let reply = [header, arp_reply(&request, device.hardware_address())].concat();
    assert_eq!(device.try_send(&reply).unwrap(), FrameSent::Sent);
    let (_, frame) = wait_for(&device, |frame| {
        assert!(!frame.ends_with(b"not for us"));
        frame.ends_with(b"hello")
    });
    assert_eq!(frame[30..34], [10, 77, 0, 9]);
    Ok(())
}

#[test]
fn an_interface_gives_the_frames_that_are_wanted() {
    for has_header in [false, true] {
        if let Err(error) = wanted_frames(has_header) {
            return skip(
                "an_interface_gives_the_frames_that_are_wanted",
                &error.to_string(),
            );
        }
    }
}

/// A frame with a number at its end, to 10.77.0.9, with the header before it: of TCP, to be cut into segments, if it is long.
fn numbered(from: &FrameDevice, to: &FrameDevice, number: u32, payload_bytes: usize) -> Vec<u8> {
    const SEGMENT_BYTES: usize = 1448;
    let mut header = [0; FRAME_HEADER_BYTES];
    if payload_bytes > SEGMENT_BYTES {
        // Its checksum is open, it is of TCP over IPv4; bytes of headers and of a segment, where the checksum is.
        (header[0], header[1]) = (1, 1);
        let words = [54, SEGMENT_BYTES as u16, 34, 16];
        for (into, word) in header[2..].chunks_exact_mut(2).zip(words) {
            into.copy_from_slice(&word.to_ne_bytes());
        }
    }
    let ip_bytes = 40 + payload_bytes;
    let mut ip = [0; 40];
    (ip[0], ip[8], ip[9], ip[32]) = (0x45, 64, 6, 0x50);
    ip[2..4].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
    ip[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 9]);
    let mut payload = vec![number as u8; payload_bytes];
    let at = payload_bytes - 4;
    payload[at..].copy_from_slice(&number.to_be_bytes());
    let ethernet = [
        &to.hardware_address()[..],
        &from.hardware_address(),
        &[8, 0],
    ]
    .concat();
    [&header[..], &ethernet, &ip, &payload].concat()
}

/// Long and short frames in turn, more than a ring has slots; then more at once than it has.
fn numbered_frames(from: &FrameDevice, to: &FrameDevice) {
    let send = |frame: &[u8]| assert_eq!(from.try_send(frame).unwrap(), FrameSent::Sent);
    let mut buffer = vec![0; 70_000];
    for first in (0..10_000).step_by(16) {
        let lengths = [4, 1440, 1460, 1461, 2100, 9000, 60_000];
        let frames = (first..first + 16).map(|number| {
            let payload_bytes = lengths[number as usize % lengths.len()];
            numbered(from, to, number, payload_bytes)
        });
        let frames: Vec<_> = frames.collect();
        frames.iter().for_each(|frame| send(frame));
        for frame in &frames {
            let len = to.try_receive(&mut buffer).unwrap().unwrap();
            assert_eq!(len, frame.len());
            assert!(buffer[FRAME_HEADER_BYTES..len] == frame[FRAME_HEADER_BYTES..]);
            // Not the bytes of headers: those are a hint.
            assert_eq!((buffer[1], &buffer[4..6]), (frame[1], &frame[4..6]));
        }
        assert_eq!(to.try_receive(&mut buffer).unwrap(), None);
    }
    // One that does not fit into the buffer is cut off.
    for payload_bytes in [1000, 3000] {
        send(&numbered(from, to, 0, payload_bytes));
        assert_eq!(to.try_receive(&mut buffer[..500]).unwrap(), Some(500));
    }
    for payload_bytes in [100, 9000] {
        (0..5000).for_each(|number| send(&numbered(from, to, number, payload_bytes)));
        let mut taken = 0;
        while let Some(len) = to.try_receive(&mut buffer).unwrap() {
            assert_eq!(buffer[len - 4..len], u32::to_be_bytes(taken));
            taken += 1;
        }
        assert!((1000..5000).contains(&taken), "{taken}");
    }
    send(&numbered(from, to, 5000, 100));
    let len = to.try_receive(&mut buffer).unwrap().unwrap();
    assert_eq!(buffer[len - 4..len], 5000_u32.to_be_bytes());
}

#[test]
fn frames_of_all_lengths_come_in_order_by_an_interface() {
    let name = "frames_of_all_lengths_come_in_order_by_an_interface";
    let lan = match Lan::pair() {
        Ok(lan) => lan,
        Err(error) => return skip(name, &error.to_string()),
    };
    let open = |host: usize, v4: Ipv4Addr| {
        let want = Want {
            v4: Some(v4),
            v6: None,
        };
        let opened = || Ok(FrameDevice::interface("nic", true, &want).unwrap());
        lan.hosts[host].net.run(opened).unwrap()
    };
    let from = open(0, Ipv4Addr::new(10, 77, 0, 200));
    let to = open(1, Ipv4Addr::new(10, 77, 0, 9));
    numbered_frames(&from, &to);
    // That the interface is down is no error, and what comes later is received.
    let set = |up: bool| {
        let set = || set_state(&mut RouteSocket::open()?, "nic", up);
        lan.hosts[1].net.run(set).unwrap();
    };
    set(false);
    for _ in 0..1000 {
        assert_eq!(to.try_receive(&mut [0; 100]).unwrap(), None);
    }
    let mut ready = [rustix::event::PollFd::new(
        &to,
        rustix::event::PollFlags::IN,
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut ready, Some(&now)).unwrap(), 0);
    set(true);
    assert_eq!(
        from.try_send(&numbered(&from, &to, 1, 100)).unwrap(),
        FrameSent::Sent
    );
    wait_for(&to, |frame| frame.ends_with(&1_u32.to_be_bytes()));
}

/// Two hosts with a cable on which checksums are complete, and a device by AF_XDP at the second.
fn xdp_pair() -> io::Result<(Lan, Result<FrameDevice, FrameError>)> {
    let lan = Lan::pair()?;
    lan.hosts[0]
        .net
        .run(|| Ok(set_send_checksums("nic", false)?))?;
    let want = Want {
        v4: Some(Ipv4Addr::new(10, 77, 0, 9)),
        v6: Some("fd00::9".parse().unwrap()),
    };
    let device = lan.hosts[1]
        .net
        .run(|| Ok(FrameDevice::xdp("nic", &want)))?;
    Ok((lan, device))
}

/// A host at an interface takes part in ARP, and exchanges more datagrams than the rings have places.
fn datagrams_by_xdp(lan: &Lan, device: &FrameDevice) -> io::Result<()> {
    assert!(!device.has_header() && !device.is_tap());
    let bind = |host: usize| {
        let at = &lan.hosts[host];
        at.net.run(|| UdpSocket::bind((at.address, 0)))
    };
    let (kernel, own) = (bind(0)?, bind(1)?);
    kernel.send_to(b"hello", ("10.77.0.9", 9))?;
    let (_, request) = wait_for(device, |_| true);
    assert!(is_arp_request(&request) && request[38..42] == [10, 77, 0, 9]);
    let reply = arp_reply(&request, device.hardware_address());
    assert_eq!(device.try_send(&reply).unwrap(), FrameSent::Sent);
    let (_, frame) = wait_for(device, |_| true);
    assert!(frame.ends_with(b"hello") && frame[30..34] == [10, 77, 0, 9]);
    // What is for the kernel goes there, and not here.
    own.set_read_timeout(Some(common::LONG))?;
    kernel.send_to(b"not for us", own.local_addr()?)?;
    own.recv(&mut [0; 10])?;
    // To and fro: the same frame with both ends exchanged, the checksum of the header and of UDP is the same.
    kernel.set_read_timeout(Some(common::LONG))?;
    for number in 0..10_000_u32 {
        kernel.send_to(&number.to_be_bytes(), ("10.77.0.9", 9))?;
        let (_, mut frame) = wait_for(device, |_| true);
        for (one, other, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            for at in 0..len {
                frame.swap(one + at, other + at);
            }
        }
        assert_eq!(device.try_send(&frame).unwrap(), FrameSent::Sent);
        assert_eq!(device.try_receive(&mut [0; 100]).unwrap(), None);
        let mut back = [0; 8];
        assert_eq!(kernel.recv(&mut back)?, 4);
        assert_eq!(back[..4], number.to_be_bytes());
    }
    // Too long for the interface, and too short for Ethernet.
    for len in [13, 1515] {
        let refused = device.try_send(&vec![0; len]).unwrap();
        assert_eq!(refused, FrameSent::Refused);
    }
    Ok(())
}

#[test]
fn datagrams_come_and_go_by_xdp() {
    let name = "datagrams_come_and_go_by_xdp";
    match xdp_pair() {
        Err(error) => skip(name, &error.to_string()),
        Ok((_, Err(error @ FrameError::NoXdp { .. }))) => skip(name, &error.to_string()),
        Ok((lan, device)) => datagrams_by_xdp(&lan, &device.unwrap()).unwrap(),
    }
}

#[test]
fn what_is_wrong_with_an_interface_for_xdp_is_said() {
    let name = "what_is_wrong_with_an_interface_for_xdp_is_said";
    let lan = match xdp_pair() {
        Err(error) => return skip(name, &error.to_string()),
        Ok((_, Err(error @ FrameError::NoXdp { .. }))) => return skip(name, &error.to_string()),
        Ok((lan, device)) => {
            drop(device.unwrap());
            lan
        }
    };
    let said = lan.hosts[1].net.run(|| {
        let error = |name: &str| {
            let opened = FrameDevice::xdp(name, &Want::default());
            opened.expect_err("it opens").to_string()
        };
        let mut socket = RouteSocket::open()?;
        // A bridge has no driver that runs programs.
        add_bridge(&mut socket, "br0")?;
        let setting = Setting {
            mtu_bytes: 9000,
            segments_max: 65_535,
            bridge: None,
        };
        set_up(&mut socket, "nic", setting)?;
        Ok([
            error("nosuchlink0"),
            error("lo"),
            error("br0"),
            error("nic"),
        ])
    });
    let wanted = [
        "`ip link` shows",
        "no Ethernet frames",
        "ethtool -K br0 gro off",
        "ip link set nic mtu 3822",
    ];
    for (said, wanted) in said.unwrap().iter().zip(wanted) {
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn what_is_wrong_with_a_device_is_said() {
    let error = |name: &str| {
        FrameDevice::interface(name, false, &Want::default())
            .expect_err("no such")
            .to_string()
    };
    assert!(error("nosuchlink0").contains("`ip link` shows"));
    assert!(error("a name").contains("no name of a network device"));
    assert!(error("").contains("no name of a network device"));
    assert!(error("0123456789abcdef").contains("no name of a network device"));
    if FrameDevice::tap("lo", None).is_ok() {
        panic!("the loopback interface is no TAP device");
    }
}
