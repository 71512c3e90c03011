//! State machines as tables that draw themselves.
//!
//! A protocol core declares its states and events as plain enums and its
//! transitions once, with [`transitions!`](crate::transitions); code, documentation and test read
//! the same table. A pair that the table does not name is not a transition: the
//! core decides what that means (ignored, or an error that names both).
//!
//! ```
//! use barewire_units::{Graph, Machine, transitions};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//! enum Station { Waiting, Holding }
//! #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//! enum Event { TokenArrives, TimerExpires }
//!
//! transitions! {
//!     Station on Event {
//!         Waiting + TokenArrives => Holding,
//!         Holding + TimerExpires => Waiting,
//!     }
//! }
//!
//! assert_eq!(Station::Waiting.on(Event::TokenArrives), Some(Station::Holding));
//! assert_eq!(Station::Waiting.on(Event::TimerExpires), None);
//! assert_eq!(
//!     Graph::<Station>::new().to_string(),
//!     "Waiting --TokenArrives--> Holding\nHolding --TimerExpires--> Waiting\n"
//! );
//! ```

use core::fmt;
use core::marker::PhantomData;

/// A state whose transitions are a table; implemented by [`transitions!`](crate::transitions).
pub trait Machine: Copy + Eq + fmt::Debug + 'static {
    /// What can happen to it.
    type Event: Copy + Eq + fmt::Debug + 'static;
    /// Every transition: from, event, to.
    const TRANSITIONS: &'static [(Self, Self::Event, Self)];

    /// The state after `event`, or `None` where the table has no such transition.
    #[must_use]
    fn on(self, event: Self::Event) -> Option<Self> {
        Self::TRANSITIONS
            .iter()
            .find(|&&(from, on, _)| from == self && on == event)
            .map(|&(_, _, to)| to)
    }
}

/// The table of a machine as text, one transition a line: for documents, and for
/// the test that holds the table still.
pub struct Graph<M> {
    machine: PhantomData<M>,
}

impl<M> Graph<M> {
    /// The graph of `M`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            machine: PhantomData,
        }
    }
}

impl<M> Default for Graph<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> fmt::Display for Graph<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        M::TRANSITIONS
            .iter()
            .try_for_each(|(from, on, to)| writeln!(f, "{from:?} --{on:?}--> {to:?}"))
    }
}

/// Declares the transitions of a state enum, and gives it `on(event)`, which is
/// `const` and compiles to a match. A pair given twice is a compiler warning.
#[macro_export]
macro_rules! transitions {
    ($state:ident on $event:ident { $($from:ident + $on:ident => $to:ident),+ $(,)? }) => {
        impl $crate::Machine for $state {
            type Event = $event;
            const TRANSITIONS: &'static [(Self, $event, Self)] =
                &[$(($state::$from, $event::$on, $state::$to)),+];
        }

        impl $state {
            /// The state after `event`, or `None` where there is no such transition.
            #[must_use]
            pub const fn on(self, event: $event) -> Option<Self> {
                #[allow(unreachable_patterns, reason = "a full table leaves nothing over")]
                match (self, event) {
                    $(($state::$from, $event::$on) => Some($state::$to),)+
                    _ => None,
                }
            }
        }
    };
}
