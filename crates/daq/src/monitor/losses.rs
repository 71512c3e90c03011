//! What is shown of what was lost, and what must not be hidden where there is little room: drops, gaps,
//! late and faulty fragments, by their names. Zeros are not shown.

use super::picture::{Picture, all};
use crate::accounts::{BuilderReport, SourceReport, drops, fates};

/// A name and how often.
pub type Count = (&'static str, u64);

/// Of a source: fragments that it dropped.
#[must_use]
pub fn losses_of_source(report: &SourceReport) -> Vec<Count> {
    const NAMES: [&str; 6] = [
        "dropped (buffer full)",
        "dropped (too large)",
        "dropped (builder lost)",
        "dropped (withdrawn)",
        "dropped (left out)",
        "dropped (aborted)",
    ];
    let dropped = drops(&report.account.dropped);
    let dropped = NAMES.into_iter().zip(dropped.map(|it| it.1));
    let intake = &report.intake;
    let of_detector = [
        ("detector's dropped (full)", intake.overflowed),
        ("detector's dropped (order)", intake.unordered),
        ("detector's dropped (no such event)", intake.unwanted),
    ];
    not_zero(dropped.chain(of_detector))
}

/// Of a builder: fragments that are not in events, and events that are not whole.
#[must_use]
pub fn losses_of_builder(report: &BuilderReport) -> Vec<Count> {
    let account = &report.account;
    let fates = fates(account).into_iter();
    let bad = fates.filter(|(fate, _)| !matches!(*fate, "built" | "open"));
    let others = [
        ("gaps", account.gaps),
        ("out of sequence", account.out_of_sequence),
        ("missing", account.missing),
        ("cut", report.cut),
        ("wrong content", report.mismatched),
        ("wrong size", report.wrong_size),
        ("events incomplete", account.events_incomplete),
        ("events abandoned", account.events_abandoned),
        ("events not recorded or taken", report.untaken),
    ];
    not_zero(bad.chain(others))
}

/// Of the whole run: its events, and what its parts say, those that died included.
#[must_use]
pub fn losses(picture: &Picture) -> Vec<Count> {
    let events = &picture.events;
    let mut sums = vec![
        ("events incomplete", events.incomplete),
        ("events abandoned", events.abandoned),
        ("events aborted", events.aborted),
        ("triggers refused", events.refused),
    ];
    let not_live = |live: bool| u64::from(!live);
    let sources = picture.sources.iter().map(|it| not_live(it.live));
    let builders = picture.builders.iter().map(|it| not_live(it.live));
    sums.push(("sources lost", sources.sum()));
    sums.push(("builders lost", builders.sum()));
    let of_sources = all(&picture.sources).flat_map(losses_of_source);
    let of_builders = all(&picture.builders).flat_map(losses_of_builder);
    for (name, count) in of_sources.chain(of_builders) {
        match sums.iter_mut().find(|it| it.0 == name) {
            // The manager counts events itself.
            Some(_) if name.starts_with("events ") && !name.contains("recorded") => {}
            Some(sum) => sum.1 += count,
            None => sums.push((name, count)),
        }
    }
    not_zero(sums.into_iter())
}

fn not_zero(counts: impl Iterator<Item = Count>) -> Vec<Count> {
    counts.filter(|it| it.1 > 0).collect()
}

/// In words.
#[must_use]
pub fn in_words(counts: &[Count]) -> Vec<String> {
    let each = counts.iter().map(|(name, count)| format!("{name} {count}"));
    each.collect()
}

/// Lines of at most `width` columns: items one after the other, divided by `between`; lines after the first
/// begin with `indent` spaces. An item that is too long for a line goes on in the next.
#[must_use]
pub fn wrapped(items: &[String], between: &str, indent: usize, width: usize) -> Vec<String> {
    let width = width.max(1);
    let indent = indent.min(width - 1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let long = |text: &str| text.chars().count();
    let last = items.len().saturating_sub(1);
    for (at, item) in items.iter().enumerate() {
        // What divides goes with the item before it: its blanks may hang over.
        let between = if at < last { between } else { "" };
        let needed = long(&line) + long(item) + long(between.trim_end());
        if needed > width && long(&line) > indent {
            lines.push(core::mem::replace(&mut line, " ".repeat(indent)));
        }
        for letter in item.chars().chain(between.chars()) {
            if long(&line) >= width && letter != ' ' {
                lines.push(core::mem::replace(&mut line, " ".repeat(indent)));
            }
            if long(&line) < width {
                line.push(letter);
            }
        }
    }
    if !line.trim().is_empty() {
        lines.push(line);
    }
    lines.iter().map(|it| it.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_wrapped_and_nothing_is_left_out() {
        let items = ["alpha 1", "beta 22", "a word of many letters", "c"].map(str::to_owned);
        assert_eq!(wrapped(&items, ", ", 2, 80), [items.join(", ")]);
        for width in 4..40 {
            let lines = wrapped(&items, ", ", 2, width);
            assert!(lines.iter().all(|it| it.len() <= width), "{lines:?}");
            let letters = |text: &str| -> String { text.chars().filter(|it| *it != ' ').collect() };
            let all: String = lines.iter().map(|it| letters(it)).collect();
            assert_eq!(all, letters(&items.join(",")), "{lines:?}");
        }
        assert_eq!(wrapped(&items[..2], ", ", 2, 10), ["alpha 1,", "  beta 22"]);
        assert!(wrapped(&[], ", ", 2, 8).is_empty());
    }
}
