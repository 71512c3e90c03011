//! Every message comes back from its bytes, and any bytes are read without a panic.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn addresses() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

fn protocols() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]
}

fn takes() -> impl Strategy<Value = Takes> {
    any::<(bool, bool)>().prop_map(|(open_checksum, large_tcp)| Takes {
        open_checksum,
        large_tcp,
    })
}

fn refusals() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<u16>().prop_map(Refusal::PortTaken),
        any::<u16>().prop_map(Refusal::TimeWait),
        any::<u16>().prop_map(Refusal::PortReserved),
        any::<u32>().prop_map(Refusal::NoPorts),
        any::<u32>().prop_map(Refusal::TooManyOfUser),
        any::<u32>().prop_map(Refusal::TooMany),
        Just(Refusal::NoRoute),
        Just(Refusal::BadRequest),
    ]
}

/// Bytes that are nearly a message: the first ones often are those of one.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let starts = prop_oneof![
        Just(Vec::new()),
        (0_u8..6).prop_map(|kind| head(kind).to_vec()),
        Just(Ask::listen(Protocol::Tcp, 80, true).to_bytes().to_vec()),
        (0_u8..6, 0_u8..4).prop_map(|(kind, flags)| [kind, flags].to_vec()),
    ];
    (
        starts,
        prop::collection::vec(any::<u8>(), 0..64),
        any::<(usize, u8)>(),
    )
        .prop_map(|(mut bytes, rest, (at, change))| {
            bytes.extend(rest);
            if !bytes.is_empty() {
                let at = at % bytes.len();
                bytes[at] ^= change;
            }
            bytes
        })
}

proptest! {
    #[test]
    fn a_request_comes_back(protocol in protocols(), takes in takes(), local_port: u16, address in addresses(), port: u16) {
        let mut remote = SocketAddr::new(address, port);
        if address.is_unspecified() || port == 0 {
            remote = Ask::listen(protocol, 0, address.is_ipv6()).remote;
        }
        let ask = Ask { protocol, takes, local_port, remote };
        prop_assert_eq!(Ask::parse(&ask.to_bytes()), Ok(ask));
    }

    #[test]
    fn an_answer_comes_back(
        protocol in protocols(), takes in takes(), address in addresses(), port in 1_u16..,
        mtu_bytes in 1280_u16.., more: u16, refusal in refusals(),
    ) {
        prop_assume!(!address.is_unspecified());
        let packet_bytes_max = (u32::from(mtu_bytes) + u32::from(more)).min(65_535);
        let local = SocketAddr::new(address, port);
        let granted = Granted { protocol, takes, local, mtu_bytes, packet_bytes_max };
        for answer in [Answer::Granted(granted), Answer::Refused(refusal)] {
            prop_assert_eq!(Answer::parse(answer.to_bytes().as_ref()), Ok(answer));
        }
        prop_assert!(!refusal.to_string().is_empty());
    }

    #[test]
    fn any_bytes_are_read_and_what_is_accepted_is_written_the_same(bytes in nearly()) {
        if let Ok(ask) = Ask::parse(&bytes) {
            let written = ask.to_bytes();
            prop_assert_eq!(&written[..], bytes.as_slice());
        }
        if let Ok(answer) = Answer::parse(&bytes) {
            let written = answer.to_bytes();
            prop_assert_eq!(written.as_ref(), bytes.as_slice());
        }
        if let Ok((header, packet)) = PacketHeader::parse(&bytes) {
            let written = header.to_bytes();
            prop_assert_eq!(&written[..], &bytes[..PACKET_HEADER_BYTES]);
            prop_assert_eq!(packet, &bytes[PACKET_HEADER_BYTES..]);
        }
    }
}

#[test]
fn a_request_is_laid_out_as_the_table_says() {
    let mut ask = Ask::connect(Protocol::Tcp, SocketAddr::from(([198, 51, 100, 7], 80)));
    ask.local_port = 0x1234;
    let bytes = ask.to_bytes();
    assert_eq!(
        bytes[..12],
        [0xb1, 0xed, 1, 1, 6, 4, 3, 0, 0x34, 0x12, 80, 0]
    );
    assert_eq!(
        bytes[12..],
        [198, 51, 100, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn what_is_wrong_is_named() {
    let ask = Ask::listen(Protocol::Udp, 53, false).to_bytes();
    let changed = |at: usize, byte: u8| {
        let mut bytes = ask;
        bytes[at] = byte;
        Ask::parse(&bytes).expect_err("changed").to_string()
    };
    assert!(Ask::parse(&ask[..27]).is_err());
    assert!(changed(0, 0).contains("no part of the edge"));
    assert!(changed(2, 9).contains("one release"));
    assert!(changed(3, 2).contains("kind 2"));
    assert!(changed(4, 1).contains("protocol: 1"));
    assert!(changed(5, 5).contains("version of IP: 5"));
    assert!(changed(6, 4).contains("what is taken: 4"));
    assert!(changed(10, 7).contains("remote port"));
    assert!(changed(20, 7).contains("behind an address"));
}

#[test]
fn an_open_checksum_lies_in_the_packet() {
    let checksum = Checksum::Open {
        start: 20,
        offset: 16,
    };
    let header = PacketHeader {
        checksum,
        segment_bytes: 1448,
    };
    let mut message = header.to_bytes().to_vec();
    message.resize(PACKET_HEADER_BYTES + 38, 0);
    assert_eq!(PacketHeader::parse(&message), Ok((header, &[0; 38][..])));
    message.pop();
    assert!(PacketHeader::parse(&message).is_err());
}
