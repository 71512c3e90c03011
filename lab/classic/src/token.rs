//! The timed-token MAC of Jetstream: the rules of FDDI for who may send and how long, and
//! Jetstream's own for how a ring comes up, numbers its nodes and keeps itself clean.
//!
//! [`Station`] is one node. It decides on headers alone: a verdict for each frame that
//! arrives (copy, pass on changed or unchanged, remove), and actions for what it starts
//! itself. The bytes of the frames, the words of the link and the clock are the caller's.
//!
//! **Timed token** (iso9314-2). TRT runs down from TTRT; when it is over, `Late_Ct` counts one
//! and TRT starts again. A token with `Late_Ct` 0 is early: what is left of TRT becomes THT, and
//! TRT starts again. Any other is late: `Late_Ct` becomes 0, TRT runs on, THT is 0. Then
//! the station sends
//!
//! 1. synchronous frames, each only if it ends within what is left of the station's allotment;
//! 2. while THT is left, more synchronous frames, then asynchronous ones. THT runs only for these.
//!    A frame that has started is finished (overrun);
//!
//! and releases the token behind the last frame. A share that a station leaves unused makes the
//! token early, and so is everybody's asynchronous time. With Σ SA + D + F + token ≤ TTRT
//! ([`Budget`]) a token comes back within 2 · TTRT, and k times within (k + 1) · TTRT, so
//! in the mean within TTRT. Asynchronous access within (N − 1) · TTRT holds for frames that
//! are short against TTRT only: as TRT runs on after a late token, overruns add up unevenly.
//!
//! **Coming up** (jet93). Everybody sends FW0. The master answers FW0 with FW1; a host that
//! hears FW1 sends FW1; when FW1 is back at the master, all links are good, else it starts
//! again after a timeout. Then RING_UP counts the nodes, and each host takes the
//! count as its RID; when it is back the master knows the hosts and issues the token.
//! A RING_UP that does not come back starts it all again (ours). A link that fails, or a host
//! that joins or leaves, shows as FW0 at the master, and that too starts again. The master
//! keeps FW0 for the longest time round the ring before it hears any (ours): or it would
//! take an FW1 from before the fault for its own, and number a ring with an old station.
//!
//! **Keeping clean** (jet93). A station removes frames whose SRC_RID is its own. The master
//! sets MONITOR in each frame that it passes on and removes one that has it, so that a frame
//! whose SRC_RID was damaged passes the master once. It may reach its receiver twice.
//! A station that is sending removes whatever arrives. A token that was not seen for
//! 2 · TTRT is lost; the master issues another after its response time. A token that
//! reaches a station which holds one is removed.
//!
//! **Full duplex** (jet93): with a single host there is no token; both send when they like and
//! pass nothing on but RING_UP. That both ends must be told is ours (open).
//!
//! | state | event | next | and |
//! |---|---|---|---|
//! | Fw0 | host hears FW1, master hears FW0 | Fw1 | send FW1; master: link timeout |
//! | Fw1 | master hears FW1 | Numbering | RING_UP 0; numbering timeout |
//! | Fw1 | RING_UP passes a host | Waiting, Duplex | take the RID, start TRT |
//! | Fw1 | master's timeout | Fw0 | send FW0 |
//! | Numbering | RING_UP is back | Waiting, Duplex | issue the token |
//! | Numbering | timeout, too many hosts | Fw0 | send FW0 |
//! | Waiting | token arrives | Holding | the rules above |
//! | Holding | nothing more may be sent | Waiting | release the token |
//! | Waiting | master: token lost | Recovering | response time |
//! | Recovering | response time over | Waiting | issue a token |
//! | Recovering | token arrives after all | Holding | |
//! | any but Fw0 | link lost, FW0 heard (not: master in Fw1) | Fw0 | send FW0, forget the RID |
//! | Waiting, Holding, Duplex | RING_UP passes a host | Waiting, Duplex | take the new RID |
//! | any of a host but Fw0 | RING_UP with all RIDs taken | Fw1 | repeat, without a RID |
//!
//! Source: jet93; iso9314-2 for the timers.

use barewire_units::transitions;

mod active;
mod budget;
mod config;
mod rotation;
mod station;
#[cfg(test)]
mod test_ring;
#[cfg(test)]
mod tests;

pub use active::ActiveList;
pub use budget::{Budget, Refused};
pub use config::{Config, ConfigError, Role};
pub use station::{Action, Class, Offer, OfferError, Station, Stats, Verdict};

/// Where a station stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Sends FW0.
    Fw0,
    /// Sends FW1: the host waits for its number, the master for FW1.
    Fw1,
    /// Master: RING_UP is on its way.
    Numbering,
    /// In service, without the token.
    Waiting,
    /// Sending, with the token.
    Holding,
    /// Master: the token is lost, and the interrupt not yet served.
    Recovering,
    /// In service on a link of its own, without a token.
    Duplex,
}

/// What happens to a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host hears FW0.
    HostHearsFw0,
    /// A host hears FW1.
    HostHearsFw1,
    /// The master hears FW0.
    MasterHearsFw0,
    /// The master hears FW1.
    MasterHearsFw1,
    /// The receiver has no signal.
    LinkLost,
    /// RING_UP gave a host its number, or is back at the master.
    Numbered,
    /// As [`Event::Numbered`], on a full-duplex link.
    NumberedDuplex,
    /// RING_UP has counted more hosts than there are numbers.
    TooManyHosts,
    /// The token arrives.
    TokenArrives,
    /// The station releases the token.
    Released,
    /// Master: the token was not seen for 2 · TTRT.
    TokenLost,
    /// Master: the time set for this state is over.
    Timeout,
}

transitions! {
    State on Event {
        Fw0 + HostHearsFw1 => Fw1,
        Fw0 + MasterHearsFw0 => Fw1,
        Fw1 + HostHearsFw0 => Fw0,
        Fw1 + LinkLost => Fw0,
        Fw1 + Timeout => Fw0,
        Fw1 + MasterHearsFw1 => Numbering,
        Fw1 + Numbered => Waiting,
        Fw1 + NumberedDuplex => Duplex,
        Fw1 + TooManyHosts => Fw1,
        Numbering + MasterHearsFw0 => Fw0,
        Numbering + LinkLost => Fw0,
        Numbering + Timeout => Fw0,
        Numbering + TooManyHosts => Fw0,
        Numbering + Numbered => Waiting,
        Numbering + NumberedDuplex => Duplex,
        Waiting + HostHearsFw0 => Fw0,
        Waiting + MasterHearsFw0 => Fw0,
        Waiting + LinkLost => Fw0,
        Waiting + Numbered => Waiting,
        Waiting + TooManyHosts => Fw1,
        Waiting + TokenArrives => Holding,
        Waiting + TokenLost => Recovering,
        Holding + HostHearsFw0 => Fw0,
        Holding + MasterHearsFw0 => Fw0,
        Holding + LinkLost => Fw0,
        Holding + Numbered => Waiting,
        Holding + TooManyHosts => Fw1,
        Holding + Released => Waiting,
        Recovering + MasterHearsFw0 => Fw0,
        Recovering + LinkLost => Fw0,
        Recovering + TokenArrives => Holding,
        Recovering + Timeout => Waiting,
        Duplex + HostHearsFw0 => Fw0,
        Duplex + MasterHearsFw0 => Fw0,
        Duplex + LinkLost => Fw0,
        Duplex + NumberedDuplex => Duplex,
        Duplex + TooManyHosts => Fw1,
    }
}
