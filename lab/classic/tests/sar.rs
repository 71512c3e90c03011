//! Segmentation and reassembly: one suite for both reassemblers, the properties under
//! faults, and what is particular to the Penn interface.

#[path = "sar/bench.rs"]
mod bench;
#[path = "sar/drive.rs"]
mod drive;
#[path = "sar/faults.rs"]
mod faults;
#[path = "sar/penn.rs"]
mod penn;
#[path = "sar/segmenting.rs"]
mod segmenting;
#[path = "sar/suite.rs"]
mod suite;

/// Every test of the suite, for each reassembler.
macro_rules! for_both {
    ($($test:ident),+ $(,)?) => {
        mod of_the_pool {
            $(#[test] fn $test() { super::suite::$test::<barewire_classic::sar::Pool>(); })+
        }
        mod of_the_penn_interface {
            $(#[test] fn $test() { super::suite::$test::<barewire_classic::sar::penn::Penn>(); })+
        }
    };
}

for_both! {
    messages_of_every_length_arrive,
    the_longest_messages_arrive,
    an_empty_message_arrives_by_aal34_and_can_not_by_aal5,
    interleaved_messages_arrive,
    nothing_is_taken_that_is_not_for_us,
    every_cell_is_counted_as_it_comes,
    a_lost_cell_loses_its_message,
    a_doubled_cell_loses_its_message,
    exchanged_cells_lose_their_message,
    every_flipped_bit_is_found,
    the_table_of_circuits_has_its_size,
    the_table_of_open_messages_has_its_size,
    the_buffer_has_its_size,
    a_flushed_circuit_is_gone,
    a_flushed_message_is_gone,
    time_runs_out_for_each_message,
    no_deadline_without_a_time_out,
    an_aborted_message_is_reported,
    a_message_beyond_the_limit_is_given_up,
    wrong_lengths_and_tags_are_named,
}

#[test]
fn the_pool_holds_every_cell_that_came() {
    let mut bench = bench::Bench::<barewire_classic::sar::Pool>::new(bench::SIZES);
    let cells = bench::Sender::new(bench::AAL5).cells(&bench::text(400, 1));
    for (before, cell) in cells[..5].iter().enumerate() {
        bench.send(&[*cell]);
        assert_eq!(bench.reassembler.held_bytes(), (before + 1) * 48);
    }
}
