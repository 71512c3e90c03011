//! What a connection says to an end that the test plays, segment by segment.

mod script;

use barewire_tcp::{Config, Error, Offload, State, Tcp};
use barewire_units::{Duration, Instant};
use script::{Script, config};

const OPTIONS: &str = "mss 1000,sack,wscale 0";

#[test]
fn a_connection_is_opened() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0>");
    it.quiet();
    assert_eq!(it.tcp.send(b"early"), Err(Error::NotConnected));
    it.after_ms(10);
    it.send("S. 0:0(0) ack 1 win 65535 <mss 1460,sack,wscale 7>");
    it.recv(". 1:1(0) ack 1 win 60000");
    it.quiet();
    assert_eq!(it.tcp.state(), State::Open);
    assert_eq!(it.tcp.round_trip(), Some(Duration::from_ms(10)));
}

#[test]
fn a_connection_is_refused() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    it.send("R. 0:0(0) ack 1 win 0");
    it.quiet();
    it.ended(Some(Error::Refused));
    assert_eq!(it.tcp.send(b"late"), Err(Error::Refused));
}

#[test]
fn a_forged_reset_does_not_refuse_it() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    it.send("R. 0:0(0) ack 77 win 0");
    it.send("R 0:0(0) win 0");
    assert_eq!(it.tcp.state(), State::Opening);
}

#[test]
fn a_wrong_answer_to_a_syn_is_reset() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    it.send("S. 0:0(0) ack 100 win 65535");
    it.recv("R 100:100(0)");
    assert_eq!(it.tcp.state(), State::Opening);
}

#[test]
fn a_syn_is_repeated_and_given_up() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    for wait_ms in [1000, 2000, 4000, 8000, 16_000, 32_000] {
        it.quiet();
        assert_eq!(it.wait_for_deadline(), wait_ms);
        it.recv("S 0:0(0)");
    }
    for _ in 0..4 {
        it.wait_for_deadline();
        it.skip();
        if it.tcp.state() == State::Closed {
            break;
        }
    }
    it.ended(Some(Error::TimedOut));
    assert!(it.now.since_origin() >= Duration::from_s(120));
}

#[test]
fn a_connection_is_accepted() {
    let mut it = Script::accepting(&config(), "S 0:0(0) win 65535 <mss 1200,sack,wscale 7>");
    it.recv("S. 0:0(0) ack 1 win 60000 <mss 1460,sack,wscale 0>");
    it.quiet();
    it.send("S 0:0(0) win 65535 <mss 1200,sack,wscale 7>");
    it.recv("S. 0:0(0) ack 1");
    it.send("P. 1:6(5) ack 1 win 100");
    assert_eq!(it.tcp.state(), State::Open);
    it.write(3000);
    it.recv(". 1:1201(1200) ack 6");
    it.recv(". 1201:2401(1200) ack 6");
    it.recv("P. 2401:3001(600) ack 6");
    it.read(5);
}

#[test]
fn what_is_no_syn_opens_nothing() {
    let result = Tcp::accept(&config(), b"no packet", Default::default(), Instant::ORIGIN);
    assert_eq!(result.err(), Some(Error::NotASyn));
}

#[test]
fn both_ends_open_at_the_same_time() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    it.send("S 0:0(0) win 65535 <mss 1000,sack>");
    it.recv("S. 0:0(0) ack 1");
    it.send("S. 0:0(0) ack 1 win 65535 <mss 1000,sack>");
    it.skip();
    it.send(". 1:1(0) ack 1 win 65535");
    assert_eq!(it.tcp.state(), State::Open);
    it.write(10);
    it.recv("P. 1:11(10) ack 1");
}

#[test]
fn an_end_without_options_gets_none() {
    let mut it = Script::accepting(&config(), "S 0:0(0) win 5000");
    it.recv("S. 0:0(0) ack 1 win 60000 <mss 1460>");
    it.send(". 1:1(0) ack 1 win 5000");
    // 536 bytes are what RFC 9293 takes for granted.
    it.write(600);
    it.recv(". 1:537(536) ack 1");
    it.recv("P. 537:601(64) ack 1");
    // What comes out of order is not told, but asked for.
    it.send(". 11:21(10) ack 601");
    it.recv(". 601:601(0) ack 1 win 60000");
    it.quiet();
}

#[test]
fn windows_are_scaled() {
    let mut settings = config();
    settings.receive_buffer_bytes = 1 << 20;
    let mut it = Script::connecting(&settings);
    it.recv("S 0:0(0) win 65535 <mss 1460,sack,wscale 5>");
    it.send("S. 0:0(0) ack 1 win 65535 <mss 256,sack,wscale 7>");
    it.recv(". 1:1(0) ack 1 win 32768");
    // Two units of 128 bytes.
    it.send(". 1:1(0) ack 1 win 2");
    it.write(2000);
    it.recv(". 1:257(256) ack 1");
    it.quiet();
}

#[test]
fn acknowledgements_wait_for_a_second_segment() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send(". 1:1001(1000) ack 1");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 10);
    it.recv(". 1:1(0) ack 1001 win 59000");
    it.send(". 1001:2461(1460) ack 1");
    it.quiet();
    it.send(". 2461:3921(1460) ack 1");
    it.recv(". 1:1(0) ack 3921 win 56080");
    it.read(3920);
}

#[test]
fn an_acknowledgement_goes_with_bytes() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("P. 1:11(10) ack 1");
    it.write(5);
    it.recv("P. 1:6(5) ack 11");
    it.quiet();
    it.after_ms(20);
    it.quiet();
}

#[test]
fn what_comes_out_of_order_is_told_in_blocks() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send(". 101:201(100) ack 1");
    it.recv("ack 1 win 60000 <blocks 101:201>");
    it.send(". 301:401(100) ack 1");
    it.recv("ack 1 win 60000 <blocks 301:401 101:201>");
    it.send(". 501:601(100) ack 1");
    it.recv("<blocks 501:601 301:401 101:201>");
    it.send(". 201:301(100) ack 1");
    it.recv("<blocks 101:401 501:601>");
    it.send(". 1:101(100) ack 1");
    it.recv("ack 401 win 59600 <blocks 501:601>");
    it.send(". 401:501(100) ack 1");
    it.recv(". 1:1(0) ack 601 win 59400");
    it.read(600);
}

#[test]
fn what_comes_twice_is_told() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send(". 1:101(100) ack 1");
    it.send(". 1:101(100) ack 1");
    it.recv("ack 101 win 59900 <blocks 1:101>");
    it.quiet();
}

#[test]
fn a_hole_is_filled_and_nothing_else_is_repeated() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(8000);
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1001");
    it.send(". 1:1(0) ack 1001 <blocks 2001:3001>");
    it.send(". 1:1(0) ack 1001 <blocks 2001:4001>");
    it.quiet();
    it.send(". 1:1(0) ack 1001 <blocks 2001:5001>");
    it.recv(". 1001:2001(1000) ack 1");
    it.quiet();
    it.send(". 1:1(0) ack 1001 <blocks 2001:8001>");
    it.quiet();
    it.after_ms(10);
    it.send(". 1:1(0) ack 8001");
    it.quiet();
    assert_eq!(it.tcp.counts().packets_again, 1);
    assert_eq!(it.tcp.counts().repairs, 1);
    assert_eq!(it.tcp.unacknowledged_bytes(), 0);
}

#[test]
fn two_holes_are_filled_in_one_round_trip() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(9000);
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <blocks 1001:3001 4001:6001>");
    it.recv(". 1:1001(1000)");
    it.send(". 1:1(0) ack 1 <blocks 4001:9001 1001:3001>");
    it.recv(". 3001:4001(1000)");
    it.quiet();
}

#[test]
fn a_repair_that_is_lost_is_repeated() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(20_000);
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <blocks 1001:5001>");
    it.recv(". 1:1001(1000)");
    it.skip();
    // What was sent behind the repair arrives, and the repair does not.
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <blocks 1001:11001>");
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <blocks 1001:13001>");
    it.recv(". 1:1001(1000)");
    assert_eq!(it.tcp.counts().timeouts, 0);
}

#[test]
fn without_blocks_three_repeated_acknowledgements_tell_of_a_loss() {
    let mut it = Script::open(&config(), "mss 1000", 60_000);
    it.write(8000);
    it.skip();
    it.after_ms(10);
    for _ in 0..2 {
        it.send(". 1:1(0) ack 1 win 60000");
        it.quiet();
    }
    it.send(". 1:1(0) ack 1 win 60000");
    it.recv(". 1:1001(1000)");
    it.quiet();
    // A part is acknowledged: the next hole follows.
    it.after_ms(10);
    it.send(". 1:1(0) ack 3001 win 60000");
    it.recv(". 3001:4001(1000)");
    assert_eq!(it.tcp.counts().timeouts, 0);
}

#[test]
fn a_reordered_segment_is_not_taken_for_lost_again() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(4000);
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1 <blocks 1001:2001>");
    it.quiet();
    it.send(". 1:1(0) ack 2001");
    it.send(". 1:1(0) ack 2001 <blocks 3001:4001>");
    it.quiet();
    // A quarter of the round-trip time, and then it counts as lost.
    assert_eq!(it.wait_for_deadline(), 2);
    it.recv(". 2001:3001(1000)");
}

#[test]
fn a_lost_tail_is_asked_for_and_then_times_out() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(3000);
    it.skip();
    // Two round trips, and then the last segment again.
    assert_eq!(it.wait_for_deadline(), 20);
    it.recv("P. 2001:3001(1000)");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 200);
    it.recv(". 1:1001(1000)");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 400);
    it.recv(". 1:1001(1000)");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 800);
    it.recv(". 1:1001(1000)");
    assert_eq!(it.tcp.counts().timeouts, 3);
    assert_eq!(it.tcp.counts().probes, 1);
}

#[test]
fn an_end_that_never_answers_is_given_up() {
    let mut settings = config();
    settings.timeout = Duration::from_s(5);
    let mut it = Script::open(&settings, OPTIONS, 60_000);
    it.write(10);
    it.skip();
    for _ in 0..20 {
        it.wait_for_deadline();
        it.skip();
        if it.tcp.state() == State::Closed {
            break;
        }
    }
    it.ended(Some(Error::TimedOut));
    assert!(it.now.since_origin() < Duration::from_s(6));
}

#[test]
fn a_closed_window_is_asked_about() {
    let mut it = Script::open(&config(), OPTIONS, 1000);
    it.write(3000);
    it.recv("1:1001(1000)");
    it.quiet();
    it.after_ms(10);
    it.send(". 1:1(0) ack 1001 win 0");
    it.quiet();
    for wait_ms in [200, 400, 800] {
        assert_eq!(it.wait_for_deadline(), wait_ms);
        it.recv(". 1000:1000(0) ack 1");
        it.quiet();
        it.send(". 1:1(0) ack 1001 win 0");
        it.quiet();
    }
    it.send(". 1:1(0) ack 1001 win 2000");
    it.recv(". 1001:2001(1000)");
    it.recv("P. 2001:3001(1000)");
}

#[test]
fn a_window_that_opens_is_told() {
    let mut settings = config();
    settings.receive_buffer_bytes = 5000;
    let mut it = Script::open(&settings, OPTIONS, 60_000);
    for at in [1, 1001, 2001, 3001, 4001] {
        it.send(&format!(". {at}:{}(1000) ack 1", at + 1000));
        it.skip();
    }
    it.after_ms(10);
    it.skip();
    // There is no room: it says so.
    it.send(". 5001:5002(1) ack 1");
    it.recv("ack 5001 win 0");
    it.read(1000);
    it.quiet();
    it.read(2000);
    it.recv("ack 5001 win 3000");
}

#[test]
fn a_stream_ends_and_the_other_goes_on() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(10);
    it.tcp.shutdown();
    it.recv("F. 1:11(10) ack 1");
    assert_eq!(it.tcp.send(b"more"), Err(Error::SendClosed));
    it.send(". 1:1(0) ack 12");
    assert!(it.tcp.is_end_acknowledged());
    it.send("P. 1:101(100) ack 12");
    it.send("F. 101:101(0) ack 12");
    it.recv(". 12:12(0) ack 102");
    it.read(100);
    assert!(it.tcp.has_ended());
    assert_eq!(it.tcp.state(), State::TimeWait);
    // The last acknowledgement was lost.
    it.after_ms(5000);
    it.send("F. 101:101(0) ack 12");
    it.recv(". 12:12(0) ack 102");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 10_000);
    it.quiet();
    it.ended(None);
}

#[test]
fn the_other_end_closes_first() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("F. 1:11(10) ack 1");
    it.recv(". 1:1(0) ack 12");
    it.read(10);
    assert!(it.tcp.has_ended());
    it.write(10);
    it.tcp.close();
    it.recv("F. 1:11(10) ack 12");
    it.send(". 12:12(0) ack 12");
    it.quiet();
    it.ended(None);
}

#[test]
fn both_ends_close_at_the_same_time() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.tcp.close();
    it.recv("F. 1:1(0) ack 1");
    it.send("F. 1:1(0) ack 1");
    it.recv(". 2:2(0) ack 2");
    it.send(". 2:2(0) ack 2");
    assert_eq!(it.tcp.state(), State::TimeWait);
}

#[test]
fn a_lost_end_is_repeated() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.tcp.shutdown();
    it.recv("F. 1:1(0) ack 1");
    it.quiet();
    it.wait_for_deadline();
    it.recv("F. 1:1(0) ack 1");
}

#[test]
fn a_reset_ends_it_only_at_the_right_place() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("R. 500:500(0) ack 1");
    it.recv(". 1:1(0) ack 1");
    it.send("R 60500:60500(0)");
    it.quiet();
    it.send("R 1:1(0)");
    it.ended(Some(Error::Reset));
}

#[test]
fn a_syn_and_a_wrong_acknowledgement_are_challenged() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("S 0:0(0) win 65535");
    it.recv(". 1:1(0) ack 1");
    it.send(". 1:1(0) ack 500");
    // Not more often than is good.
    it.quiet();
    it.after_ms(100);
    it.send(". 1:1(0) ack 500");
    it.recv(". 1:1(0) ack 1");
    assert_eq!(it.tcp.state(), State::Open);
}

#[test]
fn unread_bytes_reset_the_other_end() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("P. 1:11(10) ack 1");
    it.tcp.close();
    it.recv("R. 1:1(0) ack 11");
    it.ended(Some(Error::Aborted));
}

#[test]
fn bytes_that_nobody_wants_reset_the_other_end() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.tcp.close();
    it.recv("F. 1:1(0) ack 1");
    it.send("P. 1:11(10) ack 2");
    it.recv("R. 2:2(0)");
    it.ended(Some(Error::Aborted));
}

#[test]
fn an_aborted_connection_answers_with_resets() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(10);
    it.skip();
    it.tcp.abort();
    it.recv("R. 11:11(0) ack 1");
    it.quiet();
    it.send(". 1:1(0) ack 1");
    it.recv("R 1:1(0)");
}

#[test]
fn a_silent_end_is_asked_whether_it_lives() {
    let mut settings = config();
    settings.keep_alive = Some(Duration::from_s(30));
    let mut it = Script::open(&settings, OPTIONS, 60_000);
    assert_eq!(it.wait_for_deadline(), 30_000);
    it.recv(". 0:0(0) ack 1");
    it.send(". 1:1(0) ack 1");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 30_000);
    for _ in 0..5 {
        it.recv(". 0:0(0) ack 1");
        it.quiet();
        assert_eq!(it.wait_for_deadline(), 1000);
    }
    it.recv("R. 1:1(0)");
    it.ended(Some(Error::TimedOut));
}

#[test]
fn short_pieces_wait_only_if_asked_to() {
    for nagle in [false, true] {
        let settings = Config { nagle, ..config() };
        let mut it = Script::open(&settings, OPTIONS, 60_000);
        it.write(10);
        it.recv("P. 1:11(10)");
        it.write(10);
        if nagle {
            it.quiet();
            it.send(". 1:1(0) ack 11");
        }
        it.recv("P. 11:21(10)");
    }
}

#[test]
fn a_tiny_segment_size_is_not_believed() {
    let mut it = Script::open(&config(), "mss 1,sack", 60_000);
    it.write(100);
    it.recv(". 1:49(48)");
}

#[test]
fn no_more_is_sent_than_the_other_end_takes() {
    let mut it = Script::open(&config(), OPTIONS, 2500);
    it.write(9000);
    it.recv(". 1:1001(1000)");
    it.recv(". 1001:2001(1000)");
    it.quiet();
    it.send(". 1:1(0) ack 2001 win 2500");
    it.recv(". 2001:3001(1000)");
    it.recv(". 3001:4001(1000)");
    it.quiet();
}

#[test]
fn the_first_window_has_ten_segments() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(50_000);
    for at in 0..10 {
        it.recv(&format!(". {}:{}(1000)", 1 + at * 1000, 1001 + at * 1000));
    }
    it.quiet();
}

#[test]
fn a_carrier_that_cuts_gets_long_packets_and_only_holes_again() {
    let mut settings = config();
    settings.offload = Offload {
        checksum: true,
        segmentation_bytes_max: Some(60_000),
    };
    let mut it = Script::open(&settings, OPTIONS, 60_000);
    it.write(8500);
    it.recv(". 1:8001(8000) ack 1 win 60000 cut 1000");
    it.recv("P. 8001:8501(500)");
    it.after_ms(10);
    // The third and fourth segment of the packet are missing.
    it.send(". 1:1(0) ack 2001 <blocks 4001:8501>");
    it.recv(". 2001:4001(2000) ack 1 win 60000 cut 1000");
    it.quiet();
}

#[test]
fn addresses_may_be_of_version_6() {
    let mut settings = config();
    settings.local = "[2001:db8::1]:40000".parse().expect("an address");
    settings.remote = "[2001:db8::2]:80".parse().expect("an address");
    let mut it = Script::connecting(&settings);
    it.recv("S 0:0(0) win 60000 <mss 1440,sack,wscale 0>");
    it.send("S. 0:0(0) ack 1 win 60000 <mss 9000,sack>");
    it.skip();
    it.write(2000);
    it.recv(". 1:1441(1440)");
}

#[test]
fn two_answers_to_two_syns_open_it() {
    let mut it = Script::connecting(&config());
    it.recv("S 0:0(0)");
    it.send(&format!("S 0:0(0) win 60000 <{OPTIONS}>"));
    it.recv("S. 0:0(0) ack 1");
    it.after_ms(10);
    // Not an answer with another number, which would not fit.
    it.send(&format!("S. 5:5(0) ack 1 win 60000 <{OPTIONS}>"));
    it.quiet();
    it.send(&format!("S. 0:0(0) ack 1 win 60000 <{OPTIONS}>"));
    it.recv(". 1:1(0) ack 1");
    it.quiet();
    assert_eq!(it.tcp.state(), State::Open);
    it.write(10);
    it.recv("P. 1:11(10) ack 1");
}

#[test]
fn a_reset_before_it_is_open_counts_only_at_the_right_place() {
    let mut it = Script::accepting(&config(), "S 0:0(0) win 60000 <mss 1000>");
    it.recv("S. 0:0(0) ack 1");
    it.send("R 500:500(0) win 0");
    it.quiet();
    assert_eq!(it.tcp.state(), State::Opening);
    it.send("R 1:1(0) win 0");
    it.ended(Some(Error::Reset));
}

#[test]
fn an_end_of_version_6_without_options_takes_what_fits_everywhere() {
    let mut settings = config();
    settings
        .local
        .set_ip("2001:db8::1".parse().expect("an address"));
    settings
        .remote
        .set_ip("2001:db8::2".parse().expect("an address"));
    let mut it = Script::connecting(&settings);
    it.skip();
    it.send("S. 0:0(0) ack 1 win 60000");
    it.skip();
    it.write(2000);
    it.recv(". 1:1221(1220)");
}

#[test]
fn an_end_before_missing_bytes_is_answered_at_once() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("F. 1001:1001(0) ack 1");
    it.recv(". 1:1(0) ack 1");
    it.quiet();
    assert!(!it.tcp.has_ended());
}

#[test]
fn a_window_that_is_too_small_is_used_after_a_while() {
    let mut it = Script::open(&config(), OPTIONS, 4000);
    it.write(4500);
    it.skip();
    it.after_ms(10);
    it.send(". 1:1(0) ack 4001 win 100");
    it.quiet();
    assert_eq!(it.wait_for_deadline(), 200);
    it.recv(". 4001:4101(100)");
    it.quiet();
    it.after_ms(10);
    it.send(". 1:1(0) ack 4101 win 100");
    it.quiet();
    // Enough for all that waits.
    it.send(". 1:1(0) ack 4101 win 400");
    it.recv("P. 4101:4501(400)");
}

#[test]
fn a_segment_with_a_wrong_checksum_is_dropped() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send_broken("P. 1:11(10) ack 1");
    it.quiet();
    assert_eq!((it.tcp.readable_bytes(), it.tcp.refused_packets()), (0, 1));
    it.send("P. 1:11(10) ack 1");
    it.read(10);
    assert_eq!(it.tcp.refused_packets(), 1);
}

#[test]
fn a_host_on_the_way_says_that_nobody_listens() {
    for code in [2, 3] {
        let mut it = Script::connecting(&config());
        it.recv("S 0:0(0)");
        // Not about this segment.
        it.icmp(3, code, 0, 1);
        assert_eq!(it.tcp.state(), State::Opening);
        it.icmp(3, code, 0, 0);
        it.ended(Some(Error::Refused));
    }
}

#[test]
fn a_host_on_the_way_says_that_there_is_no_way() {
    for (kind, code) in [(3, 0), (3, 1), (11, 0)] {
        let mut it = Script::connecting(&config());
        it.recv("S 0:0(0)");
        // Not about this segment.
        it.icmp(kind, code, 0, 1);
        assert_eq!(it.tcp.state(), State::Opening);
        it.icmp(kind, code, 0, 0);
        it.ended(Some(Error::Unreachable));
        assert_eq!(it.tcp.refused_packets(), 1);
    }
}

#[test]
fn unreachable_is_told_when_the_time_is_over() {
    let mut settings = config();
    settings.timeout = Duration::from_s(5);
    let mut it = Script::open(&settings, OPTIONS, 60_000);
    it.write(10);
    it.recv("P. 1:11(10)");
    it.icmp(3, 1, 0, 1);
    it.quiet();
    assert_eq!(it.tcp.state(), State::Open);
    it.after_ms(5000);
    it.recv("R. 11:11(0)");
    it.ended(Some(Error::Unreachable));
    assert_eq!(it.tcp.refused_packets(), 0);
}

#[test]
fn an_open_connection_outlives_what_hosts_say() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.write(10);
    it.recv("P. 1:11(10)");
    it.icmp(3, 3, 0, 1);
    it.icmp(3, 1, 0, 1);
    it.quiet();
    assert_eq!(it.tcp.state(), State::Open);
    it.send(". 1:1(0) ack 11");
    // What was said before does not count any longer.
    it.write(10);
    it.recv("P. 11:21(10)");
    it.after_ms(120_000);
    it.recv("R. 21:21(0)");
    it.ended(Some(Error::TimedOut));
}

#[test]
fn a_path_takes_shorter_packets() {
    let mut it = Script::open(&config(), "mss 1460,sack,wscale 0", 60_000);
    it.write(3000);
    it.recv(". 1:1461(1460)");
    it.recv(". 1461:2921(1460)");
    it.recv("P. 2921:3001(80)");
    // About nothing that is in flight, longer, and too short to be true.
    it.icmp(3, 4, 1000, 3001);
    it.icmp(3, 4, 1500, 1);
    it.quiet();
    assert_eq!(it.tcp.path_mtu(), 1500);
    it.icmp(3, 4, 1040, 1);
    assert_eq!(it.tcp.path_mtu(), 1040);
    it.recv(". 1:1001(1000)");
    it.recv(". 1001:1461(460)");
    it.recv(". 1461:2461(1000)");
    it.recv(". 2461:2921(460)");
    it.quiet();
    it.after_ms(10);
    it.send(". 1:1(0) ack 3001");
    assert_eq!(it.tcp.unacknowledged_bytes(), 0);
    // While such segments arrive, that they do not is not believed.
    it.write(1000);
    it.recv("P. 3001:4001(1000)");
    it.icmp(3, 4, 600, 3001);
    assert_eq!(it.tcp.path_mtu(), 1040);
    it.skip();
    it.after_ms(5000);
    it.skip();
    it.after_ms(5000);
    it.skip();
    it.icmp(3, 4, 20, 3001);
    assert_eq!(it.tcp.path_mtu(), 576);
}

#[test]
fn a_host_that_does_not_say_how_short_is_guessed() {
    let mut it = Script::open(&config(), "mss 1460,sack,wscale 0", 60_000);
    it.write(1460);
    it.recv("P. 1:1461(1460)");
    it.icmp(3, 4, 0, 1);
    assert_eq!(it.tcp.path_mtu(), 1492);
    it.recv(". 1:1453(1452)");
    it.recv("P. 1453:1461(8)");
}

#[test]
fn settings_are_checked() {
    let wrong = |change: &dyn Fn(&mut Config)| {
        let mut settings = config();
        change(&mut settings);
        Tcp::connect(&settings, Instant::ORIGIN).expect_err("it is wrong")
    };
    let bad = [
        wrong(&|it| it.mtu = 500),
        wrong(&|it| it.send_buffer_bytes = 1),
        wrong(&|it| it.receive_buffer_bytes = usize::MAX),
        wrong(&|it| it.timeout = Duration::ZERO),
        wrong(&|it| it.offload.segmentation_bytes_max = Some(100)),
    ];
    assert!(bad.iter().all(|it| matches!(it, Error::BadSetting(_))));
    let bad = [
        wrong(&|it| it.remote.set_port(0)),
        wrong(&|it| it.remote.set_ip("0.0.0.0".parse().expect("an address"))),
        wrong(&|it| it.remote.set_ip("224.0.0.1".parse().expect("an address"))),
        wrong(&|it| it.remote.set_ip("::1".parse().expect("an address"))),
    ];
    assert!(bad.iter().all(|it| matches!(it, Error::BadAddress(_))));
}
