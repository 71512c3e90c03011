//! The end of a stream together with bytes, packet by packet: it counts once all bytes before it have come, and not before.

mod script;

use script::{Script, config};

const OPTIONS: &str = "mss 1000,sack,wscale 0";

#[test]
fn an_end_comes_with_bytes_that_are_partly_known() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send(". 1:101(100) ack 1");
    it.send("F. 51:151(100) ack 1");
    it.recv(". 1:1(0) ack 152");
    assert!(!it.tcp.has_ended());
    it.read(150);
    assert!(it.tcp.has_ended());
    // Behind the end there is nothing.
    it.send("P. 152:162(10) ack 1");
    assert_eq!(it.tcp.readable_bytes(), 0);
    it.write(10);
    it.recv("P. 1:11(10) ack 152");
}

#[test]
fn an_end_with_bytes_behind_a_hole_has_to_come_again() {
    let mut it = Script::open(&config(), OPTIONS, 60_000);
    it.send("F. 101:201(100) ack 1");
    it.recv("ack 1 win 60000 <blocks 101:201>");
    it.send(". 1:101(100) ack 1");
    it.recv(". 1:1(0) ack 201");
    it.read(200);
    assert!(!it.tcp.has_ended());
    it.send("F. 101:201(100) ack 1");
    it.recv(". 1:1(0) ack 202");
    assert!(it.tcp.has_ended());
}

#[test]
fn the_handshake_ends_with_bytes_and_the_end() {
    let mut it = Script::accepting(&config(), "S 0:0(0) win 65535 <mss 1200,sack,wscale 7>");
    it.recv("S. 0:0(0) ack 1");
    it.send("F. 1:6(5) ack 1 win 100");
    it.recv(". 1:1(0) ack 7");
    it.read(5);
    assert!(it.tcp.has_ended());
    it.write(10);
    it.tcp.close();
    it.recv("F. 1:11(10) ack 7");
    it.send(". 7:7(0) ack 12 win 100");
    it.ended(None);
}
