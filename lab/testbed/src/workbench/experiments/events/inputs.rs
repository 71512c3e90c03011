//! What can be asked of the experiment.

use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

pub(super) use crate::assignment::Assignment;
use crate::refuse::{inputs, up_to, up_to_time};
use crate::sizes::Distribution;
use crate::workbench::experiments::common::{LIST, MESSAGE};

const PARTS_MAX: u16 = 64;
const LARGEST: ByteSize = ByteSize::from_mib(64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    Ring,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Triggers {
    Full,
    Clocked,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Control {
    None,
    Credits,
    Barrel,
    Bucket,
    Schedule,
}

inputs! {
    #[derive(Clone, Debug)]
    pub(super) struct Inputs {
        pub(super) transport: Transport,
        pub(super) sources: u16 => 1..=PARTS_MAX,
        pub(super) builders: u16 => 1..=PARTS_MAX,
        pub(super) processors: u16 => 1..=256,
        pub(super) fragments: Vec<ByteSize> => (LIST, up_to(LARGEST)),
        pub(super) distribution: Distribution,
        pub(super) fragment_largest: ByteSize => up_to(LARGEST),
        pub(super) sigma: f64 => 0.0..=3.0,
        pub(super) events: u64 => 10..=1_000_000,
        pub(super) triggers: Triggers,
        pub(super) period: Duration => up_to_time(Duration::from_s(1)),
        pub(super) assignment: Assignment,
        pub(super) window: u32 => 1..=4096,
        pub(super) pulled_events: u32 => 1..=4096,
        pub(super) control: Control,
        pub(super) credits: u32 => 1..=1 << 20,
        pub(super) rate: Rate,
        pub(super) burst: ByteSize,
        pub(super) slot: Duration => up_to_time(Duration::from_s(1)),
        pub(super) lead: Duration => up_to_time(Duration::from_s(1)),
        pub(super) piece: ByteSize => MESSAGE,
        pub(super) source_buffer: ByteSize,
        pub(super) timeout: Duration => up_to_time(Duration::from_s(1000)),
        pub(super) room: ByteSize,
        pub(super) slice: Duration => up_to_time(Duration::from_s(1)),
        pub(super) fragment_out: Duration => up_to_time(Duration::from_s(1)),
        pub(super) make_kib: Duration => up_to_time(Duration::from_s(1)),
        pub(super) fragment_in: Duration => up_to_time(Duration::from_s(1)),
        pub(super) verify_kib: Duration => up_to_time(Duration::from_s(1)),
        pub(super) event: Duration => up_to_time(Duration::from_s(1)),
        pub(super) message: Duration => up_to_time(Duration::from_s(1)),
        pub(super) message_event: Duration => up_to_time(Duration::from_s(1)),
    }
}
