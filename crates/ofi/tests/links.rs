//! Links between two sides over the provider `tcp`: how they come about, and how they end.
//! What every carrier must do is in `tests/conformance`.

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use barewire_carrier::{Arrival, Broken, Carrier, Sleep};
use barewire_ofi::{Fabric, OfiCarrier, OfiError, wait_until_sent};
use rustix::event::{PollFd, PollFlags, poll};

use common::{PATIENCE, fabric, pair, until, wait_until_readable};

#[test]
fn a_link_has_both_addresses() {
    let Some(fabric) = fabric("a_link_has_both_addresses") else {
        return;
    };
    let (one, other) = pair(&fabric);
    let (one, other) = (one.properties(), other.properties());
    assert_eq!(one.transport, "ofi:tcp");
    assert!(!one.is_encrypted);
    assert_eq!(one.own_address, other.peer_address);
    assert_eq!(one.peer_address, other.own_address);
    assert!(one.own_address.parse::<SocketAddr>().is_ok());
}

#[test]
fn connecting_needs_no_polling() {
    let Some(fabric) = fabric("connecting_needs_no_polling") else {
        return;
    };
    let (mut offer, bytes) = fabric.offer().unwrap();
    let answering = std::thread::spawn(move || {
        let Some(fabric) = common::fabric("connecting_needs_no_polling") else {
            unreachable!("it was there");
        };
        let mut pending = fabric.answer(&bytes).unwrap();
        loop {
            if let Some(carrier) = pending.poll().unwrap() {
                return carrier;
            }
            if pending.before_sleep() != Sleep::NotYet {
                wait_until_readable(pending.descriptor().unwrap());
            }
        }
    });
    let mut one = loop {
        if let Some(carrier) = offer.poll().unwrap() {
            break carrier;
        }
        if offer.before_sleep() != Sleep::NotYet {
            wait_until_readable(offer.descriptor().unwrap());
        }
    };
    let mut other = answering.join().unwrap();
    common::exchange(&mut one, &mut other);
}

/// Waits until a side may sleep. Whether nothing then wakes it for so long.
fn sleeps(carrier: &mut OfiCarrier, duration: Duration) -> bool {
    until("leave to sleep", || {
        let arrived = carrier.read(&mut [0; 100]).unwrap();
        assert_eq!(arrived, Arrival::Nothing);
        (carrier.before_sleep() != Sleep::NotYet).then_some(())
    });
    let descriptor = carrier.descriptor();
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&duration.try_into().unwrap())).unwrap() == 0
}

#[test]
fn an_idle_link_sleeps_until_something_arrives() {
    let Some(fabric) = fabric("an_idle_link_sleeps_until_something_arrives") else {
        return;
    };
    let (mut one, mut other) = pair(&fabric);
    for _ in 0..3 {
        common::exchange(&mut one, &mut other);
        // Answers to what was read may still wake it once or twice.
        until("a sleep", || {
            sleeps(&mut one, Duration::from_millis(20)).then_some(())
        });
        assert!(sleeps(&mut one, Duration::from_millis(100)));
        assert_eq!(other.write(b"wake up").unwrap(), 7);
        other.flush().unwrap();
        wait_until_readable(one.descriptor());
        let mut buffer = [0; 100];
        let arrived = until("what was sent", || match one.read(&mut buffer).unwrap() {
            Arrival::Bytes(count) => Some(count),
            _ => None,
        });
        assert_eq!(&buffer[..arrived], b"wake up");
    }
}

#[test]
fn a_fabric_says_what_is_missing() {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if fabric("a_fabric_says_what_is_missing").is_none() {
        // The other half of this test: it names the package.
        let error = Fabric::open(None, localhost).unwrap_err().to_string();
        assert!(error.contains("libfabric1"), "{error}");
        return;
    }
    let error = Fabric::open(Some("nonesuch"), localhost).unwrap_err();
    assert!(matches!(error, OfiError::NoProvider { .. }));
    assert!(error.to_string().contains("nonesuch"), "{error}");
    // An address of nobody here (RFC 5737).
    let elsewhere = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
    let error = Fabric::open(Some("tcp"), elsewhere).unwrap_err();
    assert!(matches!(error, OfiError::Address { .. }), "{error}");
    for bad in ["0.0.0.0", "::", "224.0.0.1", "fe80::1"] {
        let error = Fabric::open(Some("tcp"), bad.parse().unwrap()).unwrap_err();
        assert!(matches!(error, OfiError::Address { .. }), "{error}");
    }
}

/// Where the loader finds no library, or one that is none, the error names the package.
#[test]
fn a_missing_library_is_named() {
    if std::env::var_os("BAREWIRE_TEST_ALONE").is_some() {
        let error = Fabric::open(None, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap_err();
        assert!(matches!(error, OfiError::Unavailable { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("`libfabric1`"), "{text}");
        // The reason is the loader's.
        assert!(text.contains("libfabric.so.1"), "{text}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("barewire-ofi-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libfabric.so.1"), "none").unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["a_missing_library_is_named", "--exact", "--nocapture"])
        .env("BAREWIRE_TEST_ALONE", "1")
        .env("LD_LIBRARY_PATH", &folder)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = child.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn links_go_over_ipv6() {
    let Some(_) = fabric("links_go_over_ipv6") else {
        return;
    };
    let fabric = match Fabric::open(Some("tcp"), "::1".parse().unwrap()) {
        Ok(fabric) => fabric,
        Err(error) => return common::skip("links_go_over_ipv6", &error.to_string()),
    };
    let (mut one, mut other) = pair(&fabric);
    common::exchange(&mut one, &mut other);
}

#[test]
fn an_offer_is_of_one_provider_and_kind_of_address() {
    let Some(fabric) = fabric("an_offer_is_of_one_provider_and_kind_of_address") else {
        return;
    };
    let (_offer, bytes) = fabric.offer().unwrap();
    let mut other = bytes.clone();
    let at = other.len() - 3;
    other[at..].copy_from_slice(b"udp");
    let error = fabric.answer(&other).unwrap_err();
    assert!(matches!(error, OfiError::OtherProvider { .. }), "{error}");
    let mut other = bytes.clone();
    other[5] = 6;
    let error = fabric.answer(&other).unwrap_err();
    assert!(matches!(error, OfiError::Address { .. }), "{error}");
    for length in 0..bytes.len() {
        let error = fabric.answer(&bytes[..length]).unwrap_err();
        assert!(matches!(error, OfiError::Offer { .. }), "{error}");
    }
}

#[test]
fn nobody_there_is_an_error() {
    let Some(fabric) = fabric("nobody_there_is_an_error") else {
        return;
    };
    let (offer, bytes) = fabric.offer().unwrap();
    drop(offer);
    let mut pending = fabric.answer(&bytes).unwrap();
    let error = until("an error", || match pending.poll() {
        Ok(carrier) => {
            assert!(carrier.is_none(), "connected to nobody");
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(error, OfiError::Failed { .. }), "{error}");
    assert!(pending.poll().is_err());
}

/// Whoever has not the key is turned away, and the offer stays.
#[test]
fn a_wrong_key_is_rejected() {
    let Some(fabric) = fabric("a_wrong_key_is_rejected") else {
        return;
    };
    let (mut offer, bytes) = fabric.offer().unwrap();
    for wrong_at in [24, 39] {
        let mut wrong = bytes.clone();
        wrong[wrong_at] ^= 1;
        let mut pending = fabric.answer(&wrong).unwrap();
        let error = until("a rejection", || {
            assert!(offer.poll().unwrap().is_none());
            pending.poll().err()
        });
        assert!(matches!(error, OfiError::Failed { .. }), "{error}");
    }
    assert_eq!(offer.strangers(), 2);
    let mut pending = fabric.answer(&bytes).unwrap();
    let (mut one, mut other) = common::connect(&mut offer, &mut pending);
    common::exchange(&mut one, &mut other);
    assert!(offer.poll().is_err(), "a carrier is given once");
}

/// Whoever answers without the offering side's key is not the offering side.
#[test]
fn an_impostor_is_found() {
    let Some(fabric) = fabric("an_impostor_is_found") else {
        return;
    };
    let (mut offer, mut bytes) = fabric.offer().unwrap();
    bytes[40] ^= 1;
    let mut pending = fabric.answer(&bytes).unwrap();
    let error = until("an error", || {
        let _ = offer.poll();
        pending.poll().err()
    });
    assert!(matches!(error, OfiError::Impostor { .. }), "{error}");
}

#[test]
fn too_many_strangers_end_an_offer() {
    let Some(fabric) = fabric("too_many_strangers_end_an_offer") else {
        return;
    };
    let (mut offer, mut wrong) = fabric.offer().unwrap();
    wrong[24] ^= 1;
    let error = until("the end of the offer", || {
        let mut pending = fabric.answer(&wrong).unwrap();
        until("a rejection", || match (offer.poll(), pending.poll()) {
            (Err(error), _) => Some(Some(error)),
            (_, Err(_)) => Some(None),
            _ => None,
        })
    });
    assert!(matches!(error, OfiError::Strangers { .. }), "{error}");
    assert_eq!(offer.poll().unwrap_err(), error);
}

/// Descriptors of this process. Other tests run in it, too, so this one has its own process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a test of this file in a process of its own.
fn alone(test: &str, variable: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(variable, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Strangers who connect by TCP and say nothing, or not all, or nonsense: they neither stop the
/// offer nor leave a descriptor.
#[test]
fn silent_strangers_do_no_harm() {
    let Some(fabric) = fabric("silent_strangers_do_no_harm") else {
        return;
    };
    if std::env::var_os("BAREWIRE_TEST_ALONE").is_none() {
        let child = alone("silent_strangers_do_no_harm", "BAREWIRE_TEST_ALONE");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    // libfabric keeps some for itself.
    drop(pair(&fabric));
    assert!(wait_until_sent(PATIENCE));
    let before = descriptors();
    let (mut offer, bytes) = fabric.offer().unwrap();
    let mut strangers = Vec::new();
    // What libfabric's provider sends first: version, a request, bytes that follow.
    let mut head = [0; 32];
    head[..4].copy_from_slice(&[3, 0, 1, 0]);
    head[24] = 1;
    for number in 0..100 {
        let mut stranger = TcpStream::connect(offer.address()).unwrap();
        // The head of a request, with 256 bytes to come; its beginning; nonsense; nothing.
        let said: &[u8] = match number % 4 {
            0 => &head,
            1 => &head[..2],
            2 => b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            _ => &[],
        };
        stranger.write_all(said).unwrap();
        strangers.push(stranger);
        let started = Instant::now();
        assert!(offer.poll().unwrap().is_none());
        assert!(started.elapsed() < Duration::from_secs(5), "it was stopped");
    }
    assert!(
        descriptors() < before + 100 + 60,
        "{} descriptors after {before}",
        descriptors()
    );
    let mut pending = fabric.answer(&bytes).unwrap();
    let (mut one, mut other) = common::connect(&mut offer, &mut pending);
    common::exchange(&mut one, &mut other);
    drop((one, other, offer, pending, strangers));
    assert!(wait_until_sent(PATIENCE));
    assert_eq!(descriptors(), before);
}

/// A link leaves neither a descriptor nor a thread.
#[test]
fn nothing_is_left_of_a_link() {
    let Some(fabric) = fabric("nothing_is_left_of_a_link") else {
        return;
    };
    if std::env::var_os("BAREWIRE_TEST_ALONE").is_none() {
        let child = alone("nothing_is_left_of_a_link", "BAREWIRE_TEST_ALONE");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let count = || std::fs::read_dir("/proc/self/task").unwrap().count();
    drop(pair(&fabric));
    assert!(wait_until_sent(PATIENCE));
    let (threads, before) = (count(), descriptors());
    for _ in 0..20 {
        let (mut one, mut other) = pair(&fabric);
        common::exchange(&mut one, &mut other);
    }
    let (offer, bytes) = fabric.offer().unwrap();
    drop(fabric.answer(&bytes).unwrap());
    drop(offer);
    assert!(wait_until_sent(PATIENCE));
    until("the threads' end", || (count() <= threads).then_some(()));
    assert_eq!(descriptors(), before);
}

/// What was written and flushed arrives although the carrier is dropped at once, and although
/// the other side sends, too.
#[test]
fn a_dropped_carrier_delivers() {
    let Some(fabric) = fabric("a_dropped_carrier_delivers") else {
        return;
    };
    let (mut one, mut other) = pair(&fabric);
    let sent: Vec<u8> = (0..600_000_u32).map(|i| (i % 251) as u8).collect();
    let taken = one.write(&sent).unwrap();
    assert!(taken > 100_000, "{taken}");
    one.flush().unwrap();
    assert!(other.write(b"unread").unwrap() == 6);
    other.flush().unwrap();
    drop(one);
    let mut got = Vec::new();
    let mut buffer = [0; 1000];
    until("the end", || match other.read(&mut buffer).unwrap() {
        Arrival::Bytes(count) => {
            got.extend_from_slice(&buffer[..count]);
            None
        }
        Arrival::Nothing => None,
        Arrival::End => Some(()),
    });
    assert!(got == sent[..taken], "{} of {taken} bytes", got.len());
    until("an error", || other.write(b"more").err());
}

/// The process that dies. It is the other side of `a_killed_process_is_noticed`.
#[test]
#[ignore = "the other side of a_killed_process_is_noticed"]
fn victim() {
    if std::env::var_os("BAREWIRE_TEST_VICTIM").is_none() {
        return;
    }
    let Some(fabric) = fabric("victim") else {
        return;
    };
    let mut hex = String::new();
    std::io::stdin().read_line(&mut hex).unwrap();
    let offer: Vec<u8> = hex
        .trim()
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    let mut pending = fabric.answer(&offer).unwrap();
    let mut carrier = until("the carrier", || pending.poll().unwrap());
    loop {
        carrier.write(&[7; 1000]).unwrap();
        carrier.flush().unwrap();
        carrier.read(&mut [0; 100]).unwrap();
    }
}

#[test]
fn a_killed_process_is_noticed() {
    let Some(fabric) = fabric("a_killed_process_is_noticed") else {
        return;
    };
    let (mut offer, bytes) = fabric.offer().unwrap();
    let mut child = alone("victim", "BAREWIRE_TEST_VICTIM");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{hex}").unwrap();
    let mut carrier = until("the carrier", || offer.poll().unwrap());
    let mut buffer = [0; 100_000];
    let mut got = 0;
    let error = until("the death", || {
        match carrier.read(&mut buffer) {
            Ok(Arrival::Bytes(count)) => {
                assert!(buffer[..count].iter().all(|&byte| byte == 7));
                got += count;
                if got > 300_000 {
                    child.kill().unwrap();
                }
            }
            Ok(Arrival::End) => panic!("the end, though nobody has said so"),
            Ok(Arrival::Nothing) => {
                if carrier.before_sleep() != Sleep::NotYet {
                    wait_until_readable(carrier.descriptor());
                }
            }
            Err(error) => return Some(error),
        }
        None
    });
    assert!(matches!(error, Broken::Failed { .. }), "{error}");
    assert!(carrier.read(&mut buffer).is_err(), "it stays so");
    assert!(carrier.write(b"x").is_err());
    assert!(carrier.flush().is_err());
    child.wait().unwrap();
    let mut rest = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut rest)
        .unwrap();
}
