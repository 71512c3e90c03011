//! What unmodified programs and their gateway say to each other, from any bytes: nothing panics, and what is read is
//! written as it was. A stranger can send the gateway anything, and the variable of the environment is anybody's.
#![no_main]

use std::net::IpAddr;

use barewire_proto::edge::program::{Answer, Gateway, Network, REQUEST_BYTES, Request, TOKEN_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Most inputs do not begin as a request does, so its token and its beginning are also put there.
    let token: [u8; TOKEN_BYTES] = core::array::from_fn(|at| data.get(4 + at).copied().unwrap_or(0));
    if let Some(request) = Request::parse(data, &token) {
        let bytes = request.to_bytes(&token);
        assert_eq!(Request::parse(&bytes, &token), Some(request));
        assert_eq!(bytes, data);
        // Another token is not heard.
        let mut other = token;
        other[0] ^= 1;
        assert_eq!(Request::parse(data, &other), None);
    }
    if let [kind, rest @ ..] = data {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&[0xb1, 0xee, 1, *kind]);
        bytes[20..].iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        if let Some(request) = Request::parse(&bytes, &[0; TOKEN_BYTES]) {
            assert_eq!(request.to_bytes(&[0; TOKEN_BYTES]), bytes);
        }
        if let Some(answer) = Answer::parse(&bytes) {
            assert_eq!(answer.to_bytes(), bytes);
        }
    }
    if let Some(answer) = Answer::parse(data) {
        assert_eq!(answer.to_bytes(), data);
    }
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    if let Some(network) = Network::parse(text) {
        assert_eq!(Network::parse(&network.to_string()), Some(network));
        assert!(network.contains(network.address));
    }
    if let Some(gateway) = Gateway::parse(text) {
        assert_eq!(Gateway::parse(&gateway.to_string()), Some(gateway));
        assert!(gateway.name().starts_with(b"barewire/edge/"));
        for own in [gateway.bridge.0.map(IpAddr::from), gateway.bridge.1.map(IpAddr::from)] {
            assert!(own.is_none_or(|own| !gateway.may_carry(own)));
        }
    }
});
