//! Time that counts from a later origin, state by state. It begins anew in the middle of each wait.

mod script;

use barewire_tcp::{Endpoint, Error, State};
use barewire_units::{Duration, Instant};
use script::{Script, config};

const OPTIONS: &str = "mss 1000,sack,wscale 0,ts 700 0";

/// Longer than anything that these connections wait for.
const LONG_MS: u64 = 300_000;

/// After how many ms the connection has ended, with whatever it sends meanwhile; time begins anew at each deadline.
#[track_caller]
fn until_end(it: &mut Script) -> u64 {
    let mut waited = 0;
    while it.tcp.state() != State::Closed {
        it.begin_anew(LONG_MS);
        waited += it.wait_for_deadline();
        it.skip();
    }
    waited
}

#[test]
fn an_opening_goes_on() {
    let begun = Instant::ORIGIN + Duration::from_ms(2 * LONG_MS);
    let mut it = Script::connecting_at(&config(), begun);
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0> ts 0 0");
    it.after_ms(400);
    it.begin_anew(LONG_MS);
    it.after_ms(599);
    it.quiet();
    it.after_ms(1);
    it.recv("S 0:0(0) win 60000 <mss 1460,sack,wscale 0> ts 1000 0");
    it.begin_anew(LONG_MS);
    it.after_ms(30);
    it.send("S. 0:0(0) ack 1 win 60000 <mss 1000,sack,wscale 0,ts 700 1000>");
    it.recv(". 1:1(0) ack 1 win 60000 ts 1030 700");
    assert_eq!(it.tcp.round_trip(), Some(Duration::from_ms(30)));
    // Nobody answers.
    let mut it = Script::connecting_at(&config(), begun);
    it.skip();
    let waited = until_end(&mut it);
    it.ended(Some(Error::TimedOut));
    assert_eq!(waited, 120_000);
}

#[test]
fn what_is_sent_is_given_up_in_time() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.after_ms(2 * LONG_MS);
    it.write(10);
    it.recv("P. 1:11(10) ack 1 win 60000 ts 600010 700");
    let waited = until_end(&mut it);
    it.ended(Some(Error::TimedOut));
    assert_eq!(waited, 120_000);
}

#[test]
fn a_closed_window_is_asked_for_in_time() {
    let mut it = Script::open(&config(), OPTIONS, 1000);
    it.after_ms(2 * LONG_MS);
    it.write(2000);
    it.recv(". 1:989(988) ack 1");
    it.after_ms(10);
    it.send(". 1:1(0) ack 989 win 0 <ts 710 600010>");
    it.quiet();
    let wait = it.tcp.next_deadline().expect("it asks");
    let wait = wait.saturating_duration_since(it.now).as_ms();
    it.after_ms(wait / 2);
    it.begin_anew(LONG_MS);
    it.quiet();
    assert_eq!(it.wait_for_deadline(), wait - wait / 2);
    it.recv(". 988:988(0) ack 1");
}

#[test]
fn time_wait_ends_in_time() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.after_ms(2 * LONG_MS);
    it.tcp.close();
    it.recv("F. 1:1(0) ack 1");
    it.send("F. 1:1(0) ack 2 <ts 700 600010>");
    it.recv(". 2:2(0) ack 2");
    assert_eq!(it.tcp.state(), State::TimeWait);
    it.after_ms(4000);
    it.begin_anew(LONG_MS);
    assert_eq!(it.wait_for_deadline(), 6000);
    it.quiet();
    it.ended(None);
}

#[test]
fn the_clock_of_timestamps_does_not_jump() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    for said in [1_000_010, 2_000_010, 3_000_010_u64] {
        it.after_ms(1_000_000);
        it.begin_anew(LONG_MS);
        it.write(10);
        it.recv(&format!("ts {said} 700"));
        let acknowledged = 1 + 10 * (said / 1_000_000);
        it.send(&format!(". 1:1(0) ack {acknowledged} <ts 700 {said}>"));
    }
}

#[test]
fn the_other_clock_is_known_for_24_days() {
    const DAY: u64 = 86_400_000;
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.after_ms(100 * DAY);
    it.send("P. 1:11(10) ack 1 <ts 100000 10>");
    it.after_ms(10);
    it.recv(". 1:1(0) ack 11");
    // Of these 30 days are left.
    it.after_ms(23 * DAY);
    it.begin_anew(30 * DAY);
    it.send("P. 11:21(10) ack 1 <ts 99999 10>");
    it.recv(". 1:1(0) ack 11");
    assert_eq!(it.tcp.readable_bytes(), 10);
    it.after_ms(DAY);
    it.send("P. 11:21(10) ack 1 <ts 99999 10>");
    assert_eq!(it.tcp.readable_bytes(), 20);
    // A silence that began before the new origin is none of less than 24 days.
    it.after_ms(100 * DAY);
    it.begin_anew(30 * DAY);
    it.send("P. 21:31(10) ack 1 <ts 5 10>");
    assert_eq!(it.tcp.readable_bytes(), 30);
}
