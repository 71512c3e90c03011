//! Admission control: whether the rates that sources may send at fit the line of each builder.
//!
//! With `flow.line` every source reserves `flow.rate` at every builder, one after the other, by
//! [`barewire_proto::shaping::admission`]. A configuration in which one of them is refused does not
//! run: its builders' queues could only grow. `barewire lab run kek-admission` shows what it is worth.

use barewire_proto::shaping::admission::{Admission, Destination, Flow, Rejected};
use barewire_units::{Duration, Instant, Rate};

use super::quantities::read_line;
use super::read::Reader;

const BUILDER: Destination = Destination(0);

/// Reads `flow.line`, and asks for what the sources reserve: `rate` each, of so many of them at
/// once; `None` if they reserve none.
pub(super) fn check(r: &mut Reader, rate: Rate, at_once: Option<u16>) {
    let Some(line) = read_line(r, "flow") else {
        return;
    };
    let Some(at_once) = at_once else {
        let wanted = "sources reserve no rate, expected flow.control = \"bucket\", \"kernel\" \
                      or \"barrel\"";
        return r.fault("flow", "line", wanted);
    };
    if let Err((source, left_bps)) = reserve(line, rate, at_once) {
        let most = Rate::new(line.as_bps() / u64::from(at_once));
        let advice = most.map_or_else(
            || "expected fewer sources".to_owned(),
            |most| format!("expected flow.rate of at most {most}"),
        );
        let wanted = format!(
            "source {source} reserves {rate} to each builder, and {left_bps} bit/s of its line are \
             left: {advice}"
        );
        r.fault("flow", "line", wanted);
    }
}

/// The first source that a builder's line refuses, and what is left for it. One builder stands for
/// all: their lines are alike.
fn reserve(line: Rate, rate: Rate, sources: u16) -> Result<(), (u16, u64)> {
    let mut admission = Admission::new(line, Duration::MAX);
    for source in 0..sources {
        let flow = Flow(source.into());
        let asked = admission.reserve(Instant::ORIGIN, flow, BUILDER, rate);
        if let Err(Rejected::Rate { left_bps, .. }) = asked {
            return Err((source, left_bps));
        }
    }
    Ok(())
}
