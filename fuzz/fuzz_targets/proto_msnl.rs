//! MSNL: a station that is sent anything, commanded anything, at any time.
#![no_main]

use barewire_classic::msnl::{Action, Config, Network, Timing};
use barewire_formats::msnl::{MESSAGE_BYTES, Message, MessageRepr, Reason};
use barewire_units::Instant;
use libfuzzer_sys::fuzz_target;

const CALLS_MAX: usize = 8;

fuzz_target!(|data: &[u8]| {
    let config = Config {
        station: 1,
        first_reference: 1,
        calls_max: CALLS_MAX,
        vcis: 40..=43,
        receive_channels: 0b0110,
        timing: Timing::default(),
    };
    let mut network = Network::new(config).expect("a good configuration");
    let mut now = Instant::ORIGIN;
    let mut sent: Vec<MessageRepr> = Vec::new();
    let mut rest = data;
    while let [what, number, after @ ..] = rest {
        rest = after;
        let call = u32::from(*number);
        match what % 8 {
            0 => drop(network.connect(now, u16::from(*number), 7)),
            1 => network.accept(now, call).unwrap_or_default(),
            2 => network
                .reject(now, call, Reason::NoService)
                .unwrap_or_default(),
            3 => network.close(now, call, Reason::Normal).unwrap_or_default(),
            4 => now = network.next_deadline().unwrap_or(now).max(now),
            5 => {
                now =
                    Instant::from_ps(now.since_origin().as_ps() | u64::from(*number) << (what / 8))
            }
            6 => {
                // Its own messages come back, as if from a peer that speaks the same.
                if let Some(&message) = sent.get(usize::from(*number)) {
                    network.handle_message(now, &mirrored(message));
                }
            }
            _ => {
                if let Some((bytes, after)) = rest.split_first_chunk::<MESSAGE_BYTES>() {
                    rest = after;
                    network.handle_message(now, &message(*bytes));
                }
            }
        }
        network.handle_timeout(now);
        while let Some(action) = network.poll_action() {
            if let Action::Send(message) = action {
                sent.insert(0, message);
                sent.truncate(256);
            }
        }
        check(&network);
    }
});

/// The message as its receiver would send it.
fn mirrored(message: MessageRepr) -> MessageRepr {
    MessageRepr {
        source: message.destination,
        destination: message.source,
        source_reference: message.destination_reference,
        destination_reference: message.source_reference,
        ..message
    }
}

/// What the bytes say, checked or not.
fn message(bytes: [u8; MESSAGE_BYTES]) -> MessageRepr {
    let view = Message::new_unchecked(bytes);
    MessageRepr {
        source: view.source(),
        destination: view.destination(),
        source_reference: view.source_reference(),
        destination_reference: view.destination_reference(),
        body: view.body(),
    }
}

/// Tables are bounded, no VCI is held twice, and what is held will end.
fn check(network: &Network) {
    let calls: Vec<_> = network.associations().collect();
    assert!(calls.len() <= CALLS_MAX);
    let ports = calls.iter().filter_map(|(_, call)| call.receive_at);
    let mut vcis: Vec<u16> = ports.map(|port| port.vci).collect();
    let held = vcis.len();
    vcis.sort_unstable();
    vcis.dedup();
    assert_eq!(vcis.len(), held);
    assert_eq!(network.next_deadline().is_some(), !calls.is_empty());
}
