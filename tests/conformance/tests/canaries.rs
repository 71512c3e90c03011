//! Fabrics with a flaw: a suite that does not reject them checks nothing.

use barewire_conformance::fabrics::broken;
use barewire_conformance::fabrics::carriers::{self, Flawed};
use barewire_conformance::fabrics::private::Private;
use barewire_conformance::{
    carrier, doorbell, events, memory, must_fail, queue, transport, tripwire, waiting, window,
};

/// One test per flaw, with the suite and the case that must see it.
macro_rules! canaries {
    ($($test:ident: $flaw:ident, $suite:ident::$cases:ident, $case:literal;)*) => {
        $(#[test] fn $test() {
            type Flawed = Private<{ broken::$flaw }>;
            must_fail::<Flawed>(&$suite::$cases::<Flawed>(), $case);
        })*
    };
}

canaries! {
    unordered: UNORDERED, window::cases, "a_published_word_shows_what_was_stored_before";
    torn: TORN, window::cases, "words_are_whole";
    unbounded: UNBOUNDED, window::cases, "stores_outside_panic";
    late: LATE, window::cases, "stores_become_visible";
    late_for_the_fence: LATE, window::cases, "one_side_sees_the_others_store";
    unordered_queue: UNORDERED, queue::cases, "messages_of_any_size_arrive_in_order";
    no_credit: NO_CREDIT, queue::cases, "a_full_ring_refuses_and_credit_reopens_it";
    loses_bits: LOSES_BITS, doorbell::cases, "bits_set_at_once_all_stay";
    late_sleep: LATE_SLEEP, doorbell::cases, "a_ringer_sees_the_sleep_or_the_sleeper_the_ring";
    loses_sums: LOSES_SUMS, memory::cases, "additions_from_both_sides_all_count";
    ignores_rights: IGNORES_RIGHTS, memory::cases, "read_only_means_read_only";
    ignores_revocation: IGNORES_REVOCATION, memory::cases, "revocation_cuts_off";
    cuts_puts: CUTS_PUTS, memory::cases, "accesses_outside_are_refused";
    coarse: COARSE, tripwire::cases, "a_location_fires_and_its_neighbours_do_not";
    repeats: REPEATS, tripwire::cases, "a_one_shot_fires_once";
    repeats_the_count: REPEATS, tripwire::cases, "a_one_shot_counts_one";
    undead: UNDEAD, tripwire::cases, "disarmed_means_silent";
    early: EARLY, tripwire::cases, "bytes_are_there_when_it_is_told";
    silent_sums: SILENT_SUMS, waiting::cases, "every_kind_of_store_fires";
    coarse_for_waiters: COARSE, waiting::cases, "ranges_fire_where_they_overlap";
    tells_of_importers: TELLS_OF_IMPORTERS, waiting::cases, "only_the_owners_stores_fire";
    no_wake_for_waiters: DOES_NOT_WAKE, waiting::cases, "a_reader_who_waits_misses_nothing";
    undead_for_waiters: UNDEAD, waiting::cases, "disarmed_means_silent";
    not_coalesced: NOT_COALESCED, events::cases, "however_often_it_fires_it_is_told_once";
    forgets: FORGETS, events::cases, "no_one_is_forgotten";
    does_not_wake: DOES_NOT_WAKE, events::cases, "a_sleeper_is_woken_by_an_event";
    does_not_wake_in_turns: DOES_NOT_WAKE, events::cases, "no_wake_up_is_lost";
    swaps: SWAPS, transport::cases, "messages_of_any_size_arrive_in_order";
    merges: MERGES, transport::cases, "messages_of_any_size_arrive_in_order";
    loses_the_last: LOSES_THE_LAST, transport::cases, "everything_sent_arrives_before_the_end";
    silent: SILENT, transport::cases, "readiness_is_told";
    loses_bytes: LOSES_BYTES, transport::stream_cases, "bytes_arrive_in_order";
}

/// One test per flaw of a carrier, with the case that must see it.
macro_rules! carrier_canaries {
    ($($test:ident: $flaw:ident, $case:literal;)*) => {
        $(#[test] fn $test() {
            type Broken = Flawed<{ carriers::$flaw }>;
            must_fail::<Broken>(&carrier::cases::<Broken>(), $case);
        })*
    };
}

carrier_canaries! {
    carrier_swaps: SWAPS, "bytes_arrive_in_order_both_ways";
    carrier_without_bound: UNBOUNDED, "memory_is_bounded";
    carrier_without_end: ENDLESS, "the_end_comes_after_everything";
    carrier_that_dozes: DOZES, "a_sleeping_reader_is_woken";
    carrier_that_forgets: FORGETS, "a_mebibyte_arrives_in_whatever_pieces";
    carrier_that_never_sleeps: RESTLESS, "an_idle_side_sleeps";
    carrier_that_cuts: CUTS, "a_dropped_side_delivers_what_it_flushed";
    carrier_that_moves: MOVES, "the_descriptor_stays";
}

#[test]
#[should_panic(expected = "no case `nothing`")]
fn a_case_that_is_not_there_is_told() {
    must_fail::<Private<{ broken::SOUND }>>(
        &window::cases::<Private<{ broken::SOUND }>>(),
        "nothing",
    );
}

#[test]
#[should_panic(expected = "does not see what is wrong")]
fn a_sound_fabric_is_no_canary() {
    type Sound = Private<{ broken::SOUND }>;
    must_fail::<Sound>(&window::cases::<Sound>(), "lengths_are_as_asked");
}

#[test]
#[should_panic(expected = "checks nothing")]
fn an_empty_suite_is_none() {
    let _ = barewire_conformance::failures(&[]);
}
