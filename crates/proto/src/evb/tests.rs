//! The tables, the rules one at a time, and whole runs over a network that loses.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use barewire_units::{ByteSize, Duration, Graph, Instant, Rate};

use super::*;

mod any_calls;
mod late;
mod swarm;

const MS: Duration = Duration::from_ms(1);

fn ms(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_ms(ms)
}

fn us(us: u64) -> Instant {
    Instant::ORIGIN + Duration::from_us(us)
}

fn source(id: u16, flow: Flow) -> Source {
    let config = SourceConfig {
        id: SourceId(id),
        buffer_bytes: 10_000,
        full: WhenFull::Block,
        piece_bytes: 1_000,
        overhead_bytes: 0,
        flow,
    };
    Source::new(config).expect("a good configuration")
}

fn builder(credits: Option<u32>) -> Builder {
    Builder::new(BuilderConfig {
        id: BuilderId(0),
        run: 1,
        sources: 3,
        timeout: Duration::from_ms(10),
        credits,
        pull: None,
        remembered_events: 2,
    })
}

fn fragment(event: u64, source: u16, sequence: u64) -> Fragment {
    Fragment {
        run: 1,
        event,
        source: SourceId(source),
        sequence,
        bytes: 100,
        intact: true,
    }
}

fn manager(policy: Policy) -> Manager {
    let config = ManagerConfig {
        sources: 3,
        builders: 3,
        policy,
        window: None,
        backlog: 4,
        schedule: None,
        liveness: Duration::from_ms(1_000),
        goes_on: true,
    };
    started(config)
}

fn started(config: ManagerConfig) -> Manager {
    let mut manager = Manager::new(config, ms(0));
    for command in [Command::Configure, Command::Start] {
        manager.command(ms(0), command).expect("in this order");
    }
    while manager.poll_action().is_some() {}
    manager
}

fn triggers(manager: &mut Manager, count: u32, at_ms: u64) {
    for _ in 0..count {
        manager.trigger(ms(at_ms)).expect("it runs");
    }
}

fn builders_of(manager: &mut Manager) -> Vec<u16> {
    let actions = core::iter::from_fn(|| manager.poll_action());
    let assigned = actions.filter_map(|action| match action {
        ManagerAction::Assign { builder, .. } => Some(builder.0),
        _ => None,
    });
    assigned.collect()
}

#[test]
fn the_run_control_is_this() {
    let table = "\
Idle --Configure--> Configured
Configured --Configure--> Configured
Configured --Start--> Running
Running --Pause--> Paused
Running --Drain--> Draining
Running --Abort--> Configured
Running --Fail--> Failed
Paused --Resume--> Running
Paused --Drain--> Draining
Paused --Abort--> Configured
Paused --Fail--> Failed
Draining --Drained--> Configured
Draining --Abort--> Configured
Draining --Fail--> Failed
Failed --Configure--> Configured
";
    assert_eq!(Graph::<RunState>::new().to_string(), table);
}

#[test]
fn a_command_out_of_place_is_refused_and_a_drained_run_ends() {
    let mut manager = manager(Policy::RoundRobin);
    let refused = manager.command(ms(0), Command::Start).expect_err("it runs");
    assert_eq!(
        refused.to_string(),
        "Start is not possible in state Running"
    );
    assert!(manager.command(ms(0), Command::Drained).is_err());
    let event = manager.trigger(ms(1)).expect("it runs");
    manager.command(ms(1), Command::Pause).expect("it runs");
    let paused = Err(Refused::NotRunning(RunState::Paused));
    assert_eq!(manager.trigger(ms(1)), paused);
    manager
        .command(ms(2), Command::Drain)
        .expect("it is paused");
    assert_eq!(manager.state(), RunState::Draining);
    let outcome = Outcome {
        expected: 3,
        present: 2,
    };
    manager.handle_close(ms(3), BuilderId(0), event, outcome);
    assert_eq!(manager.state(), RunState::Configured);
    let account = manager.account();
    assert_eq!(
        (account.incomplete, account.missing, account.refused),
        (1, 1, 1)
    );
    assert_eq!(account.balance(), Ok(()));
    // A second word about the same event is not believed.
    manager.handle_close(ms(4), BuilderId(0), event, outcome);
    assert_eq!(manager.account().stale_closes, 1);
}

#[test]
fn policies_choose_as_they_say() {
    let outcome = Outcome {
        expected: 3,
        present: 3,
    };
    let mut turn = manager(Policy::RoundRobin);
    triggers(&mut turn, 5, 0);
    assert_eq!(builders_of(&mut turn), [0, 1, 2, 0, 1]);
    turn.handle_lost(ms(1), Part::Builder(BuilderId(2)));
    triggers(&mut turn, 3, 1);
    assert_eq!(builders_of(&mut turn), [0, 1, 0]);

    let mut load = manager(Policy::LeastLoaded);
    triggers(&mut load, 4, 0);
    load.handle_close(ms(1), BuilderId(2), 2, outcome);
    load.handle_close(ms(1), BuilderId(1), 1, outcome);
    triggers(&mut load, 3, 1);
    assert_eq!(builders_of(&mut load), [0, 1, 2, 0, 1, 2, 1]);

    let mut pulled = manager(Policy::Pulled);
    triggers(&mut pulled, 4, 0);
    assert_eq!(pulled.trigger(ms(0)), Err(Refused::Backlog(4)));
    pulled.handle_request(ms(1), BuilderId(2), 2);
    pulled.handle_request(ms(1), BuilderId(0), 1);
    assert_eq!(builders_of(&mut pulled), [2, 2, 0]);
    pulled.handle_request(ms(1), BuilderId(1), u32::MAX);
    assert_eq!(builders_of(&mut pulled), [1]);

    let hash = || {
        let mut hash = manager(Policy::Hash);
        triggers(&mut hash, 300, 0);
        builders_of(&mut hash)
    };
    let chosen = hash();
    assert_eq!(chosen, hash());
    let of = |builder| chosen.iter().filter(|&&it| it == builder).count();
    assert!((0..3).all(|builder| (70..130).contains(&of(builder))));
}

#[test]
fn a_window_bounds_what_is_in_flight_and_a_schedule_sets_starts_apart() {
    let config = ManagerConfig {
        window: Some(2),
        ..manager(Policy::RoundRobin).config()
    };
    let mut window = started(config);
    triggers(&mut window, 4, 0);
    assert_eq!(builders_of(&mut window).len(), 2);
    let outcome = Outcome {
        expected: 3,
        present: 3,
    };
    window.handle_close(ms(1), BuilderId(0), 0, outcome);
    assert_eq!(
        (window.account().in_flight, window.account().waiting),
        (2, 1)
    );

    let schedule = Schedule {
        slot: MS,
        lead: Duration::from_ms(5),
    };
    let mut starts = started(ManagerConfig {
        builders: 2,
        schedule: Some(schedule),
        ..config_without_window()
    });
    triggers(&mut starts, 4, 0);
    let actions = core::iter::from_fn(|| starts.poll_action());
    let starts: Vec<_> = actions
        .filter_map(|action| match action {
            ManagerAction::Assign { start, .. } => start,
            _ => None,
        })
        .collect();
    // Three sources, two builders: each builder takes three slots for an event.
    assert_eq!(starts, [ms(5), ms(6), ms(8), ms(9)]);
}

fn config_without_window() -> ManagerConfig {
    manager(Policy::RoundRobin).config()
}

#[test]
fn who_is_not_heard_of_is_lost_within_the_time_and_may_come_back() {
    let mut manager = manager(Policy::RoundRobin);
    let silent = Part::Builder(BuilderId(1));
    triggers(&mut manager, 3, 0);
    assert_eq!(manager.next_deadline(), Some(ms(1_000)));
    for id in 0..3 {
        manager.handle_alive(ms(900), Part::Source(SourceId(id)));
        if id != 1 {
            manager.handle_alive(ms(900), Part::Builder(BuilderId(id)));
        }
    }
    builders_of(&mut manager);
    manager.handle_time(ms(1_000));
    assert_eq!(manager.poll_action(), Some(ManagerAction::Lost(silent)));
    assert!(!manager.counts_on(silent) && manager.account().abandoned == 1);
    assert_eq!(manager.account().balance(), Ok(()));
    manager.handle_alive(ms(1_100), silent);
    assert_eq!(
        manager.poll_action(),
        Some(ManagerAction::Joined(silent, 3))
    );
    // One that had said that it is busy is waited for longer.
    let busy = Part::Source(SourceId(0));
    manager.handle_busy(ms(1_200), busy, Duration::from_ms(5_000));
    manager.handle_time(ms(7_199));
    assert!(manager.counts_on(busy));
    manager.handle_time(ms(7_200));
    assert!(!manager.counts_on(busy));
    // A source comes back while an event waits that it has no part of.
    let source = Part::Source(SourceId(2));
    let mut manager = started(ManagerConfig {
        window: Some(1),
        ..config_without_window()
    });
    manager.handle_lost(ms(0), source);
    triggers(&mut manager, 2, 0);
    manager.handle_alive(ms(1), source);
    let outcome = Outcome {
        expected: 2,
        present: 2,
    };
    manager.handle_close(ms(2), BuilderId(0), 0, outcome);
    let said: Vec<_> = core::iter::from_fn(|| manager.poll_action()).collect();
    assert_eq!(said.first(), Some(&ManagerAction::Lost(source)));
    assert_eq!(said.last(), Some(&ManagerAction::Joined(source, 2)));
}

#[test]
fn a_run_that_must_not_go_on_fails_with_everything_accounted_for() {
    let mut manager = started(ManagerConfig {
        goes_on: false,
        ..config_without_window()
    });
    triggers(&mut manager, 3, 0);
    manager.handle_lost(ms(1), Part::Source(SourceId(0)));
    assert_eq!(manager.state(), RunState::Failed);
    assert_eq!(manager.account().aborted, 3);
    assert_eq!(manager.account().balance(), Ok(()));
}

#[test]
fn a_barrel_gives_every_pair_its_turn_and_no_builder_two_sources() {
    for (sources, builders) in [(4, 4), (5, 3), (3, 5), (1, 1)] {
        let period = Barrel::period_for(sources, builders);
        let barrel = Barrel {
            builders,
            period,
            epoch: ms(1),
            slot: MS,
            rate: Rate::from_gbps(1),
        };
        assert_eq!(barrel.turn(SourceId(0), us(999)).builder, None);
        let mut pairs = std::collections::BTreeSet::new();
        for slot in 0..u64::from(period) {
            let now = ms(1 + slot) + Duration::from_us(400);
            let mut taken = Vec::new();
            for source in 0..sources {
                let turn = barrel.turn(SourceId(source), now);
                assert_eq!(turn.ends, ms(2 + slot));
                assert_eq!(barrel.room(&turn, now), 75_000);
                if let Some(builder) = turn.builder {
                    assert!(!taken.contains(&builder));
                    taken.push(builder);
                    pairs.insert((source, builder));
                }
            }
        }
        assert_eq!(pairs.len(), usize::from(sources) * usize::from(builders));
    }
}

#[test]
fn a_source_sends_what_is_assigned_in_pieces_and_refuses_what_does_not_fit() {
    let mut source = source(0, Flow::Free);
    source.handle_assign(1, BuilderId(1), None);
    assert_eq!(source.offer(0, 4_000), Ok(Offered::Queued));
    assert_eq!(source.offer(1, 1_500), Ok(Offered::Queued));
    assert!(matches!(source.offer(1, 1), Err(Unoffered::Order { .. })));
    assert!(matches!(
        source.offer(2, 5_000),
        Err(Unoffered::Full { .. })
    ));
    assert_eq!(source.offer(2, 10_001), Ok(Offered::DroppedTooLarge));
    let mut sent = Vec::new();
    while let Some(piece) = source.transmit(us(0)) {
        sent.push((piece.event, piece.offset, piece.bytes, piece.ends()));
    }
    assert_eq!(sent, [(1, 0, 1_000, false), (1, 1_000, 500, true)]);
    assert_eq!(source.next_deadline(), None);
    // The oldest first, and nothing for a builder whose transport is full.
    source.handle_assign(0, BuilderId(0), None);
    source.handle_full(BuilderId(0));
    assert_eq!(source.transmit(us(1)), None);
    source.handle_room(BuilderId(0));
    assert_eq!(source.transmit(us(1)).map(|it| it.event), Some(0));
    // Its builder is lost half way.
    source.handle_lost(BuilderId(0));
    assert_eq!(source.transmit(us(2)), None);
    let account = source.account();
    assert_eq!((account.offered, account.sent, account.queued), (3, 1, 0));
    assert_eq!(
        (account.dropped.builder_lost, account.dropped.total()),
        (1, 2)
    );
    assert_eq!(account.balance(), Ok(()));
}

#[test]
fn a_source_may_drop_with_account() {
    let config = SourceConfig {
        full: WhenFull::Drop,
        ..source(0, Flow::Free).config()
    };
    let mut source = Source::new(config).expect("a good configuration");
    assert_eq!(source.offer(0, 8_000), Ok(Offered::Queued));
    assert_eq!(source.offer(1, 8_000), Ok(Offered::DroppedFull));
    source.handle_assign(1, BuilderId(0), None);
    source.handle_assign(2, BuilderId(1), None);
    source.handle_lost(BuilderId(1));
    assert_eq!(source.offer(2, 1), Ok(Offered::DroppedBuilderLost));
    source.abort();
    assert_eq!(source.offer(3, 1), Ok(Offered::DroppedAborted));
    assert_eq!(source.account().dropped.total(), 4);
    assert_eq!(source.account().balance(), Ok(()));
    assert_eq!(source.queued_bytes(), 0);
}

/// As many as would take minutes if an offer looked at everything that waits.
#[test]
fn what_came_before_its_fragment_is_found_in_any_backlog() {
    const EVENTS: u64 = 200_000;
    let mut source = source(0, Flow::Credits);
    for event in 0..EVENTS {
        // Two are told of early; of the odd ones the fragment never comes.
        source.handle_assign(2 * event, BuilderId(0), None);
        source.handle_assign(2 * event + 1, BuilderId(0), None);
        source.handle_grant(2 * event + 1);
        assert_eq!(source.offer(2 * event, 0), Ok(Offered::Queued));
    }
    assert_eq!(source.account().queued, EVENTS);
    // Forgotten: they are older than the last that was offered.
    source.handle_grant(1);
    assert_eq!(source.transmit(ms(0)), None);
    source.handle_grant(2 * EVENTS - 2);
    let piece = source.transmit(ms(0)).expect("granted");
    assert_eq!((piece.event, piece.sequence), (2 * EVENTS - 2, 0));
    source.abort();
    assert_eq!(source.account().dropped.aborted, EVENTS - 1);
    source.account().balance().expect("balanced");
}

#[test]
fn a_shaped_source_sends_at_the_rate_to_each_builder() {
    let mut source = source(
        0,
        Flow::Shaped {
            rate: Rate::from_mbps(8),
            burst: ByteSize::from_bytes(1_000),
        },
    );
    for event in 0..6 {
        source.offer(event, 1_000).expect("there is room");
        source.handle_assign(event, BuilderId((event % 2) as u16), None);
    }
    let mut sent = Vec::new();
    let mut now = us(0);
    loop {
        while let Some(piece) = source.transmit(now) {
            sent.push((piece.event, now.since_origin().as_us()));
        }
        match source.next_deadline() {
            Some(at) => now = at,
            None => break,
        }
    }
    let expected = [
        (0, 0),
        (1, 0),
        (2, 1_000),
        (3, 1_000),
        (4, 2_000),
        (5, 2_000),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_source_keeps_to_its_slots_grants_and_starts() {
    let barrel = Barrel {
        builders: 2,
        period: 2,
        epoch: us(0),
        slot: Duration::from_us(10),
        rate: Rate::from_gbps(1),
    };
    let mut turns = source(1, Flow::Barrel(barrel));
    turns.offer(0, 2_000).expect("there is room");
    turns.handle_assign(0, BuilderId(0), None);
    // A piece takes 8 us; in its slot there is time for one.
    assert_eq!(turns.transmit(us(0)), None);
    assert_eq!(turns.next_deadline(), Some(us(10)));
    assert!(turns.transmit(us(12)).is_some() && turns.transmit(us(20)).is_none());
    assert_eq!(turns.transmit(us(33)), None);
    assert!(turns.transmit(us(52)).is_some_and(|piece| piece.ends()));

    let mut granted = source(0, Flow::Credits);
    granted.handle_grant(1);
    for event in 0..2 {
        granted.offer(event, 10).expect("there is room");
        granted.handle_assign(event, BuilderId(0), None);
    }
    assert_eq!(granted.transmit(us(0)).map(|it| it.event), Some(1));
    assert_eq!(granted.transmit(us(0)), None);

    let slot = Duration::from_us(7);
    let mut scheduled = source(2, Flow::Scheduled { slot });
    scheduled.offer(0, 10).expect("there is room");
    scheduled.handle_assign(0, BuilderId(0), Some(us(100)));
    assert_eq!(scheduled.transmit(us(100)), None);
    assert_eq!(scheduled.next_deadline(), Some(us(114)));
    assert!(scheduled.transmit(us(114)).is_some());
}

#[test]
fn what_could_never_be_sent_is_no_configuration() {
    let new = |flow, piece_bytes| {
        let config = SourceConfig {
            flow,
            piece_bytes,
            overhead_bytes: 38,
            ..source(3, Flow::Free).config()
        };
        Source::new(config).map(drop).expect_err("no such source")
    };
    assert!(matches!(new(Flow::Free, 0), ConfigError::Piece { .. }));
    let shaped = Flow::Shaped {
        rate: Rate::from_mbps(1),
        burst: ByteSize::from_bytes(1_000),
    };
    assert!(matches!(new(shaped, 1_000), ConfigError::Burst { .. }));
    let barrel = |period, slot_us| {
        Flow::Barrel(Barrel {
            builders: 4,
            period,
            epoch: us(0),
            slot: Duration::from_us(slot_us),
            rate: Rate::from_gbps(1),
        })
    };
    assert!(matches!(new(barrel(4, 8), 1_000), ConfigError::Slot { .. }));
    assert!(matches!(
        new(barrel(3, 80), 1_000),
        ConfigError::Period { .. }
    ));
}

#[test]
fn a_builder_tells_every_fate() {
    let mut builder = builder(None);
    builder.handle_assign(ms(0), 0);
    let mut fate = |at, fragment| builder.handle_fragment(ms(at), fragment);
    assert_eq!(fate(0, fragment(0, 0, 0)), Fate::Accepted);
    assert_eq!(fate(1, fragment(0, 0, 0)), Fate::Duplicate);
    let spoilt = Fragment {
        intact: false,
        ..fragment(0, 1, 0)
    };
    assert_eq!(fate(1, spoilt), Fate::Corrupt);
    assert_eq!(fate(1, fragment(0, 3, 0)), Fate::Foreign);
    assert_eq!(fate(1, fragment(0, 1, 5)), Fate::Accepted);
    // Before its assignment, which never comes.
    assert_eq!(fate(2, fragment(7, 1, 2)), Fate::Accepted);
    builder.handle_time(ms(12));
    let missing = BuilderAction::Incomplete {
        event: 0,
        missing: vec![SourceId(2)],
        after: Duration::from_ms(12),
    };
    assert_eq!(builder.poll_action(), Some(missing));
    let late = builder.handle_fragment(ms(13), fragment(0, 2, 0));
    let copy = builder.handle_fragment(ms(13), fragment(0, 2, 0));
    assert_eq!((late, copy), (Fate::Late, Fate::Duplicate));
    for event in 1..4 {
        builder.handle_assign(ms(13), event);
        for source in 0..3 {
            builder.handle_fragment(ms(13), fragment(event, source, event));
        }
    }
    assert_eq!(
        builder.handle_fragment(ms(14), fragment(0, 2, 0)),
        Fate::Stale
    );
    let account = builder.account();
    assert_eq!(account.balance_closed(), Ok(()));
    assert_eq!((account.events_built, account.events_incomplete), (3, 1));
    assert_eq!(
        (account.unassigned, account.gaps, account.out_of_sequence),
        (1, 5, 4)
    );
    assert_eq!(account.missing_by_source, [0, 0, 1]);
}

#[test]
fn an_event_does_not_wait_for_the_dead() {
    let mut builder = builder(Some(2));
    builder.handle_assign(ms(0), 4);
    let mut grants = Vec::new();
    let mut closed = Vec::new();
    let mut drain = |builder: &mut Builder| {
        while let Some(action) = builder.poll_action() {
            match action {
                BuilderAction::Grant { source, event } => grants.push((event, source.0)),
                BuilderAction::Close { event, outcome } => closed.push((event, outcome.present)),
                _ => {}
            }
        }
    };
    drain(&mut builder);
    builder.handle_lost(ms(1), SourceId(1));
    drain(&mut builder);
    builder.handle_fragment(ms(1), fragment(4, 2, 0));
    builder.handle_fragment(ms(1), fragment(4, 0, 0));
    builder.handle_assign(ms(2), 5);
    drain(&mut builder);
    // Who came back is waited for in the events after that.
    builder.handle_joined(SourceId(1));
    builder.handle_assign(ms(3), 6);
    for source in [0, 2] {
        builder.handle_fragment(ms(3), fragment(5, source, 1));
        builder.handle_fragment(ms(3), fragment(6, source, 2));
    }
    drain(&mut builder);
    assert_eq!(
        grants,
        [
            (4, 1),
            (4, 2),
            (4, 0),
            (5, 2),
            (5, 0),
            (6, 0),
            (6, 1),
            (6, 2)
        ]
    );
    assert_eq!(closed, [(4, 2), (5, 2)]);
    builder.abandon(ms(4));
    assert_eq!(builder.account().balance_closed(), Ok(()));
    assert_eq!(builder.account().events_abandoned, 1);
}

#[test]
fn a_ledger_that_does_not_balance_says_where() {
    let mut ledger = Ledger {
        sources: vec![SourceAccount {
            offered: 3,
            sent: 2,
            ..SourceAccount::default()
        }],
        ..Ledger::default()
    };
    let error = ledger.balance().expect_err("one is missing");
    assert_eq!(
        error.to_string(),
        "fragments offered to a source: 3 on one side, 2 on the other"
    );
    ledger.sources[0].dropped.full = 1;
    assert_eq!(ledger.balance(), Ok(()));
    assert_eq!(ledger.lost_on_the_way(), Some(2));
    ledger.events.built = 1;
    ledger.events.triggered = 1;
    assert!(ledger.balance().is_err());
}

#[test]
fn an_event_that_stays_open_does_not_hold_up_the_deadlines_behind_it() {
    let mut builder = builder(None);
    builder.handle_assign(ms(0), 0);
    // More than are kept without asking which of them still count.
    for event in 1..4_000 {
        builder.handle_assign(us(event), event);
        for source in 0..3 {
            let fate = builder.handle_fragment(us(event), fragment(event, source, event));
            assert_eq!(fate, Fate::Accepted);
        }
    }
    builder.handle_assign(ms(5), 4_000);
    builder.handle_fragment(ms(6), fragment(4_001, 0, 4_001));
    while builder.poll_action().is_some() {}
    for (deadline, left) in [(ms(10), 2), (ms(15), 1), (ms(16), 0)] {
        assert_eq!(builder.next_deadline(), Some(deadline));
        builder.handle_time(deadline);
        assert_eq!(builder.open_events(), left);
    }
    assert_eq!(builder.next_deadline(), None);
    let account = builder.account();
    assert_eq!(
        (account.events_built, account.events_incomplete),
        (3_999, 2)
    );
    assert_eq!((account.unassigned, account.balance_closed()), (1, Ok(())));
}

#[test]
fn of_many_sources_those_that_are_missing_are_named() {
    let mut builder = Builder::new(BuilderConfig {
        sources: 130,
        ..builder(None).config()
    });
    builder.handle_assign(ms(0), 7);
    for source in (0..130).filter(|it| ![63, 64, 129].contains(it)) {
        builder.handle_fragment(ms(0), fragment(7, source, 0));
    }
    assert_eq!(
        builder.handle_fragment(ms(0), fragment(7, 128, 1)),
        Fate::Duplicate
    );
    builder.handle_lost(ms(1), SourceId(64));
    builder.handle_time(ms(10));
    let missing = [63, 64, 129].map(SourceId).to_vec();
    let said = builder.poll_action();
    assert!(
        matches!(&said, Some(BuilderAction::Incomplete { missing: it, .. }) if *it == missing),
        "{said:?}"
    );
}

#[test]
fn what_sources_lack_takes_no_credits_from_what_they_have() {
    // Events 0 to 9 have no fragments; more grants than credits would be missed for them.
    let mut builder = builder(Some(4));
    let mut sources: Vec<_> = (0..3).map(|id| source(id, Flow::Credits)).collect();
    for core in &mut sources {
        (0..10).for_each(|event| core.lack(event));
        core.offer(10, 100).expect("there is room");
    }
    for event in 0..=10 {
        builder.handle_assign(ms(1), event);
        for core in &mut sources {
            core.handle_assign(event, BuilderId(0), None);
        }
    }
    let (mut built, mut incomplete) = (Vec::new(), Vec::new());
    // Nothing takes any time: no timeout may be needed.
    loop {
        let before = (built.len(), incomplete.len());
        for (id, core) in (0..).zip(&mut sources) {
            while let Some((to, event)) = core.poll_lack() {
                assert_eq!(to, BuilderId(0));
                builder.handle_lack(ms(1), event, SourceId(id));
            }
            while let Some(piece) = core.transmit(ms(1)) {
                builder.handle_fragment(ms(1), fragment(piece.event, id, piece.sequence));
            }
        }
        while let Some(action) = builder.poll_action() {
            match action {
                BuilderAction::Grant { source, event } => {
                    sources[usize::from(source.0)].handle_grant(event);
                }
                BuilderAction::Built { event, .. } => built.push(event),
                BuilderAction::Incomplete { event, missing, .. } => {
                    assert_eq!(missing.len(), 3);
                    incomplete.push(event);
                }
                _ => {}
            }
        }
        if (built.len(), incomplete.len()) == before && builder.open_events() == 0 {
            break;
        }
        assert!(
            (built.len(), incomplete.len()) != before || sources[0].account().queued > 0,
            "{built:?} built, {incomplete:?} incomplete"
        );
    }
    assert_eq!(built, [10]);
    assert_eq!(incomplete, (0..10).collect::<Vec<_>>());
    for core in &sources {
        assert_eq!((core.account().sent, core.account().queued), (1, 0));
    }
    builder.account().balance().expect("a balance");
}

#[test]
fn an_event_waits_for_those_that_do_not_lack_it() {
    let mut builder = builder(None);
    // Before the assignment, as fragments may be.
    builder.handle_lack(ms(1), 5, SourceId(0));
    builder.handle_assign(ms(1), 5);
    builder.handle_fragment(ms(2), fragment(5, 1, 0));
    assert_eq!(builder.open_events(), 1, "source 2 may still send");
    builder.handle_fragment(ms(3), fragment(5, 2, 0));
    assert_eq!(builder.open_events(), 0);
    let account = builder.account();
    assert_eq!((account.events_incomplete, account.missing), (1, 1));
    assert_eq!(account.missing_by_source, [1, 0, 0]);
    account.balance().expect("a balance");
}
