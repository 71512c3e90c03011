//! What card and switch promise, by themselves.

use barewire_classic::token::{Config, Role};
use barewire_formats::jetstream::link::Fill;
use barewire_units::{Duration, Instant, Rate};

use super::*;

fn us(us: u64) -> Instant {
    Instant::ORIGIN + Duration::from_us(us)
}

#[test]
fn a_card_hears_after_its_latency() {
    let config = CardConfig {
        station: Config::jetstream(Role::Host),
        latency: Duration::from_us(1),
        clocks: None,
        gap_words: 0,
    };
    let mut card = Card::new(config, us(0)).expect("a good configuration");
    assert_eq!(card.poll(), Some(Output::Line(Signal::Fill(Fill::Fw0))));
    assert_eq!(card.poll(), None);
    card.handle(us(5), Signal::Fill(Fill::Fw1));
    assert_eq!(card.next_deadline(), Some(us(6)));
    card.handle_timer(us(5));
    assert_eq!(card.poll(), None);
    card.handle_timer(us(6));
    assert_eq!(card.poll(), Some(Output::Line(Signal::Fill(Fill::Fw1))));
    assert!(!card.is_up());
    assert_eq!(card.rid(), None);
}

/// A large frame begins at 0, a priority frame comes at 10: by then 1 000 bytes of 8 000
/// have left a channel.
fn behind_a_large_frame(division: Division, suspend: bool) -> Vec<Departure> {
    let mut switch = Switch::new(SwitchConfig {
        ports: 8,
        channel: Rate::from_mbps(800),
        division,
        suspend,
        cut_through: false,
    });
    let packet = |id, bytes, priority, tail| Packet {
        id,
        output: 3,
        bytes,
        priority,
        tail,
    };
    switch.handle_frame(us(0), packet(1, 8_000, false, us(0)));
    switch.handle_frame(us(5), packet(2, 100, true, us(5)));
    let mut left = Vec::new();
    while let Some(deadline) = switch.next_deadline() {
        switch.handle_timer(deadline);
        left.extend(std::iter::from_fn(|| switch.poll()));
    }
    left
}

#[test]
fn a_priority_frame_waits_for_the_frame_before_it_or_suspends_it() {
    let departure = |id, began, ended| Departure { id, began, ended };
    assert_eq!(
        behind_a_large_frame(Division::Space, false),
        [departure(1, us(0), us(80)), departure(2, us(80), us(81))]
    );
    assert_eq!(
        behind_a_large_frame(Division::Space, true),
        [departure(2, us(5), us(6)), departure(1, us(0), us(81))]
    );
    let bus = behind_a_large_frame(Division::Bus, false);
    assert_eq!((bus[0].ended, bus[1].began), (us(10), us(10)));
}

/// On a channel cut-through saves the time of the frame; on the faster bus it only keeps the
/// bus from all others until the tail is there.
#[test]
fn cut_through_ends_with_the_tail() {
    let end = |division, cut_through| {
        let mut switch = Switch::new(SwitchConfig {
            ports: 8,
            channel: Rate::from_mbps(800),
            division,
            suspend: false,
            cut_through,
        });
        let packet = Packet {
            id: 1,
            output: 0,
            bytes: 8_000,
            priority: false,
            tail: us(80),
        };
        switch.handle_frame(us(0), packet);
        while let Some(deadline) = switch.next_deadline() {
            switch.handle_timer(deadline);
        }
        let departure = switch.poll().expect("it has left");
        (departure.began, departure.ended)
    };
    assert_eq!(end(Division::Space, false), (us(80), us(160)));
    assert_eq!(end(Division::Space, true), (us(0), us(80)));
    assert_eq!(end(Division::Bus, false), (us(80), us(90)));
    assert_eq!(end(Division::Bus, true), (us(0), us(80)));
}
