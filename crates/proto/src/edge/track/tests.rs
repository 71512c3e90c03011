//! The table of a connection that is watched, and what its end demands.

use std::string::ToString;

use barewire_units::Graph;

use super::*;
use tcp_flags::{ACK, FIN, RST, SYN};

fn segment(sequence: u32, acknowledgment: u32, flags: u8, payload_bytes: usize) -> Segment {
    Segment {
        sequence,
        acknowledgment,
        flags,
        header_bytes: 20,
        payload_bytes,
    }
}

/// A connection that is open: the client has sent up to 1001, the peer up to 5001.
fn open() -> Track {
    let mut track = Track::default();
    track.from_client(&segment(1000, 0, SYN, 0));
    assert_eq!(
        (track.state(), track.ending()),
        (TrackState::Opening, Ending::Abort)
    );
    track.from_peer(&segment(5000, 1001, SYN | ACK, 0));
    assert_eq!(
        (track.state(), track.client_next(), track.peer_next()),
        (TrackState::Open, 1001, 5001)
    );
    track
}

#[test]
fn the_table_stays() {
    let graph = Graph::<TrackState>::new().to_string();
    assert_eq!(graph.lines().count(), 15);
    assert!(graph.starts_with("Silent --FromClient--> Opening\n"));
    assert!(graph.ends_with("Closed --Rst--> Reset\n"));
}

#[test]
fn an_orderly_end_needs_no_rst() {
    let mut track = open();
    track.from_client(&segment(1001, 5001, ACK | FIN, 10));
    assert_eq!((track.client_next(), track.ending()), (1012, Ending::Abort));
    track.from_peer(&segment(5001, 1012, ACK | FIN, 0));
    assert_eq!((track.peer_next(), track.ending()), (5002, Ending::Wait));
}

#[test]
fn both_may_close_at_once_or_the_peer_first() {
    let mut track = open();
    track.from_peer(&segment(5001, 1001, ACK | FIN, 0));
    assert_eq!(track.state(), TrackState::PeerClosed);
    track.from_client(&segment(1001, 5002, ACK | FIN, 0));
    assert_eq!(track.state(), TrackState::Closed);
}

#[test]
fn a_rst_is_believed_only_with_the_right_number() {
    let mut track = open();
    track.from_peer(&segment(4999, 0, RST, 0));
    assert_eq!(track.state(), TrackState::Open);
    track.from_peer(&segment(5001, 0, RST, 0));
    assert_eq!(
        (track.state(), track.ending()),
        (TrackState::Reset, Ending::Free)
    );

    let mut refused = Track::default();
    refused.from_client(&segment(7, 0, SYN, 0));
    refused.from_peer(&segment(0, 9, RST | ACK, 0));
    assert_eq!(refused.state(), TrackState::Opening);
    refused.from_peer(&segment(0, 8, RST | ACK, 0));
    assert_eq!(refused.state(), TrackState::Reset);
}

#[test]
fn a_server_begins_with_its_answer() {
    let mut track = Track::default();
    assert_eq!(track.ending(), Ending::Free);
    track.from_client(&segment(u32::MAX, 5001, SYN | ACK, 0));
    assert_eq!((track.client_next(), track.peer_next()), (0, 5001));
    track.from_peer(&segment(5001, 0, ACK, 100));
    assert_eq!((track.state(), track.peer_next()), (TrackState::Open, 5101));
}
