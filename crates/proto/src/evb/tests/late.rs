//! What comes too late: for an event, or for a builder that had to wait itself.

use super::*;

#[test]
fn a_pause_of_the_builder_does_not_count_for_events_that_are_open() {
    let mut builder = builder(None);
    builder.handle_assign(ms(0), 0);
    builder.handle_pause(Duration::from_ms(7));
    builder.handle_assign(ms(8), 1);
    builder.handle_time(ms(16));
    assert_eq!(builder.poll_action(), None);
    assert_eq!(builder.next_deadline(), Some(ms(17)));
    builder.handle_time(ms(17));
    assert_eq!(
        (builder.account().events_incomplete, builder.open_events()),
        (1, 1)
    );
    builder.handle_time(ms(18));
    assert_eq!(
        (builder.account().events_incomplete, builder.open_events()),
        (2, 0)
    );
}

/// What a builder that waits no longer wants done, in the order in which it says it.
fn withdrawn(builder: &mut Builder) -> Vec<(u16, u64)> {
    let withdrawn = |action| match action {
        BuilderAction::Withdraw { source, event } => Some((source.0, event)),
        _ => None,
    };
    core::iter::from_fn(|| builder.poll_action())
        .filter_map(withdrawn)
        .collect()
}

#[test]
fn a_granted_fragment_that_comes_too_late_stays_with_its_source() {
    let mut builder = builder(Some(2));
    builder.handle_assign(ms(0), 0);
    builder.handle_fragment(ms(1), fragment(0, 0, 0));
    builder.handle_time(ms(10));
    // Source 1 was granted, source 2 as well when 0 had sent.
    assert_eq!(withdrawn(&mut builder), [(1, 0), (2, 0)]);

    let mut source = source(1, Flow::Credits);
    for event in 0..3 {
        source.offer(event, 2_500).expect("there is room");
        source.handle_assign(event, BuilderId(0), None);
        source.handle_grant(event);
    }
    // Of event 0 a piece has gone already; event 1 is dropped; event 2 goes on.
    assert!(
        source
            .transmit(us(0))
            .is_some_and(|it| it.event == 0 && !it.ends())
    );
    source.handle_withdrawn(0);
    source.handle_withdrawn(1);
    let sent: Vec<_> = core::iter::from_fn(|| source.transmit(us(0)))
        .map(|it| it.event)
        .collect();
    assert_eq!((sent.first(), sent.last()), (Some(&0), Some(&2)));
    assert!(!sent.contains(&1));
    let account = source.account();
    assert_eq!(
        (account.sent, account.dropped.withdrawn, account.queued),
        (2, 1, 0)
    );
}
