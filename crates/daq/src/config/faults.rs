//! The section `[faults]`: what the generator sends faulty on purpose.

use super::model::SourceKind;
use super::quantities::time;
use super::read::Reader;
use crate::faults::Faults;

/// Reads it, and looks whether it goes with where fragments come from.
pub(super) fn read_faults(r: &mut Reader, kind: &SourceKind) -> Faults {
    let mut share = |key| r.fraction("faults", key, 0.0, 1.0);
    let mut faults = Faults {
        late: share("late"),
        twice: share("twice"),
        number: share("number"),
        size: share("size"),
        check: share("check"),
        ..Faults::default()
    };
    faults.delay = time(r, "faults", "delay");
    let keys = [
        ("late", faults.late),
        ("twice", faults.twice),
        ("number", faults.number),
        ("size", faults.size),
        ("check", faults.check),
    ];
    let first = keys.iter().find(|it| it.1 > 0.0).map(|it| it.0);
    if let Some(key) = first {
        if *kind != SourceKind::Generator {
            let wanted = "only the generator sends faulty fragments: expected 0, or source.kind = \"generator\"";
            r.fault("faults", key, wanted);
        }
        if faults.total() > 1.0 {
            r.fault("faults", key, "expected shares that are 1 together at most");
        }
    }
    faults
}
