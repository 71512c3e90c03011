//! Packets whose payload stays where it lies.

mod script;

use barewire_tcp::{Endpoint, Offload};
use script::{Script, config};

const OPTIONS: &str = "mss 1000,sack,wscale 0";

#[test]
fn a_long_payload_may_be_left_where_it_lies() {
    let mut settings = config();
    settings.offload = Offload {
        checksum: true,
        segmentation_bytes_max: Some(60_000),
    };
    settings.send_buffer_bytes = 10_000;
    let opened = || {
        let mut it = Script::open(&settings, OPTIONS, 60_000);
        // The next payload goes round the end of the buffer.
        it.write(6000);
        it.skip();
        it.send(". 1:1(0) ack 6001");
        let payload: Vec<u8> = (0..8000).map(|at| (at % 251) as u8).collect();
        assert_eq!(it.tcp.send(&payload), Ok(8000));
        (it, payload)
    };
    let ((mut whole, payload), (mut parts, _)) = (opened(), opened());
    let (mut packet, mut head) = (vec![0; 65_535], vec![0; 65_535]);
    let sent = whole.tcp.poll_packet(&mut packet, whole.now);
    let sent = sent.expect("a packet");
    assert_eq!((sent.bytes, sent.left_out), (40 + 8000, None));
    let left = parts.tcp.poll_head(&mut head, parts.now).expect("a packet");
    assert_eq!((left.bytes, left.checksum), (sent.bytes, sent.checksum));
    let [first, second] = parts.tcp.left_out(&left);
    assert_eq!((first.len(), second.len()), (4000, 4000));
    assert_eq!([first, second].concat(), payload);
    assert_eq!(
        [&head[..40], first, second].concat(),
        packet[..sent.bytes].to_vec()
    );
    assert!(head[40..].iter().all(|byte| *byte == 0));
    // A short one is not.
    parts.send(". 1:1(0) ack 14001");
    parts.write(500);
    let short = parts.tcp.poll_head(&mut head, parts.now);
    assert_eq!(short.expect("a packet").left_out, None);
    // What was acknowledged is forgotten.
    assert_eq!(parts.tcp.left_out(&left), [&[0_u8; 0][..]; 2]);
}
