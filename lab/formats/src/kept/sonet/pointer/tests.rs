//! The receiver of pointers, word by word.

use std::string::ToString;

use barewire_units::Graph;
use proptest::prelude::*;

use super::*;

/// A receiver for which `value` holds.
fn holding(value: u16) -> Receiver {
    let mut receiver = Receiver::new();
    for _ in 0..ACCEPT_FRAMES {
        receiver.receive(PointerWord::holding(value));
    }
    assert_eq!(receiver.value(), Some(value));
    receiver
}

const GO_ON: Action = Action::GoOn(Justification::None);

#[test]
fn the_states_are_those_of_the_table() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Loss --ThreeEqual--> Normal\n\
         Loss --ThreeAlarms--> Alarm\n\
         Normal --ThreeAlarms--> Alarm\n\
         Normal --EightInvalid--> Loss\n\
         Normal --EightNdf--> Loss\n\
         Alarm --ThreeEqual--> Normal\n\
         Alarm --Ndf--> Normal\n\
         Alarm --EightInvalid--> Loss\n"
    );
}

#[test]
fn words_stand_as_in_the_standard() {
    assert_eq!(PointerWord::holding(POINTER_NEXT_FRAME).get(), 0x620a);
    assert_eq!(PointerWord::jump(0).get(), 0x9000);
    assert_eq!(PointerWord::increment(0).get(), 0x62aa);
    assert_eq!(PointerWord::decrement(0).get(), 0x6155);
    assert!(PointerWord::CONCATENATION.is_concatenation());
    assert!(PointerWord::new(0x9bff).is_concatenation(), "SS of SDH");
    assert_eq!(PointerWord::jump(7).to_string(), "7, new");
    assert_eq!(PointerWord::holding(7).to_string(), "7");
}

#[test]
fn the_first_pointer_takes_three_frames() {
    let mut receiver = Receiver::new();
    let word = PointerWord::holding(100);
    assert_eq!(receiver.receive(word), Action::Nothing);
    assert_eq!(receiver.receive(PointerWord::jump(100)), Action::Nothing);
    assert_eq!(receiver.receive(word), Action::Nothing);
    assert_eq!(receiver.receive(word), Action::Nothing);
    assert_eq!(receiver.receive(word), Action::Jump(100));
    assert_eq!(receiver.receive(word), GO_ON);
}

#[test]
fn another_value_must_come_three_times() {
    let mut receiver = holding(100);
    for value in [300, 300, 301, 300, 300] {
        assert_eq!(receiver.receive(PointerWord::holding(value)), GO_ON);
    }
    let action = receiver.receive(PointerWord::holding(300));
    assert_eq!(action, Action::Jump(300));
    assert_eq!(receiver.value(), Some(300));
}

#[test]
fn a_new_value_with_ndf_holds_at_once() {
    let mut receiver = holding(100);
    for wrong_bit in [0, 0x8000, 0x4000, 0x2000, 0x1000] {
        let word = PointerWord::new(PointerWord::jump(7).get() ^ wrong_bit);
        assert_eq!(receiver.receive(word), Action::Jump(7));
        assert_eq!(receiver.receive(PointerWord::holding(7)), GO_ON);
    }
    for nth in 1..LOSS_FRAMES {
        let value = u16::from(nth);
        let action = receiver.receive(PointerWord::jump(value));
        assert_eq!(action, Action::Jump(value));
    }
    assert_eq!(receiver.receive(PointerWord::jump(8)), Action::Nothing);
    assert_eq!(receiver.state(), State::Loss);
}

#[test]
fn eight_invalid_words_lose_the_pointer_and_seven_do_not() {
    let invalid = PointerWord::holding(1000);
    let mut receiver = holding(100);
    for _ in 1..LOSS_FRAMES {
        assert_eq!(receiver.receive(invalid), GO_ON);
    }
    assert_eq!(receiver.receive(PointerWord::holding(100)), GO_ON);
    for _ in 1..LOSS_FRAMES {
        assert_eq!(receiver.receive(invalid), GO_ON);
    }
    assert_eq!(receiver.receive(invalid), Action::Nothing);
    assert_eq!((receiver.state(), receiver.value()), (State::Loss, None));
}

#[test]
fn all_ones_are_an_alarm_that_ndf_ends() {
    let alarm = PointerWord::new(0xffff);
    let mut receiver = holding(100);
    assert_eq!(receiver.receive(alarm), GO_ON);
    assert_eq!(receiver.receive(alarm), GO_ON);
    assert_eq!(receiver.receive(alarm), Action::Nothing);
    assert_eq!(receiver.state(), State::Alarm);
    assert_eq!(receiver.receive(PointerWord::jump(5)), Action::Jump(5));
    for _ in 0..ACCEPT_FRAMES {
        receiver.receive(alarm);
    }
    for _ in 0..LOSS_FRAMES {
        receiver.receive(PointerWord::new(0));
    }
    assert_eq!(receiver.state(), State::Loss);
}

/// Every value moves both ways, also over the ends, and with any two of its ten bits wrong.
#[test]
fn justifications_move_the_value_by_one() {
    for value in 0..POINTER_VALUES {
        let base = holding(value);
        let turns = (0..10).flat_map(|i| (0..=i).map(move |j| (1_u16 << i) | (1_u16 << j)));
        for wrong in turns.chain([0]) {
            for (word, justification, step) in [
                (PointerWord::increment(value), Justification::Positive, 1),
                (PointerWord::decrement(value), Justification::Negative, 782),
            ] {
                let word = PointerWord::new(word.get() ^ wrong);
                if word.get() == ALARM {
                    continue;
                }
                let mut receiver = base.clone();
                let action = receiver.receive(word);
                assert_eq!(action, Action::GoOn(justification), "{value} {wrong:x}");
                assert_eq!(receiver.value(), Some((value + step) % POINTER_VALUES));
            }
        }
    }
}

proptest! {
    /// A word with one wrong bit never moves anything.
    #[test]
    fn one_wrong_bit_does_nothing(value in 0..POINTER_VALUES, bit in 0..16) {
        let mut receiver = holding(value);
        let word = PointerWord::new(PointerWord::holding(value).get() ^ (1_u16 << bit));
        prop_assert_eq!(receiver.receive(word), GO_ON);
        prop_assert_eq!(receiver.receive(PointerWord::holding(value)), GO_ON);
        prop_assert_eq!(receiver.value(), Some(value));
    }

    #[test]
    fn any_words_leave_a_value_or_none(words in proptest::collection::vec(any::<u16>(), 0..200)) {
        let mut receiver = Receiver::new();
        for word in words {
            let action = receiver.receive(PointerWord::new(word));
            prop_assert_eq!(action == Action::Nothing, receiver.value().is_none());
            prop_assert!(receiver.value().is_none_or(|value| value < POINTER_VALUES));
        }
    }
}
