//! Event building: N sources hold a fragment of each event, and all fragments of an event
//! must meet in one of M builders.
//!
//! | part | decides | file |
//! |---|---|---|
//! | [`Manager`] | which builder gets an event and when, who is alive, the state of the run | `manager.rs` |
//! | [`Source`] | which fragment goes next, and how much of it | `source.rs` |
//! | [`Builder`] | which event is built or given up, and who may send to it | `builder.rs` |
//! | [`Ledger`] | whether every fragment is accounted for | `ledger.rs` |
//!
//! # Who tells whom
//!
//! ```text
//! trigger -> Manager     an event exists; its number, or why not: back-pressure
//! detector -> Source     the fragment of an event
//! Manager -> Source, Builder   Assign, Lost, Joined, Enter
//! Builder -> Source      Grant, Withdraw (credits)
//! Source -> Builder      fragments, in pieces; Lack: there will be none
//! Builder -> Manager     Close: built or incomplete; Request (policy of pulled events)
//! all -> Manager         alive, at least every `liveness`
//! ```
//!
//! What the manager says to one part must arrive there in order and whole, and so must what
//! builders say; fragments may be lost, doubled, spoilt, reordered and late. Each part keeps
//! an account that balances by itself, whatever the others do, so that the death of one
//! leaves no hole: what a dead builder held, the manager accounts for.
//!
//! # Flow control
//!
//! | [`Flow`] | a source sends a fragment | what bounds the queue at a builder |
//! |---|---|---|
//! | `Free` | once its builder is known | the transport, or [`ManagerConfig::window`] |
//! | `Shaped` | at the rate of a token bucket for each builder | rate x sources |
//! | `Barrel` | in the slot in which it is this source's turn at that builder | one fragment |
//! | `Credits` | once the builder has granted it | [`BuilderConfig::credits`] fragments |
//! | `Scheduled` | at the start that the manager set, a slot after the source before it | one fragment |
//!
//! # Run control
//!
//! | state | command | next |
//! |---|---|---|
//! | Idle | Configure | Configured |
//! | Configured | Start; Configure | Running; Configured |
//! | Running | Pause; Drain | Paused; Draining |
//! | Paused | Resume; Drain | Running; Draining |
//! | Draining | nothing is left | Configured |
//! | Running, Paused, Draining | Abort | Configured, all that is left accounted as aborted |
//! | Running, Paused, Draining | a part is lost, and the run must not go on | Failed, the same |
//! | Failed | Configure | Configured |
//!
//! Source: kek00 (the problem), and the practice of CMS (events asked for by builders), ALICE (tokens,
//! order of senders) and LHCb (barrel shifter), as far as it is public; the rules are ours.

mod assign;
mod builder;
mod events;
mod flow;
mod ledger;
mod manager;
mod run;
mod source;
#[cfg(test)]
mod tests;

pub use assign::Policy;
pub use builder::{Builder, BuilderAction, BuilderConfig, Fate, Fragment};
pub use flow::{Barrel, Flow, Turn};
pub use ledger::{BuilderAccount, Drops, EventAccount, Imbalance, Ledger, SourceAccount};
pub use manager::{Manager, ManagerAction, ManagerConfig, NotAllowed, Outcome, Refused, Schedule};
pub use run::{BuilderId, Command, Part, RunState, SourceId};
pub use source::{ConfigError, Offered, Piece, Source, SourceConfig, Unoffered, WhenFull};
