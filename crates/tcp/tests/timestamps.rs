//! Timestamps (RFC 7323), segment by segment.

mod script;

use barewire_tcp::{Offload, State};
use barewire_units::Duration;
use script::{Script, config};

const OPTIONS: &str = "mss 1000,sack,wscale 0,ts 700 0";

#[test]
fn both_ends_offer_them_and_each_packet_has_them() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0> ts 0 0");
    // What is sent again says when.
    it.after_ms(1000);
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0> ts 1000 0");
    it.after_ms(30);
    it.send("S. 0:0(0) ack 1 win 60000 <mss 1000,sack,wscale 0,ts 700 1000>");
    it.recv(". 1:1(0) ack 1 win 60000 ts 1030 700");
    // Which of the two SYN was answered: with the option, that is known.
    assert_eq!(it.tcp.round_trip(), Some(Duration::from_ms(30)));
    // The option takes 12 bytes of each segment.
    it.write(1000);
    it.recv(". 1:989(988) ack 1 win 60000 ts 1030 700");
    it.recv("P. 989:1001(12) ack 1 win 60000 ts 1030 700");
    it.after_ms(5);
    it.send("P. 1:11(10) ack 1001 win 60000 <ts 720 1030>");
    it.after_ms(10);
    it.recv(". 1001:1001(0) ack 11 win 59990 ts 1045 720");
    it.tcp.abort();
    it.recv("R. 1001:1001(0) ack 11 win 59990 ts 1045 720");
}

#[test]
fn who_is_called_has_them_if_the_caller_has() {
    let mut it = Script::accepting(&config(), "S 0:0(0) win 60000 <mss 1000,ts 700 0>");
    it.recv("S. 0:0(0) ack 1 win 60000 <mss 1460> ts 0 700");
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <ts 710 0>");
    it.write(10);
    it.recv("P. 1:11(10) ack 1 win 60000 ts 10 710");
    for (offers, wants) in [("mss 1000", true), ("mss 1000,ts 700 0", false)] {
        let mut settings = config();
        settings.timestamps = wants;
        let mut it = Script::accepting(&settings, &format!("S 0:0(0) win 60000 <{offers}>"));
        it.recv("S. 0:0(0) ack 1 win 60000 <mss 1460>");
        it.send(". 1:1(0) ack 1");
        it.write(1000);
        it.recv("P. 1:1001(1000) ack 1 win 60000");
        it.send(". 1:1(0) ack 1001 <ts 1 1>");
        it.quiet();
        assert_eq!(it.tcp.unacknowledged_bytes(), 0);
    }
}

#[test]
fn an_end_that_does_not_answer_with_them_gets_none() {
    let mut settings = config();
    settings.timestamps = false;
    let mut it = Script::connecting(&settings);
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0>");
    it.send("S. 0:0(0) ack 1 win 60000 <mss 1000,ts 700 0>");
    it.write(1000);
    it.recv("P. 1:1001(1000) ack 1 win 60000");
    let mut it = Script::open(&config(), "mss 1000,sack,wscale 0", 60_000);
    it.write(1000);
    it.recv("P. 1:1001(1000) ack 1 win 60000");
}

#[test]
fn a_segment_of_a_lap_ago_is_answered_and_dropped() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("P. 1:11(10) ack 1 <ts 800 10>");
    it.after_ms(10);
    it.recv(". 1:1(0) ack 11 win 59990 ts 20 800");
    // It would fit, but is older than what came before.
    it.send("P. 11:21(10) ack 1 <ts 799 10>");
    it.recv(". 1:1(0) ack 11 win 59990 ts 20 800");
    assert_eq!(it.tcp.readable_bytes(), 10);
    // An end of the stream, likewise; a reset is not looked at for that.
    it.send("F. 11:11(0) ack 1 <ts 799 10>");
    it.recv(". 1:1(0) ack 11 win 59990 ts 20 800");
    assert!(!it.tcp.has_ended());
    // As old is not older; and without the option it counts.
    it.send("P. 11:21(10) ack 1 <ts 800 10>");
    it.send("P. 21:31(10) ack 1");
    it.after_ms(10);
    it.recv(". 1:1(0) ack 31 win 59970 ts 30 800");
    it.send("R. 31:31(0) ack 1 <ts 1 10>");
    assert_eq!(it.tcp.state(), State::Closed);
}

#[test]
fn an_acknowledgement_of_a_lap_ago_does_not_count() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(10);
    it.recv("P. 1:11(10) ack 1");
    it.send(". 1:1(0) ack 11 <ts 699 10>");
    assert_eq!(it.tcp.unacknowledged_bytes(), 10);
    it.send(". 1:1(0) ack 11 <ts 701 10>");
    assert_eq!(it.tcp.unacknowledged_bytes(), 0);
}

#[test]
fn a_segment_behind_a_gap_does_not_change_what_goes_back() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("P. 11:21(10) ack 1 <ts 900 10>");
    it.recv("<blocks 11:21> ts 10 700");
    // What fills the gap was sent before, and is taken.
    it.send("P. 1:11(10) ack 1 <ts 800 10>");
    it.recv(". 1:1(0) ack 21 win 59980 ts 10 800");
    assert_eq!(it.tcp.readable_bytes(), 20);
}

#[test]
fn three_blocks_fit_beside_them() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    for from in [11, 31, 51, 71] {
        it.send(&format!("P. {from}:{}(10) ack 1 <ts 900 10>", from + 10));
        it.recv("ts 10 700");
    }
    it.send("P. 91:101(10) ack 1 <ts 900 10>");
    it.recv(". 1:1(0) ack 1 win 60000 <blocks 91:101 71:81 51:61> ts 10 700");
}

#[test]
fn what_was_sent_twice_tells_the_round_trip_time() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(10);
    it.recv("P. 1:11(10) ack 1 win 60000 ts 10 700");
    let mut waited = 10;
    while it.tcp.counts().timeouts == 0 {
        waited += it.wait_for_deadline();
        it.recv(&format!("P. 1:11(10) ack 1 win 60000 ts {waited} 700"));
    }
    it.after_ms(80);
    // The second or third was answered, and not the first.
    it.send(&format!(". 1:1(0) ack 11 <ts 701 {waited}>"));
    // 10 ms at first, an eighth of 80 ms: 18.75 ms.
    assert_eq!(it.tcp.round_trip(), Some(Duration::from_us(18_750)));
    assert_eq!(it.tcp.unacknowledged_bytes(), 0);
}

#[test]
fn a_large_packet_is_cut_into_segments_that_fit() {
    let mut settings = config();
    settings.offload = Offload {
        checksum: true,
        segmentation_bytes_max: Some(5000),
    };
    let mut it = Script::open(&settings, "mss 1460,sack,wscale 0,ts 700 0", 60_000);
    it.write(10_000);
    it.recv(". 1:4345(4344) ack 1 win 60000 ts 10 700 cut 1448");
}

#[test]
fn a_shorter_path_leaves_room_for_them() {
    let mut it = Script::open(&config(), "mss 1460,sack,wscale 0,ts 700 0", 60_000);
    it.write(1448);
    it.recv("P. 1:1449(1448)");
    it.icmp(3, 4, 1040, 1);
    assert_eq!(it.tcp.path_mtu(), 1040);
    it.recv(". 1:989(988)");
    it.recv("P. 989:1449(460)");
}
