//! The section `[flow]`: how sources send to builders.

use barewire_proto::evb::{Barrel, Flow, Schedule};
use barewire_units::{ByteSize, Instant, Rate};

use super::admission;
use super::model::Transport;
use super::quantities::{positive_time, size, time};
use super::read::Reader;
use crate::limits::PIECE_HEADER_BYTES;
use crate::shape::{LATENESS, Shaping};

#[derive(Clone, Copy)]
enum Control {
    None,
    Credits,
    Barrel,
    Bucket,
    Schedule,
    Kernel,
}

/// Flow control, the schedule and the shaping that it needs.
pub(super) fn read_flow(
    r: &mut Reader,
    sources: u16,
    builders: u16,
    piece_bytes: u64,
) -> (Flow, Option<Schedule>, Option<Shaping>) {
    let controls = [
        ("none", Control::None),
        ("credits", Control::Credits),
        ("barrel", Control::Barrel),
        ("bucket", Control::Bucket),
        ("schedule", Control::Schedule),
        ("kernel", Control::Kernel),
    ];
    let control = r.choice("flow", "control", &controls);
    let rate = r.quantity::<Rate>("flow", "rate", "rate", "1 Gbit/s");
    let rate = rate.unwrap_or(Rate::from_gbps(1));
    let whole = piece_bytes + PIECE_HEADER_BYTES as u64;
    let burst = size(r, "flow", "burst", 1, 1 << 40);
    let slot = positive_time(r, "flow", "slot");
    let lead = time(r, "flow", "lead");
    let at_once = match control {
        Control::Bucket | Control::Kernel => Some(sources),
        // It is one source's turn at a builder.
        Control::Barrel => Some(1),
        Control::None | Control::Credits | Control::Schedule => None,
    };
    admission::check(r, rate, at_once);
    let flow = match control {
        Control::None | Control::Kernel => Flow::Free,
        Control::Credits => Flow::Credits,
        Control::Bucket => {
            if burst < whole {
                let wanted = format!("expected at least {whole} B: a piece and its header");
                r.fault("flow", "burst", wanted);
            }
            Flow::Shaped {
                rate,
                burst: ByteSize::from_bytes(burst),
            }
        }
        Control::Barrel => {
            let room = rate.bytes_in(slot).as_bytes();
            if room < whole {
                let wanted = format!("{room} B go in a slot, expected room for {whole} B: a piece");
                r.fault("flow", "slot", wanted);
            }
            Flow::Barrel(Barrel {
                builders,
                period: Barrel::period_for(sources, builders),
                epoch: Instant::ORIGIN,
                slot,
                rate,
            })
        }
        Control::Schedule => Flow::Scheduled { slot },
    };
    let schedule = matches!(control, Control::Schedule).then_some(Schedule { slot, lead });
    let shaping = matches!(control, Control::Kernel).then_some(Shaping {
        rate,
        burst_bytes: burst,
    });
    (flow, schedule, shaping)
}

/// Whether the kernel can shape so.
pub(super) fn check_shaping(r: &mut Reader, shaping: Shaping, transport: Transport, pairs: u32) {
    if transport != Transport::Tcp {
        let wanted =
            "`kernel` shapes what leaves by an interface, expected run.transport = \"tcp\"";
        r.fault("flow", "control", wanted);
    }
    if pairs >= u32::from(u16::MAX) {
        let wanted = format!("{pairs} pairs of source and builder, `kernel` has 65534 classes");
        r.fault("flow", "control", wanted);
    }
    let least = shaping.rate.bytes_in(LATENESS);
    if shaping.burst_bytes < least.as_bytes() {
        let wanted = format!("expected at least {least}: what the rate sends in {LATENESS}");
        r.fault("flow", "burst", wanted);
    }
}
