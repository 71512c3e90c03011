//! Who comes together, and why others do not, as each side is told.

use std::io::Write;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::super::verify::crypto;
use super::super::{Handshake, HandshakeError, Identity, STRANGER_BYTES_MAX};
use super::support::{
    Folder, Side, accept_from_stranger, connection, finish, friends, meet, read_exactly, secret,
    write_all,
};
use crate::carrier::Carrier;
use crate::peer::{How, PeerIdentity};

fn error(outcome: super::support::Outcome) -> HandshakeError {
    outcome.expect_err("they came together")
}

#[test]
fn hosts_that_trust_each_other_come_together() {
    let (client, server) = friends();
    let (client, server) = meet(&client, &server);
    let ((mut one, of_one), (mut other, of_other)) = (client.unwrap(), server.unwrap());
    let by_certificate = |name: &str| PeerIdentity {
        name: name.to_owned(),
        how: How::Certificate,
    };
    assert_eq!(of_one, by_certificate("server"));
    assert_eq!(of_other, by_certificate("client"));
    write_all(&mut one, b"hello");
    assert_eq!(read_exactly(&mut other, 5), b"hello");
    write_all(&mut other, b"you too");
    assert_eq!(read_exactly(&mut one, 7), b"you too");
    let properties = one.properties();
    assert!(properties.is_encrypted);
    assert_eq!(properties.own_address, other.properties().peer_address);
}

#[test]
fn hosts_with_one_secret_come_together() {
    let folder = Folder::with_secret();
    // Each makes a certificate of its own.
    let (client, server) = meet(&folder.load(), &folder.load());
    let ((mut one, of_one), (mut other, of_other)) = (client.unwrap(), server.unwrap());
    assert_eq!(of_one, PeerIdentity::secret());
    assert_eq!(of_other, PeerIdentity::secret());
    write_all(&mut other, b"first");
    assert_eq!(read_exactly(&mut one, 5), b"first");
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused_and_both_sides_know() {
    let (one, other) = (Folder::with_certificate(), Folder::with_certificate());
    // The server trusts somebody, but not the client.
    one.trust(&other, "server");
    other.trust(&Folder::with_certificate(), "somebody");
    let (client, server) = meet(&one.load(), &other.load());
    let own = one.load().fingerprint().unwrap();
    assert_eq!(
        error(server),
        HandshakeError::NotTrusted { fingerprint: own }
    );
    let said = error(client);
    assert_eq!(said, HandshakeError::NotTrustedThere { own });
    assert!(said.to_string().contains("barewire node trust"), "{said}");
    // The client does not trust the server.
    let (client, server) = meet(&other.load(), &one.load());
    let own = one.load().fingerprint().unwrap();
    let said = error(client);
    assert_eq!(said, HandshakeError::NotTrusted { fingerprint: own });
    assert!(said.to_string().contains(&own.to_string()), "{said}");
    assert_eq!(error(server), HandshakeError::NotTrustedThere { own });
}

/// What claims to be the host of `certificate` with the key of `key`.
fn impostor(certificate: &Folder, key: &Folder) -> Identity {
    let pem = std::fs::read(certificate.file("certificate.pem")).unwrap();
    let shown = CertificateDer::from_pem_slice(&pem).unwrap();
    let pem = std::fs::read(key.file("key.pem")).unwrap();
    let key_der = PrivateKeyDer::from_pem_slice(&pem).unwrap();
    let signs = crypto().key_provider.load_private_key(key_der).unwrap();
    let pair = CertifiedKey::new(vec![shown], signs);
    key.load()
        .with_resolver(Arc::new(SingleCertAndKey::from(pair)))
}

#[test]
fn a_certificate_without_its_key_is_of_no_use() {
    let (one, other) = (Folder::with_certificate(), Folder::with_certificate());
    one.trust(&other, "other");
    other.trust(&one, "one");
    let thief = Folder::with_certificate();
    thief.trust(&one, "one");
    thief.trust(&other, "other");
    // This way of pretending works if the key is right.
    let (client, server) = meet(&impostor(&one, &one), &other.load());
    assert!(client.is_ok() && server.is_ok());
    let (client, server) = meet(&impostor(&one, &thief), &other.load());
    assert_eq!(error(server), HandshakeError::WrongKey);
    assert_eq!(error(client), HandshakeError::WrongKeyHere);
    let (client, server) = meet(&other.load(), &impostor(&one, &thief));
    assert_eq!(error(client), HandshakeError::WrongKey);
    assert_eq!(error(server), HandshakeError::WrongKeyHere);
}

#[test]
fn another_secret_is_refused_and_both_sides_know() {
    let (client, server) = meet(&secret(), &secret());
    assert_eq!(error(client), HandshakeError::OtherSecret);
    assert_eq!(error(server), HandshakeError::OtherSecret);
}

#[test]
fn a_secret_and_a_certificate_do_not_go_together() {
    let (host, _) = friends();
    let other = secret();
    let way = |own| HandshakeError::OtherWay { own };
    let (client, server) = meet(&host, &other);
    assert_eq!(error(client), way(How::Certificate));
    assert_eq!(error(server), way(How::Secret));
    let (client, server) = meet(&other, &host);
    assert_eq!(error(client), way(How::Secret));
    assert_eq!(error(server), way(How::Certificate));
}

#[test]
fn the_host_that_was_meant_must_answer() {
    let (one, other, third) = (
        Folder::with_certificate(),
        Folder::with_certificate(),
        Folder::with_certificate(),
    );
    one.trust(&other, "other");
    one.trust(&third, "third");
    other.trust(&one, "one");
    for (expected, is_right) in [("other", true), ("third", false)] {
        let (near, far) = connection();
        let handshake = Handshake::connect(near, &one.load(), Some(expected));
        let (client, server) = finish(Side::new(handshake), Side::accept(far, &other.load()));
        if is_right {
            assert!(client.is_ok() && server.is_ok());
            continue;
        }
        let (expected, found) = ("third".to_owned(), "other".to_owned());
        assert_eq!(error(client), HandshakeError::OtherName { expected, found });
        assert_eq!(error(server), HandshakeError::OtherNameHere);
    }
    let expected = "fourth".to_owned();
    let failed = Handshake::connect(connection().0, &one.load(), Some("fourth")).unwrap_err();
    assert_eq!(failed, HandshakeError::UnknownName { expected });
    // All that have a secret have one name.
    let folder = Folder::with_secret();
    assert!(Handshake::connect(connection().0, &folder.load(), Some("secret")).is_ok());
    assert!(Handshake::connect(connection().0, &folder.load(), Some("one")).is_err());
}

#[test]
fn what_is_not_tls_is_called_by_its_name() {
    for identity in [friends().0, secret()] {
        for (bytes, what) in [
            (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], "an HTTP request"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP request"),
            (b"SSH-2.0-OpenSSH_9.9\r\n", "SSH"),
            (b"\0\0\0\0\0\0\0\0", "bytes 00 00"),
            (b"\x16\x02\0\0\0\0\0", "bytes 16 02"),
            (b"\x80\x2e\x01\x03\x01", "bytes 80 2e"),
            (b"x", "bytes 78"),
        ] {
            let (error, answer) = accept_from_stranger(&identity, bytes);
            let HandshakeError::NotTls { what: said } = &error else {
                panic!("{bytes:?}: {error}");
            };
            assert!(said.contains(what), "{bytes:?}: {said}");
            assert_eq!(answer, b"", "{bytes:?}");
        }
    }
    // The same on the side that connects.
    let (near, mut far) = connection();
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let mut side = Side::connect(near, &secret());
    while !side.is_over() {
        side.step();
    }
    let said = error(side.end());
    assert!(said.to_string().contains("an HTTP answer"), "{said}");
}

/// The first message of `openssl s_client -tls1_2`, with a random number of zeros.
fn hello_of_tls_1_2() -> Vec<u8> {
    let suites = [0xc0, 0x2b, 0xc0, 0x2f, 0x00, 0x9c, 0x00, 0xff];
    let extensions: &[&[u8]] = &[
        // Points, groups, signatures, extended master secret.
        &[0, 0x0b, 0, 2, 1, 0],
        &[0, 0x0a, 0, 6, 0, 4, 0, 0x1d, 0, 0x17],
        &[0, 0x0d, 0, 6, 0, 4, 4, 3, 8, 4],
        &[0, 0x17, 0, 0],
    ];
    let extensions = extensions.concat();
    let mut body = vec![3, 3];
    body.extend([0; 32]);
    body.push(0);
    body.extend([0, suites.len() as u8]);
    body.extend(suites);
    body.extend([1, 0, 0, extensions.len() as u8]);
    body.extend(extensions);
    let message = [&[1, 0, 0, body.len() as u8], &body[..]].concat();
    [&[22, 3, 1, 0, message.len() as u8], &message[..]].concat()
}

#[test]
fn older_tls_is_refused_by_name() {
    for identity in [friends().0, secret()] {
        let (error, answer) = accept_from_stranger(&identity, &hello_of_tls_1_2());
        assert_eq!(error, HandshakeError::OldTls);
        // An alert: fatal, protocol version.
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
    }
    // The side that connects is told the same.
    let (near, mut far) = connection();
    far.write_all(&[21, 3, 1, 0, 2, 2, 70]).unwrap();
    let mut side = Side::connect(near, &secret());
    while !side.is_over() {
        side.step();
    }
    assert_eq!(error(side.end()), HandshakeError::OldTls);
}

#[test]
fn a_client_of_tls_that_is_no_node_is_refused() {
    use rustls::client::danger::ServerCertVerifier;
    use std::io::Read;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(super::super::verify::Verifier::new(
        super::super::verify::Accepted::Any,
    ));
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    for identity in [friends().0, secret()] {
        let (mut near, far) = connection();
        let name = "x".try_into().unwrap();
        let mut tls = rustls::ClientConnection::new(Arc::new(config.clone()), name).unwrap();
        let client = std::thread::spawn(move || {
            // It is thrown out, sooner or later.
            let mut stream = rustls::Stream::new(&mut tls, &mut near);
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = stream.read(&mut [0; 100]);
        });
        let mut side = Side::accept(far, &identity);
        while !side.is_over() {
            super::support::wait(&[side.waits().unwrap()]);
            side.step();
        }
        assert_eq!(error(side.end()), HandshakeError::NotBarewire);
        client.join().unwrap();
    }
}

/// Records of a handshake message that never ends.
fn endless_hello(bytes: usize) -> Vec<u8> {
    let mut message = vec![1, 0, 0xff, 0xff];
    message.resize(bytes, 0x55);
    let records = message.chunks(16 << 10);
    records
        .flat_map(|part| {
            let length = (part.len() as u16).to_be_bytes();
            [&[22, 3, 1], &length[..], part].concat()
        })
        .collect()
}

#[test]
fn a_stranger_cannot_have_much_kept() {
    for identity in [friends().0, secret()] {
        let (error, _) = accept_from_stranger(&identity, &endless_hello(64 << 10));
        let bytes_max = STRANGER_BYTES_MAX;
        assert_eq!(error, HandshakeError::TooMuch { bytes_max });
        // Garbage inside a record that is whole.
        let mut hello = vec![22, 3, 1, 0x20, 0, 1, 0, 0x1f, 0xfc];
        hello.resize(5 + 0x2000, 0xaa);
        let (error, _) = accept_from_stranger(&identity, &hello);
        assert!(matches!(error, HandshakeError::Protocol { .. }), "{error}");
    }
}

#[test]
fn a_hello_that_breaks_off_ends_or_waits() {
    let whole = endless_hello(2000);
    for cut in [1, 4, 5, 9, 100, 2005] {
        let (error, _) = accept_from_stranger(&secret(), &whole[..cut]);
        assert_eq!(error, HandshakeError::Ended, "cut after {cut} bytes");
        // Without the end it waits, and asks for nothing but more.
        let (mut near, far) = connection();
        let mut side = Side::accept(far, &secret());
        near.write_all(&whole[..cut]).unwrap();
        super::support::wait(&[side.waits().unwrap()]);
        side.step();
        side.step();
        assert!(side.outcome.is_none(), "cut after {cut} bytes");
    }
    let (near, far) = connection();
    let mut side = Side::accept(far, &friends().0);
    side.step();
    assert!(side.outcome.is_none(), "silence is no failure");
    drop(near);
    super::support::wait(&[side.waits().unwrap()]);
    side.step();
    assert_eq!(error(side.end()), HandshakeError::Ended);
}

#[test]
fn a_handshake_that_is_over_says_so() {
    let (client, server) = friends();
    let (near, far) = connection();
    let mut handshake = Handshake::connect(near, &client, None).unwrap();
    let mut other = Side::accept(far, &server);
    loop {
        match handshake.step().unwrap() {
            super::super::Step::Done(..) => break,
            super::super::Step::Wait(_) => other.step(),
        }
    }
    assert_eq!(handshake.step().unwrap_err(), HandshakeError::Over);
    assert!(handshake.descriptor().is_none());
}
